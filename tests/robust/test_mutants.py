"""The faults of tools/check/faults fit the source, and the runner tells a fault that is caught from one that is not.

`make mutants` tries all of them.
"""

import ast
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from mutants import Fault, joined, mutated, parse, read_faults, try_fault
from mutants_run import run_tests
from places import ROOT, need

ALL = read_faults()
LEAST = {
    "formulas": 20,
    "kernels": 35,
    "templates": 10,
    "planner": 15,
    "backends": 15,
    "files": 5,
    "device": 20,
    "training": 40,
}


@pytest.mark.parametrize("fault", ALL, ids=lambda fault: fault.name)
def test_a_fault_fits_its_file_and_names_tests_that_exist(fault):
    text = (ROOT / fault.file).read_text()
    changed = mutated(text, fault)
    assert changed != text
    if fault.file.endswith(".py"):
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    assert fault.tests and all((ROOT / test.split()[0].split("::")[0]).is_file() for test in fault.tests)


def test_there_are_faults_of_every_kind_and_in_every_header():
    assert len({fault.name for fault in ALL}) == len(ALL) >= 200
    count = Counter(fault.area for fault in ALL)
    assert all(count[area] >= least for area, least in LEAST.items())
    assert {path.name for path in (ROOT / "c_runtime").glob("*.h")} <= {Path(fault.file).name for fault in ALL}


@pytest.mark.parametrize("page", ["Makefile", "CONTRIBUTING.md"])
def test_pages_that_say_how_many_there_are_are_not_far_behind(page):
    (stated,) = re.findall(r"over (\d+) (?:small )?faults", (ROOT / page).read_text())
    assert int(stated) < len(ALL) <= int(stated) + 50


WRITTEN = """
# Comments, and tests for all faults up to the next line of this kind.

file a.py
test tests/test_a.py -k one
test tests/test_a.py -k two

a line is lost
-2     x = 1
-     y = 2
+     x = 1

a word is lost
-  or y
+
"""


def test_faults_are_written_like_a_diff():
    first, second = parse(WRITTEN, "area")
    assert (first.title, first.occurrence, second.occurrence) == ("a line is lost", 2, 0)
    assert (first.old, first.new) == ("    x = 1\n    y = 2", "    x = 1")
    assert (second.old, second.new) == (" or y", "")
    assert first.tests == second.tests == ("tests/test_a.py -k one", "tests/test_a.py -k two")


@pytest.mark.parametrize("below", ["a line is lost", "a word is lost", "file a.py"])
def test_a_fault_that_lost_the_blank_line_above_it_is_noticed(below):
    text = WRITTEN + "\n" + WRITTEN.partition("kind.\n\n")[2]
    before, found, after = text.rpartition(f"\n\n{below}\n")
    assert found and len(list(parse(text, "area"))) == 4
    with pytest.raises(AssertionError, match=r"blank line above|begin with"):
        list(parse(f"{before}\n{below}\n{after}", "area"))


def test_without_a_fault_each_file_of_tests_is_run_once():
    assert joined(["a.py -k 'x and y'", "a.py -k z", "b.py", "b.py -k z"]) == ["a.py -k '(x and y) or (z)'", "b.py"]


def test_an_old_text_that_is_missing_or_not_the_only_one_is_an_error():
    fault = Fault("area", "a.py", "title", "x", "y", 0, ())
    assert mutated("a x b", fault) == "a y b"
    assert mutated("x x x", replace(fault, occurrence=2)) == "x y x"
    for text, occurrence in (("a b", 0), ("x x", 0), ("x x", 3)):
        with pytest.raises(ValueError, match="occurs"):
            mutated(text, replace(fault, occurrence=occurrence))


OUTCOMES = """
import time

def test_passes(): pass

def test_fails(): assert False

def test_hangs(): time.sleep(60)

def test_uses_what_is_installed(): import lbnn
"""


def test_the_runner_tells_a_failure_from_a_pass_and_from_one_that_never_ends(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "test_outcomes.py").write_text(OUTCOMES)
    assert run_tests(tree, "test_outcomes.py -k passes") == ""
    assert run_tests(tree, "test_outcomes.py -k 'passes or fails'") == "test_outcomes.py::test_fails"
    assert run_tests(tree, "test_outcomes.py -k hangs", limit=2.0, slack=1.0) == "hangs"
    for selection, message in (
        ("-k nothing", "deselected"),
        ("no_such_file.py", "not found"),
        ("-k uses", "not the copy"),
    ):
        with pytest.raises(ValueError, match=message):
            run_tests(tree, f"test_outcomes.py {selection}" if selection[0] == "-" else selection)


def test_tests_that_take_more_memory_than_they_may_are_ended(tmp_path, monkeypatch):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "test_outcomes.py").write_text(OUTCOMES)
    monkeypatch.setattr("mutants_run.MOST_MEMORY", 1 << 20)
    assert run_tests(tree, "test_outcomes.py -k hangs", limit=600) == "hangs"  # in that time it would pass


@pytest.mark.parametrize(
    "setting",
    ["PYTEST_ADDOPTS=-rs", "PYTEST_ADDOPTS=-k nothing", "PYTEST_ADDOPTS=-p no:terminal", "PYTEST_ADDOPTS=--co"]
    + ["FORCE_COLOR=1"],
)
def test_the_callers_settings_of_pytest_are_not_for_the_runner(tmp_path, monkeypatch, setting):
    monkeypatch.setenv(*setting.split("=", 1))
    test_the_runner_tells_a_failure_from_a_pass_and_from_one_that_never_ends(tmp_path)


LINEAR = "tests/c_runtime/test_kernels.py::test_linear[gcc-O0-shape2]"
FOLD = "tests/graph/test_passes.py::test_a_shift_is_not_folded_into_the_gaussian_weights_behind_it[1.0]"


@pytest.mark.parametrize(
    ("file", "title", "test"),
    [
        ("c_runtime/lbnn_linear.h", "the weights begin within the bias", LINEAR),
        ("lbnn/graph/passes.py", "a shift is folded into the weights behind it", FOLD),
    ],
)
def test_a_fault_is_caught_in_a_copy_and_the_checkout_stays(file, title, test):
    need("gcc")
    before = (ROOT / file).read_text()
    (fault,) = [fault for fault in ALL if (fault.file, fault.title) == (file, title)]
    result = try_fault(ROOT, replace(fault, tests=(test,)), narrow=True)
    assert (result.verdict, result.by) == ("caught", test)
    assert (ROOT / file).read_text() == before


def test_a_change_that_harms_nothing_survives():
    harmless = Fault("area", "lbnn/graph/passes.py", "a comment", '"""Passes: ', '"""The passes: ', 0, (FOLD,))
    assert try_fault(ROOT, harmless, narrow=True).verdict == "survived"


def test_a_change_that_the_compiler_refuses_is_no_fault():
    need("gcc")
    unused = Fault("area", "c_runtime/lbnn_pool.h", "unused", "float sum = 0.0f;", "float sum = 0.0f, rest;", 0, ())
    result = try_fault(ROOT, unused, narrow=True)
    assert result.verdict == "refused" and "unused variable" in result.by
