"""The keyword spotter: its sounds, a short training, and what its README says of the stored model."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import lbnn
from places import ROOT

FOLDER = ROOT / "examples" / "keyword"


def run(*arguments: str | Path) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(FOLDER / "train.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ratios(text: str, rule: str) -> list[float]:
    """Median, 5 %, 95 %, least and most of the standard deviations over those of drawn networks."""
    found = re.search(rf"^{rule}" + 5 * r" +([\d.]+)", text, re.M)
    assert found, text
    return [float(number) for number in found.groups()]


def test_the_readme_shows_every_logit_within_the_promise_and_the_independent_rule_outside_of_it():
    page = (FOLDER / "README.md").read_text()
    assert all(0.7 <= ratio <= 1.3 for ratio in ratios(page, "correlated"))
    assert ratios(page, "independent")[1] < 0.7


def test_the_stored_model_s_variances_are_those_of_drawn_networks(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    sounds = importlib.import_module("sounds")
    model, (x, y) = lbnn.load(FOLDER / "keyword.pt"), sounds.recordings(16, seed=5)
    given = torch.from_numpy(x)
    drawn = lbnn.montecarlo.monte_carlo(model, given, 400, torch.Generator().manual_seed(0))
    ratio = (drawn.one_pass.var / drawn.sampled.var).sqrt()
    assert float(ratio.min()) >= 0.7 and float(ratio.max()) <= 1.3
    with torch.no_grad():
        assert float((model(given).label == torch.from_numpy(y)).float().mean()) > 0.8


def test_a_short_training_runs_and_its_model_is_exported_and_agrees(tmp_path):
    text = run("--quick", "--out", tmp_path)
    together, apart = (ratios(text, rule)[0] for rule in ("correlated", "independent"))
    assert together > 1.1 * apart and abs(together - 1.0) < abs(apart - 1.0)
    assert (tmp_path / "keyword.png").exists()
    compiled = lbnn.compile(tmp_path / "keyword.pt", flags=("-O1",))
    x = np.random.default_rng(0).normal(0.0, 3.0, (3, 1, 49, 10)).astype(np.float32)
    with torch.no_grad():
        want = lbnn.load(tmp_path / "keyword.pt")(torch.from_numpy(x))
    assert compiled.classify(x).probability == pytest.approx(want.probability.numpy(), abs=1e-4)
