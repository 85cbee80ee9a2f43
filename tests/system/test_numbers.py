"""Numbers in the pages come from commands: each table that was measured names one, and the quick ones are run again."""

import re
import subprocess
from pathlib import Path

import pytest

from arduino_table import CORE
from pages import ROOT, blocks, chosen, pages, printed, rewrite
from places import need, need_file

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
OF_ROUNDING = 4.0
"""Errors such as 3.1e-07 have the same size on every processor and other digits."""
WHOLE = {"docs/deviations.md": "tools/check/analyze.py", "examples/polynomial/README.md": "run.py and report.py"}
"""Pages of which a tool writes every number; their own tests hold them to it."""
PAGES = [page for page in pages() if str(page.relative_to(ROOT)) not in WHOLE]
QUICK = {block.name: block for page in pages() for block in blocks(page) if "quick" in block.kinds}


def same_number(old: str, new: str) -> bool:
    """Counts are equal, errors of one size, other numbers equal but for their last digit."""
    first, second = (float(text.replace(",", "")) for text in (old, new))
    if "e" in old or "e" in new:
        return first == second or max(first, second) <= OF_ROUNDING * min(first, second)
    step = 10.0 ** -len(new.partition(".")[2]) if "." in new else 0.0
    return abs(first - second) <= 1.01 * step


def agree(old: str, new: str) -> bool:
    """The same words and, one by one, the same numbers."""
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (old, new)]
    return words[0] == words[1] and all(map(same_number, NUMBER.findall(old), NUMBER.findall(new)))


@pytest.mark.parametrize(
    ("old", "new", "equal"),
    [
        ("| 44,119 | 1.25 |", "| 44,119 | 1.26 |", True),
        ("| 44,119 |", "| 44,120 |", False),
        ("| 1.25 |", "| 1.27 |", False),
        ("| 3.1e-07 |", "| 4.4e-07 |", True),
        ("| 3.1e-07 |", "| 3.1e-06 |", False),
        ("covers 72.7%", "covers 75.4%", False),
        ("M1: 5", "M2: 5", False),
        ("a   5", "a 5", True),
    ],
)
def test_a_number_that_differs_by_more_than_rounding_is_noticed(old, new, equal):
    assert agree(old, new) == equal


COMPILERS = {"gcc 12": "arm-none-eabi-gcc", "avr-gcc 5": "avr-gcc"}


def major_version(gcc: str) -> str:
    done = subprocess.run([need(gcc), "-dumpversion"], capture_output=True, text=True, check=True)
    return done.stdout.partition(".")[0]


@pytest.mark.parametrize("name", QUICK)
def test_the_command_of_a_block_still_prints_it(name):
    block = QUICK[name]
    for kind in block.kinds & COMPILERS.keys():
        if major_version(COMPILERS[kind]) != kind.split()[-1]:
            pytest.skip("another version of gcc counts other instructions")
    if "arduino core" in block.kinds:
        need("simavr")
        need_file(CORE / "cores/arduino/Arduino.h", "arduino-core-avr")
    now = printed(block)
    assert agree(block.body, now), f"make numbers ONLY={block.page.name}\n{now}"


def test_every_block_names_a_program_that_is_there():
    for page in pages():
        for block in blocks(page):
            program, *words = block.command.split()
            assert program in ("python", "lbnn", "make"), block.name
            assert program != "python" or (block.folder / words[0]).is_file(), block.name
            assert block.body, f"{block.name}: make numbers"


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_marker_is_closed_and_understood(page):
    begun = re.findall(r"^<!-- (?:numbers|console): ", page.read_text(), re.M)
    assert len(begun) == len(list(blocks(page))) == len(re.findall("^<!-- end of n", page.read_text(), re.M))


def test_a_block_is_replaced_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    end = "<!-- end of numbers -->\n"
    text = f"a\n<!-- numbers: make x; quick -->\n1\n{end}b\n<!-- numbers: make y -->\n{end}"
    page.write_text(text)
    first, second = blocks(page)
    assert (first.command, first.kinds, first.body) == ("make x", {"quick"}, "1\n")
    assert (second.command, second.kinds, second.body) == ("make y", set(), "")
    rewrite(second, "2\n")
    rewrite(first, "3\n")
    assert page.read_text() == text.replace("\n1\n", "\n3\n").replace("y -->\n", "y -->\n2\n")


