"""cppcheck with MISRA, clang-tidy and gcc -fanalyzer find nothing but the documented deviations."""

from __future__ import annotations

from pathlib import Path

import pytest

import analyze
from c_models import export
from places import need


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    for name in analyze.TOOLS:
        need(name)


def test_nothing_is_found_but_documented_deviations(tmp_path: Path) -> None:
    found = analyze.analyze([export("zoo", tmp_path / "zoo", input_variance=True)])
    assert {finding.rule for finding in found} == set(analyze.DEVIATIONS)


FAULTS = {
    "cppcheck": ("uninitvar", "float f(void);\nfloat f(void)\n{\n    float x;\n    return x + 1.0f;\n}\n"),
    "clang-tidy": (
        "clang-analyzer-core.NullDereference",
        "float f(int n);\nfloat f(int n)\n{\n    const float *x = 0;\n    return n > 0 ? *x : 0.0f;\n}\n",
    ),
    "gcc": (
        "-Wanalyzer-null-dereference",
        "float f(int n);\nfloat f(int n)\n{\n    const float *x = 0;\n    return n > 0 ? *x : 0.0f;\n}\n",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_tool_finds_a_seeded_fault(name: str, tmp_path: Path) -> None:
    rule, text = FAULTS[name]
    source = tmp_path / "fault.c"
    source.write_text(text)
    found = analyze.findings(analyze.TOOLS[name]([source]))
    assert rule in {finding.rule for finding in analyze.undocumented(sorted(found, key=str))}


def test_a_finding_is_read_whatever_the_path() -> None:
    (found,) = analyze.findings("/a folder/x.c:3:5: warning: what it is [some-rule]\nmore about it [not-a-rule]\n")
    assert found == analyze.Finding("some-rule", "/a folder/x.c:3", "warning: what it is")


def test_the_page_of_deviations_is_that_of_the_tool() -> None:
    assert analyze.PAGE.read_text() == analyze.page(), "run python tools/check/analyze.py --update"
