"""The example for an edge device runs where neither torch nor lbnn nor onnx exists."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys

import numpy as np
import pytest

import lbnn
from lbnn.graph.reference import predict
from places import ROOT

FOLDER = ROOT / "examples" / "edge_onnx"

WITHOUT = """
import importlib.abc, runpy, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "lbnn", "onnx", "scipy", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for name in ("torch", "lbnn", "onnx"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{name} can be imported")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def monitor(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """monitor.py in an isolated interpreter that can't import what an edge device does not have."""
    command = [sys.executable, "-I", "-c", WITHOUT, str(FOLDER / "monitor.py"), str(FOLDER / "gas_sensor.onnx")]
    return subprocess.run([*command, *arguments], input=stdin, capture_output=True, text=True, timeout=120)


def readings() -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((FOLDER / "readings.csv").read_text())))


def test_each_line_is_the_model_s_prediction_and_the_unsure_ones_are_flagged():
    done = monitor(stdin=(FOLDER / "readings.csv").read_text())
    assert done.returncode == 0, done.stderr
    graph = lbnn.read_model(FOLDER / "gas_sensor.pt").graph
    want = predict(graph, np.array([[float(row["volts"]), float(row["celsius"])] for row in readings()]))
    lines = done.stdout.splitlines()
    assert len(lines) == len(readings())
    for line, row, mean, sigma in zip(lines, readings(), want.mean[:, 0], np.sqrt(want.var[:, 0]), strict=True):
        time, shown_mean, _, shown_sigma, *_ = line.split()
        assert time == row["time"]
        assert float(shown_mean) == pytest.approx(mean, abs=0.051)
        assert float(shown_sigma) == pytest.approx(sigma, abs=0.051)
        assert ("TOO UNCERTAIN" in line) == (sigma > 5.0)


def test_the_readme_shows_lines_of_what_it_prints():
    done = monitor(stdin=(FOLDER / "readings.csv").read_text())
    page = (FOLDER / "README.md").read_text()
    shown = [line[4:] for line in page.splitlines() if re.match(r"     ?\d+(:| of)", line)]
    assert len(shown) == 3 and not {*shown} - {*done.stdout.splitlines(), *done.stderr.splitlines()}


def test_what_lies_far_from_the_training_data_is_flagged_and_nothing_else():
    lines = monitor(str(FOLDER / "readings.csv")).stdout.splitlines()
    flagged = [row for line, row in zip(lines, readings(), strict=True) if "TOO UNCERTAIN" in line]
    assert flagged and all(float(row["celsius"]) > 35.0 for row in flagged)
    assert all(row in flagged for row in readings() if float(row["celsius"]) > 45.0)


def test_the_limit_is_an_option():
    assert monitor(str(FOLDER / "readings.csv"), "--limit", "1000").stdout.count("TOO UNCERTAIN") == 0
    assert "72 of 72 readings are too uncertain" in monitor(str(FOLDER / "readings.csv"), "--limit", "0").stderr


def test_the_script_is_short():
    assert len((FOLDER / "monitor.py").read_text().splitlines()) <= 40
