"""Runs a program to its end, on this host or in an emulator, and says how it ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lbnn.base.errors import LbnnError

RUN_SECONDS = 600


class EmulationFault(LbnnError):
    """The program did what the machine forbids; says what, and in which function."""


class OutOfMemory(LbnnError):
    """No room for an emulator or a program under sanitizers, which ask for address space by the gigabyte."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} does not get the memory it asks for; raise the limit (ulimit -v) or leave it out")


NO_MEMORY = re.compile("cannot allocate memory|failed to allocate|could not allocate|out of memory", re.IGNORECASE)
"""What emulators and sanitizers say then."""


@dataclass(frozen=True)
class ProgramRun:
    """What a program did: its exit status and messages."""

    status: int
    stderr: str
    stdout: str = ""


def run_program(name: str, command: Sequence[str], folder: Path, timeout: float = RUN_SECONDS) -> ProgramRun:
    """Runs a command in `folder`; `name` is who it is in an error."""
    done = run_to_end(command, timeout, cwd=folder)
    if done is None:
        raise EmulationFault(f"{name}: the program did not end within {timeout:g} s")
    return done


def run_text(name: str, command: Sequence[str], folder: Path, timeout: float = RUN_SECONDS) -> str:
    """All that a command says, in `folder`."""
    done = run_program(name, command, folder, timeout)
    return done.stdout + done.stderr


def run_to_end(
    command: Sequence[str], timeout: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> ProgramRun | None:
    """Runs a command without input; None if it takes too long. When the wait ends so does all that was started."""
    pipe, group = subprocess.PIPE, 0 if os.name == "posix" else -1
    with subprocess.Popen(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, process_group=group
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            _kill(process)
            return None
        except BaseException:
            _kill(process)
            raise
    return ProgramRun(process.returncode, *(text.decode(errors="replace") for text in (stderr, stdout)))


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL) if os.name == "posix" else process.kill()
