"""Prints how export time, memory and compile time (of one processor) grow with the number of weights.

python tools/bench/scale_export.py [10000 100000 1000000 10000000]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from math import isqrt
from pathlib import Path

SIZES = (10**4, 10**5, 10**6, 10**7)


def main() -> None:
    """One process for each size and form, so that peaks of memory are separate."""
    print("| weights | form | export s | memory MB | files MB | compile s |\n|---|---|---|---|---|---|")
    for count in map(int, sys.argv[1:]) if len(sys.argv) > 1 else SIZES:
        for form in ("source", "binary"):
            command = [sys.executable, __file__, "--one", str(count), form]
            print(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip(), flush=True)


def one(count: int, form: str) -> None:
    """Exports and compiles one model."""
    import torch

    from lbnn import nn as bnn
    from lbnn.exporters.c import COptions, export_c
    from lbnn.model.file import read_model

    torch.manual_seed(0)
    width = isqrt(count // 2)
    layers = (bnn.Linear(16, width), bnn.LeakyReLU(), bnn.Linear(width, width), bnn.LeakyReLU())
    model = read_model(bnn.Sequential(*layers, bnn.Linear(width, width)), (16,))
    with tempfile.TemporaryDirectory() as folder:
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of making the model
        before, start = megabytes("VmRSS"), time.process_time()
        out = export_c(model, Path(folder) / "out", COptions(name="model", weights=form))
        exported, peak = time.process_time() - start, megabytes("VmHWM") - before
        size = sum(path.stat().st_size for path in out.iterdir()) / 1e6
        compiled = compile_seconds(out, form) if form == "binary" or count <= 10**6 else None
    seconds = "" if compiled is None else f"{compiled:.1f}"
    print(f"| {count:,} | {form} | {exported:.2f} | {peak:.0f} | {size:.1f} | {seconds} |")


def compile_seconds(folder: Path, form: str) -> float:
    """The processor time of cc -O2 for the model alone."""
    sources = ["model.c", *(["model_weights.S"] if form == "binary" else [])]
    subprocess.run(["cc", "-std=c99", "-O2", "-c", *sources], cwd=folder, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def megabytes(field: str) -> float:
    """The memory of this process now (VmRSS) or at its peak (VmHWM), as Linux tells it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(int(sys.argv[2]), sys.argv[3])
    else:
        main()
