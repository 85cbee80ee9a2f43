"""The example from a plain torch network to a classifying core runs as its README says, and is short."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from places import ROOT

FOLDER = ROOT / "examples" / "from_torch"


def test_it_is_under_sixty_lines_and_uses_what_people_have():
    text = (FOLDER / "lenet.py").read_text()
    assert len(text.splitlines()) < 60
    assert all(layer in text for layer in ("nn.MaxPool2d", "nn.ReLU6", "nn.Softmax", "lbnn.from_torch"))


def test_a_plain_lenet_becomes_bayesian_and_classifies_with_entropy_on_an_emulated_core(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(FOLDER / "lenet.py"), "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    accuracies = re.search(r"plain ([\d.]+)%, Bayesian ([\d.]+)%", done.stdout)
    assert accuracies and min(map(float, accuracies.groups())) > 90.0
    assert re.search(r"^cortex-m4 .* ok ", done.stdout, re.M), done.stdout
    said = re.findall(r"^a (\d): (\d|unsure) \((\d+)%, entropy ([\d.]+)\)$", done.stdout, re.M)
    assert len(said) == 4 and sum(truth == label for truth, label, *_ in said) >= 3
    assert len(re.findall(r"^noise: .*entropy [\d.]+\)$", done.stdout, re.M)) == 2
    assert re.search(r"^[\d,]+ instructions for a picture on a Cortex-M4F$", done.stdout, re.M)
    assert (tmp_path / "lenet" / "lenet.c").exists()
