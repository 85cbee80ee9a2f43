"""Boards emulated whole by QEMU: builds firmware with start-up code and linker script, and boots it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lbnn.base.errors import LbnnError
from lbnn.base.resources import targets_folder
from lbnn.device.boards import Board
from lbnn.device.firmware import RESET, compile_gcc, emulator_command, linker_script
from lbnn.device.runs import RUN_SECONDS, ProgramRun, run_program


@dataclass(frozen=True)
class QemuBoard:
    """A board emulated whole: builds firmware with start-up code and linker script, and boots it."""

    board: Board

    def build(
        self, sources: Sequence[Path], out: Path, flags: Iterable[str] = (), include: Sequence[Path] = ()
    ) -> Path:
        """A firmware image of `sources`, one of which has `main`; what main returns is the exit status."""
        targets, core = targets_folder(), self.board.core
        script = out.with_suffix(".ld")
        script.write_text(linker_script(self.board.name, self.board.memory, RESET))
        own = [targets / core.family.startup, targets / "semihosting.c"]
        given = (*self.board.timer.flags, *flags)
        return compile_gcc(core, [*own, *sources], out, script, given, [targets, *include])

    def run(self, image: Path, folder: Path, timeout: float = RUN_SECONDS) -> ProgramRun:
        """Boots `image`; the files it opens are in `folder`."""
        program, *options = emulator_command(self.board)
        path = shutil.which(program)
        if path is None:
            package = self.board.core.family.qemu.package
            raise LbnnError(f"board {self.board.name} needs {program}; apt install {package}")
        return run_program(self.board.name, (path, *options, "-kernel", str(image.resolve())), folder, timeout)
