"""Instructions of a generated model on this host, counted by valgrind's callgrind inside its predict alone."""

from __future__ import annotations

import platform
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lbnn.base.arrays import Floats
from lbnn.device.devices import EmulationFault
from lbnn.device.machines import run_program
from lbnn.device.toolchains import Toolchain, model_flags, targets_folder

UNKNOWN_TO_VALGRIND = ("-mno-avx512f",) if platform.machine() in ("x86_64", "AMD64") else ()
"""Counted without AVX-512, which ends valgrind with an illegal instruction; kernels use at most the 8 lanes of AVX2."""


def available() -> bool:
    """Whether valgrind is here."""
    return shutil.which("valgrind") is not None


def count(toolchain: Toolchain, folder: Path, name: str, inputs: Floats, flags: Sequence[str]) -> int:
    """Instructions for one prediction of the generated model NAME, the mean over `inputs` [n, input_len]."""
    with tempfile.TemporaryDirectory() as temporary:
        here = Path(temporary)
        program = _build(toolchain, folder, name, here / "model", flags)
        (here / "inputs.bin").write_bytes(inputs.astype("<f4").tobytes())
        tool = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--toggle-collect={name}_predict")
        done = run_program("callgrind", (*tool, str(program)), here)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.status != 0 or not found:
        raise EmulationFault(f"callgrind ended with status {done.status}: {done.stderr.strip()[-200:]}")
    return round(int(found[1]) / len(inputs))


def _build(toolchain: Toolchain, folder: Path, name: str, out: Path, flags: Sequence[str]) -> Path:
    targets = targets_folder()
    sources = [targets / "host_io.c", targets / "run_samples.c", folder / f"{name}.c"]
    given = (*model_flags(name), *flags, *UNKNOWN_TO_VALGRIND, "-lm")
    return toolchain.compile(sources, out, given, [targets, folder])
