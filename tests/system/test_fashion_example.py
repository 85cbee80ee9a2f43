"""The comparison on Fashion-MNIST: its code on a tiny made set, its stored results against what is promised of them."""

from __future__ import annotations

import csv
import gzip
import importlib
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lbnn
from places import ROOT

FOLDER = ROOT / "examples" / "fashion"
METHODS = {"plain", "dropout", "one pass", "ensemble"}
PROMISED = {"MLP": (0.855, 0.41, 0.02), "LeNet": (0.865, 0.37, 0.025)}
"""Of one pass over five seeds: accuracy at least, NLL and ECE at most."""


def run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(FOLDER / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)


def write_idx(path: Path, array: np.ndarray) -> None:
    lengths = np.array(array.shape, ">i4").tobytes()
    path.write_bytes(gzip.compress(bytes([0, 0, 8, array.ndim]) + lengths + array.tobytes(), 1))


def made_set(folder: Path) -> Path:
    """Ten classes, each a bright patch of its own on noise, in the files of Fashion-MNIST."""
    rng = np.random.default_rng(0)
    for name, count in (("train", 200), ("t10k", 60)):
        labels = rng.integers(0, 10, count).astype(np.uint8)
        images = rng.integers(0, 120, (count, 28, 28)).astype(np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[2 + 12 * (label // 5) : 14 + 12 * (label // 5), 5 * (label % 5) : 5 * (label % 5) + 6] += 130
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", labels)
    return folder


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_whole_comparison_runs_on_a_made_set_and_goes_on_where_it_was(tmp_path):
    data, out = made_set(tmp_path), tmp_path / "out"
    options = ("--data", data, "--out", out, "--seeds", "1")
    training = (*options, "--images", "200", "--epochs", "3", "--workers", "1")
    done = run("run.py", *training)
    assert done.returncode == 0 and "10 networks, 0 already done" in done.stdout, done.stderr
    (out / "MLP-plain-2.npz").unlink()
    assert "10 networks, 9 already done" in run("run.py", *training).stdout
    assert (out / "MLP-plain-2.npz").exists()
    done = run("report.py", "collect", *options, "--place", tmp_path)
    assert done.returncode == 0, done.stderr
    found = {(row["network"], row["method"]): row for row in rows(tmp_path / "results.csv")}
    assert {*found} == {(network, method) for network in PROMISED for method in METHODS}
    assert float(found["MLP", "one pass"]["accuracy"]) > 0.5 < float(found["MLP", "ensemble"]["accuracy"])
    assert (tmp_path / "abstention.png").exists() and (tmp_path / "foreign.png").exists()


def test_without_the_data_one_line_names_the_package(tmp_path):
    done = run("run.py", "--data", tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert "apt-get install dataset-fashion-mnist" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_damaged_file_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    data = importlib.import_module("data")
    file = made_set(tmp_path) / "t10k-images-idx3-ubyte.gz"
    assert data.read_fashion(tmp_path, 50).train[0].shape == (50, 1, 28, 28)
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes())[:-5]))
    with pytest.raises(lbnn.LbnnError, match="is cut off; install dataset-fashion-mnist anew"):
        data.read_fashion(tmp_path)


@pytest.mark.parametrize("network", PROMISED)
def test_one_pass_keeps_what_is_promised_over_five_seeds(network):
    stored = [row for row in rows(FOLDER / "results.csv") if row["network"] == network]
    assert {(row["method"], row["seed"]) for row in stored} == {(m, str(seed)) for m in METHODS for seed in range(5)}
    accuracy, nll, ece = (
        statistics.mean(float(row[name]) for row in stored if row["method"] == "one pass")
        for name in ("accuracy", "nll", "ece")
    )
    least, most, off = PROMISED[network]
    assert accuracy >= least and nll <= most and ece <= off


def test_the_readme_says_that_an_ensemble_is_better_and_that_is_so():
    stored = rows(FOLDER / "results.csv")
    for network in PROMISED:
        nll = {
            method: [float(row["nll"]) for row in stored if (row["network"], row["method"]) == (network, method)]
            for method in METHODS
        }
        assert statistics.mean(nll["ensemble"]) < statistics.mean(nll["one pass"]) < statistics.mean(nll["plain"])
    assert "**An ensemble of three is better.**" in (FOLDER / "README.md").read_text()
