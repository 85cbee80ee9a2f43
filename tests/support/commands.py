"""Runs `lbnn` commands as processes of their own, forked from one that has imported everything: 20 ms instead of 2 s.

The child is a real process: it can be killed, its limits and its user can be changed, it ends with an exit status.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PRELOADED = [
    "torch",
    "onnx",
    "matplotlib.pyplot",
    "lbnn.cli.program",
    "lbnn.exporters",
    "lbnn.exporters.c",
    "lbnn.train.training",
]
SECONDS = 120

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # as lbnn.cli.ranks says it before torch is imported
CONTEXT: Any = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [*PRELOADED, "lbnn.exporters.onnx", "lbnn.model.file", "lbnn.measure.report", "commands"]
)


@dataclass(frozen=True)
class Ended:
    """How a command ended; a negative status is the signal that ended it."""

    status: int
    stdout: str
    stderr: str

    def refused(self, message: str = "") -> None:
        """Asserts one line on stderr that holds `message`, exit status 2."""
        assert self.status == 2, self
        assert self.stderr.startswith("lbnn: ") and self.stderr.count("\n") == 1, self.stderr
        assert message in self.stderr, self.stderr


def nothing() -> None:
    """No change to the process before the command."""


def start(words: list[Any], folder: Path, log: Path, before: Callable[[], None] = nothing) -> Any:
    """The process of a command, with stdout and stderr in files; `before` must be importable."""
    process = CONTEXT.Process(target=_child, args=([os.fspath(word) for word in words], folder, log, before))
    process.start()
    return process


def lbnn(*words: Any, folder: Path, before: Callable[[], None] = nothing) -> Ended:
    """Runs a command in `folder` to its end."""
    with tempfile.TemporaryDirectory() as log:
        return finished(start(list(words), folder, Path(log), before), Path(log))


def finished(process: Any, log: Path) -> Ended:
    """Waits for a process."""
    process.join(SECONDS)
    assert process.exitcode is not None, "the command hangs"
    texts = [(log / name).read_text(errors="replace") for name in ("stdout", "stderr")]
    return Ended(process.exitcode, *texts)


def _child(words: list[str], folder: Path, log: Path, before: Callable[[], None]) -> None:
    """Becomes the command."""
    os.chdir(folder)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(log / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), number)
    sys.argv = ["lbnn", *words]
    before()
    from lbnn.cli.main import main

    main()


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
