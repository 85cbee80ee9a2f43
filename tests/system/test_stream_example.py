"""The bearing monitor: what its README says, and the stream beside the windows of torch."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

import lbnn
from places import ROOT, need

MONITOR = ROOT / "examples/stream_monitor"
LINE = re.compile(r"sample +(\d+): (?:damage (-?[\d.]+) \+- ([\d.]+)|unsure \(sigma ([\d.]+)\))")


def run(*command: str | Path) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shown(command: str) -> list[str]:
    page = (MONITOR / "README.md").read_text()
    return page.partition(f"\n```console\n$ {command}\n")[2].partition("```")[0].splitlines()


def test_the_example_is_in_the_index_and_has_a_small_picture():
    assert "(stream_monitor/)" in (ROOT / "examples/README.md").read_text()
    assert (MONITOR / "monitor.png").stat().st_size < 200_000


def test_the_program_reads_sample_by_sample_and_is_unsure_of_a_loose_sensor_alone(tmp_path):
    need("make")
    need("cc")
    shutil.copytree(MONITOR, tmp_path / "example", ignore=shutil.ignore_patterns("build"))
    lines = run(
        "make", "-s", "-C", tmp_path / "example", "run", f"LBNN='{sys.executable}' -m lbnn.cli.main"
    ).splitlines()
    assert lines == shown("make -s run"), "make numbers ONLY=stream_monitor"
    found = [match for line in lines if (match := LINE.fullmatch(line))]
    signal = np.loadtxt(MONITOR / "recording.txt", dtype=np.float32)
    assert [int(match[1]) for match in found] == list(range(128, len(signal) + 1, 64)) and len(found) == len(lines)
    windows = torch.tensor(np.stack([signal[int(m[1]) - 128 : int(m[1])] for m in found]))[:, None]
    with torch.no_grad():
        mean, var = lbnn.load(MONITOR / "monitor.pt")(windows)
    for match, wanted, sigma in zip(found, mean[:, 0].tolist(), var[:, 0].sqrt().tolist(), strict=True):
        assert (match[4] is not None) == (int(match[1]) > 3 * 384), match[0]
        assert abs(float(match[3] or match[4]) - sigma) < 0.0051
        assert match[2] is None or abs(float(match[2]) - wanted) < 0.0051


def test_a_short_training_reads_the_damage(tmp_path):
    output = run(sys.executable, MONITOR / "train.py", "--quick", "--out", tmp_path)
    error, covered = re.search(r"RMSE ([\d.]+)", output), re.search(r"95 % interval ([\d.]+)%", output)
    assert error and float(error[1]) < 0.1 and covered and float(covered[1]) > 88.0
    assert (tmp_path / "recording.txt").read_text() == (MONITOR / "recording.txt").read_text()