def test_long_runs_and_times_are_measured_only_where_they_are_asked_for():
    assert not any(block.kinds & {"long", "times"} for block in chosen(set(), ""))
    assert {"times"} <= set.intersection(*(set(block.kinds) for block in chosen({"times"}, "")))


# ---- form -------------------------------------------------------------------------------------------------------

MEASURED = re.compile(
    r"^\**(?:over |about |at least )?-?[\d,]*\.?\d+(?:e-?\d+)?(?: ?(?:B|KB|MB|us|ms|s|sd|%|times|passes|\(.*\)))*\**$"
)
STATED = "<!-- stated: "
"""In front of a table whose numbers are no measurement, with what they are."""


def unmarked_tables(text: str) -> list[str]:
    """The first lines of tables that hold numbers and stand in no block and behind no word that says what they are."""
    text = re.sub(r"<!-- (?:numbers|console|table): .*?<!-- end of (?:numbers|table) -->", "", text, flags=re.S)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    found = []
    for table in re.finditer(r"(?:^\|.*\|\n)+", text, re.M):
        cells = [cell.strip() for line in table[0].splitlines()[2:] for cell in line.strip("|").split("|")[1:]]
        lines = text[: table.start()].rstrip("\n").splitlines()
        if any(map(MEASURED.match, cells)) and not (lines and lines[-1].startswith(STATED)):
            found.append(table[0].splitlines()[0])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_table_with_numbers_says_which_command_prints_it(page):
    found = unmarked_tables(page.read_text())
    assert not found, f"put {found} between <!-- numbers: COMMAND --> and its end, or {STATED}WHAT --> in front of it"


def test_a_table_of_numbers_without_a_command_is_noticed():
    table = "| a | b |\n|---|---|\n| x | 1.7e-7 |\n"
    assert unmarked_tables(f"text\n\n{table}") == ["| a | b |"]
    assert unmarked_tables(f"<!-- numbers: make x -->\n{table}<!-- end of numbers -->\n") == []
    assert unmarked_tables(f"{STATED}limits -->\n{table}") == []
    assert unmarked_tables("| a | b |\n|---|---|\n| 7 | words, 7 of them |\n") == []


PROSE = re.compile(r"\d{1,3}(?:,\d{3})+|\d+\.\d+ ?%|\d\.\d+e-\d+|\d+\.\d+ times")
SOURCE = re.compile(r"\b(?:make|pytest|python3?|lbnn) [\w-]|\b(?:tests|tools|examples)/[\w/]+\.(?:py|json)|\w+\.md\b")


def unfounded(text: str) -> list[str]:
    """The headings of sections with measured numbers that name no command, test or page."""
    sections = re.split(r"^(?=#+ )", re.sub(r"^```c\n.*?^```$", "", text, flags=re.S | re.M), flags=re.M)
    return [part.splitlines()[0] for part in sections if PROSE.search(part) and not SOURCE.search(part)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_section_with_numbers_names_a_command_or_a_test(page):
    assert unfounded(page.read_text()) == []


def test_a_section_with_numbers_from_nowhere_is_noticed():
    assert unfounded("# A\n\nIt takes 44,119 instructions.\n\n## B\n\n`make bench` says 44,119.\n") == ["# A"]


# ---- promises ---------------------------------------------------------------------------------------------------

SECURITY = ROOT / "SECURITY.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")


def promises() -> list[str]:
    """The points of the sections that promise."""
    text = SECURITY.read_text().partition("\n## Reporting")[0]
    return re.findall(r"^- .+?(?=^- |^$|\Z)", text, re.M | re.S)


@pytest.mark.parametrize("promise", promises(), ids=lambda promise: " ".join(promise.split()[1:7]))
def test_a_promise_names_tests_that_exist(promise):
    named = TEST.findall(promise)
    assert any(test for _, test in named), "names no test"
    missing = [f"{file}::{test}" for file, test in named if f"def {test}(" not in _source(file)]
    assert missing == []


def _source(file: str) -> str:
    path = Path(ROOT / file)
    return path.read_text() if path.exists() else ""


def test_nothing_is_promised_outside_of_a_point():
    assert len(promises()) >= 12
