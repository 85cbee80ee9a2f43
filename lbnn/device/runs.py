"""Runs a program to its end, on this host or in an emulator, and says how it ended."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lbnn.base.errors import LbnnError

RUN_SECONDS = 600


class EmulationFault(LbnnError):
    """The program did what the machine forbids; says what, and in which function."""


@dataclass(frozen=True)
class ProgramRun:
    """What a program did: its exit status and messages."""

    status: int
    stderr: str


def run_program(name: str, command: Sequence[str], folder: Path, timeout: float = RUN_SECONDS) -> ProgramRun:
    """Runs a command in `folder`; `name` is who it is in an error."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EmulationFault(f"{name}: the program did not end within {timeout:g} s") from None
    return ProgramRun(done.returncode, done.stderr)
