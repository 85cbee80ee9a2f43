"""The table of docs/ecosystem.md is what tests recorded: the worst of their outcomes, each at its version."""

import json
import re
from types import SimpleNamespace

import pytest

import ecosystem
import tried
from places import ROOT

ROW = {"name": "C: a", "how": "built", "version": "1", "result": "runs"}


@pytest.fixture
def rows(monkeypatch, tmp_path):
    monkeypatch.setattr(tried, "ROWS", {})
    monkeypatch.setattr(tried, "RECORD", tmp_path / "out/record.json")
    return tried.ROWS


def hear(outcome, when="call", **more):
    properties = [("ecosystem", ROW), *more.items()]
    report = SimpleNamespace(user_properties=properties, when=when, outcome=outcome, passed=outcome == "passed")
    tried.pytest_runtest_logreport(report)


@pytest.mark.parametrize(
    ("outcomes", "result"),
    [
        (["passed", "passed"], "runs"),
        (["passed", "failed", "passed"], "**fails**"),
        (["skipped", "passed"], "not tried: not installed"),
    ],
)
def test_a_row_holds_where_all_its_tests_hold(rows, outcomes, result):
    for outcome in outcomes:
        hear(outcome)
    assert rows == {"C: a": {"how": "built", "version": "1", "result": result}}


def test_what_only_the_test_knows_comes_with_its_report(rows):
    hear("passed", version="2.5", result="runs fast")
    assert rows["C: a"] == {"how": "built", "version": "2.5", "result": "runs fast"}


def test_a_test_that_got_no_further_than_its_setup_counts_and_a_setup_alone_does_not(rows):
    hear("passed", when="setup")
    assert not rows
    hear("skipped", when="setup")
    assert rows["C: a"]["result"] == "not tried: not installed"


def test_a_run_adds_to_what_others_recorded_and_a_worker_writes_nothing(rows):
    hear("passed")
    tried.pytest_sessionfinish(SimpleNamespace(config=SimpleNamespace(workerinput={})))
    assert not tried.RECORD.exists()
    tried.RECORD.parent.mkdir()
    tried.RECORD.write_text(json.dumps({"C: b": {}, "C: a": {}}))
    tried.pytest_sessionfinish(SimpleNamespace(config=SimpleNamespace()))
    assert json.loads(tried.RECORD.read_text()) == {"C: b": {}, **rows}


def test_versions_are_those_of_pins_and_of_programs():
    assert re.fullmatch(r"west \d+\.\d+\.\d+", tried.pinned("west"))
    assert tried.installed("no-such-program") == "" and re.fullmatch(r"python3 3\.\d+", tried.installed("python3"))


def test_the_table_is_in_the_order_of_names():
    cells = {"how": "h", "version": "v", "result": "r"}
    lines = ecosystem.table({"b": cells, "A": cells, "c": cells}).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| A", "| b", "| c"]


CELLS = {"how": "h", "version": "1", "result": "runs"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "2"}, []),
        ({"result": "**fails**"}, ["- b | h | runs", "+ b | h | **fails**"]),
        ({"how": "i"}, ["- b | h | runs", "+ b | i | runs"]),
    ],
)
def test_the_check_sees_all_but_versions(change, said):
    page = f"# x\n\n{ecosystem.table({'a': CELLS, 'b': CELLS})}\nend\n"
    assert ecosystem.differences(page, {"a": CELLS, "b": CELLS | change}) == said


def test_the_check_sees_rows_that_are_only_there_or_only_here():
    page = ecosystem.table({"a": CELLS})
    assert ecosystem.differences(page, {"b": CELLS}) == ["- a | h | runs", "+ b | h | runs"]


@pytest.mark.parametrize(("page", "status"), [("runs", 0), ("**fails**", 1)])
def test_a_page_that_says_another_thing_fails_the_check(monkeypatch, tmp_path, page, status):
    for name, text in (
        ("RECORD", json.dumps({"a": CELLS})),
        ("PAGE", ecosystem.table({"a": CELLS | {"result": page}})),
    ):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(ecosystem, name, tmp_path / name)
    monkeypatch.setattr("sys.argv", ["ecosystem.py", "check"])
    if not status:
        ecosystem.main()
        return
    with pytest.raises(SystemExit, match="write it anew"):
        ecosystem.main()


def test_every_ecosystem_that_a_test_names_is_on_the_page():
    page = (ROOT / "docs/ecosystem.md").read_text()
    marks = [re.findall(r'ecosystem\(\s*"(.*?)"', path.read_text()) for path in (ROOT / "tests").rglob("test_*.py")]
    names = {name for found in marks for name in found}
    assert len(names) > 10 and {name for name in names if f"| {name} |" not in page} == set()
