"""The cells of the notebook run one after the other, and show what the text around them says."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from places import ROOT, need, need_package

NOTEBOOK = ROOT / "examples/notebook/first_steps.ipynb"


def cells(kind: str) -> list[str]:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert found["nbformat"] == 4
    return ["".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == kind]


def show(source: str, known: dict[str, Any]) -> Any:
    """Runs a cell; what its last line gives is what a notebook shows below it."""
    tree = ast.parse(source)
    *before, last = tree.body
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "cell", "exec"), known)  # noqa: S102
        return None
    exec(compile(ast.Module(before, []), "cell", "exec"), known)  # noqa: S102
    return eval(compile(ast.Expression(last.value), "cell", "eval"), known)  # noqa: S307


def test_its_cells_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    need_package("matplotlib").use("Agg")
    need("cc")
    monkeypatch.chdir(tmp_path)
    known: dict[str, Any] = {}
    shown = [show(source, known) for source in cells("code")]
    assert "±" in repr(shown[2]) and shown[2].shape == (5, 1)
    variance = shown[2].var.ravel()
    assert variance[0] > variance[1] and variance[4] > variance[3], "the band widens outside"
    held = known["lbnn"].metrics.coverage(known["held_out"], known["y_new"][100:], (0.95,))
    assert known["result"].validation and held[0.95] >= 0.88
    assert (tmp_path / "notebook.png").stat().st_size > 10_000 and "wave.c" in shown[-1]
    assert np.abs(known["mean"] - known["model"](known["grid"]).mean.detach().numpy()).max() < 1e-5
    printed = capsys.readouterr().out
    assert "90 % between" in printed and "C and torch differ by" in printed


def test_it_holds_no_results_of_one_machine_and_its_words_come_before_its_code() -> None:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in found if "outputs" in cell)
    assert found[0]["cell_type"] == "markdown" and len(cells("markdown")) >= 6
