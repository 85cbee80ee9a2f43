"""Prints how long the first call of a compiled network takes: Linear and one layer, by the default backend.

    python tools/bench/compile_times.py ReLU SoftmaxHead ELU Hardswish    # processor seconds of one core

Each is measured in a process of its own, for torch keeps what it has compiled; so does its folder on the disk, which is
a new one here.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

import torch

from lbnn import nn as bnn

USUAL = ("ReLU", "SoftmaxHead", "ELU", "Hardswish")


def compile_one(name: str) -> None:
    """The first call, of known inputs."""
    network = torch.nn.Sequential(bnn.Linear(6, 5, sigma=0.3), getattr(bnn, name)()).eval()
    with torch.no_grad():
        torch.compile(network, fullgraph=True)(torch.randn(7, 6))


def main() -> None:
    """A line for each layer."""
    for name in sys.argv[1:] or USUAL:
        before = _spent()
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder}
            subprocess.run([sys.executable, __file__, "--one", name], env=environment, check=True)
        print(f"{name}: {_spent() - before:.0f} s", flush=True)


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    compile_one(sys.argv[2]) if sys.argv[1:2] == ["--one"] else main()
