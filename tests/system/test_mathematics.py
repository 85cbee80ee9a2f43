"""The table of the paper's equations in docs/mathematics.md names code and tests that exist."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path

import pytest

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").exists())
PAGE = ROOT / "docs" / "mathematics.md"
TOPICS = (
    "fully connected",
    "convolution",
    "average pooling",
    "leaky-ReLU",
    "ELBO",
    "KL by Monte Carlo",
    "KL decay",
    "spike and slab",
    "embedded total variance",
    "learned-variance head",
)


def rows() -> dict[str, list[str]]:
    """The cells of each row, by the first."""
    table = PAGE.read_text().split("<!-- table: the paper's equations -->")[1].split("<!-- end of table -->")[0]
    lines = [line.strip("|").split("|") for line in table.strip().splitlines()[2:]]
    return {cells[0].strip(): [cell.strip() for cell in cells] for cells in lines}


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def defined(path: str) -> set[str]:
    """The functions and classes of a file; a missing file defines nothing."""
    file = ROOT / path
    return {node.name for node in ast.parse(file.read_text()).body if hasattr(node, "name")} if file.exists() else set()


def test_every_equation_of_the_paper_has_a_row_with_place_code_and_test():
    assert set(TOPICS) <= set(rows())
    for cells in rows().values():
        assert len(cells) == 6
        assert all(cells[:5]), cells[0]


@pytest.mark.parametrize("topic", rows())
def test_the_code_of_an_equation_exists(topic):
    path, *names = quoted(rows()[topic][3])
    assert names
    assert not set(names) - defined(path), f"{path} lacks {set(names) - defined(path)}"


@pytest.mark.parametrize("topic", rows())
def test_the_tests_of_an_equation_exist(topic):
    cited = quoted(rows()[topic][4])
    assert cited
    for test in cited:
        path, name = test.split("::")
        assert name in defined(path), test


def test_every_erratum_in_the_table_is_explained():
    letters = {letter for cells in rows().values() for letter in re.findall(r"[a-z]", cells[5])}
    explained = set(re.findall(r"^- \*\*([a-z])\.\*\*", PAGE.read_text(), re.MULTILINE))
    assert letters == explained


def test_the_numbers_of_the_errata_are_those_of_their_formulas():
    noise, weights = 0.04, 0.09
    matched = -0.5 * math.log(2 * math.pi * (noise + weights))
    expected = -0.5 * math.log(2 * math.pi * noise) - 0.5 * weights / noise
    ideal = math.log(0.1) + (math.log(2 * math.pi) + 1) / 2
    text = " ".join(PAGE.read_text().split())
    assert f"it is {matched:.2f} where the expectation is {expected:.2f};" in text.replace("and y = mu ", "")
    assert f"(log 2 pi + 1)/2 = {ideal:.4f} nats" in text
    assert f"= **{ideal:.4f} nats**" in (ROOT / "examples/polynomial/README.md").read_text()
