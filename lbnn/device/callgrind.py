"""Instructions of a generated model on this host, counted by valgrind's callgrind inside its predict alone."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Sequence

from lbnn.base.arrays import Floats
from lbnn.base.temporary import temporary_folder
from lbnn.device.compilers import Toolchain
from lbnn.device.generated import GeneratedModel
from lbnn.device.hosts import build_program
from lbnn.device.runs import EmulationFault, run_program

UNKNOWN_TO_VALGRIND = ("-mno-avx512f",) if platform.machine() in ("x86_64", "AMD64") else ()
"""Counted without AVX-512, which ends valgrind with an illegal instruction; kernels use at most the 8 lanes of AVX2."""


def available() -> bool:
    """Whether valgrind is here."""
    return shutil.which("valgrind") is not None


def count(toolchain: Toolchain, model: GeneratedModel, inputs: Floats, flags: Sequence[str]) -> int:
    """Instructions for one prediction, the mean over `inputs` [n, input_len]."""
    with temporary_folder() as here:
        program = build_program(toolchain, model, here / "model", (*flags, *UNKNOWN_TO_VALGRIND))
        (here / "inputs.bin").write_bytes(inputs.astype("<f4").tobytes())
        tool = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--toggle-collect={model.predict}")
        done = run_program("callgrind", (*tool, str(program)), here)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.status != 0 or not found:
        raise EmulationFault(f"callgrind ended with status {done.status}: {done.stderr.strip()[-200:]}")
    return round(int(found[1]) / len(inputs))
