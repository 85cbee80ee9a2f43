"""AVR: boards whose core has 8 bits and an int of 16, compiled by avr-gcc and run in simavr, which counts cycles.

Adding a board is a row of AVR_BOARDS (docs/devices.md).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lbnn.base.arrays import Floats
from lbnn.base.resources import targets_folder
from lbnn.base.temporary import temporary_folder
from lbnn.device.boards import KB
from lbnn.device.compilers import CompileError, Toolchain, on_path
from lbnn.device.elf import Sizes, image_sizes
from lbnn.device.firmware import SECTION_FLAGS
from lbnn.device.generated import GeneratedModel
from lbnn.device.results import DeviceResult, Image, collect
from lbnn.device.runs import EmulationFault, run_text

AVR_GCC = Toolchain("avr-gcc", on_path("avr-gcc"), "apt install gcc-avr avr-libc")
SIMAVR_PACKAGE = "simavr"
HERTZ = 16_000_000
DELAY = 1 << 20
"""Cycles of the delay in run_avr.c, by which the cost of its interrupt is known."""
LEAST_STACK = 256
"""Bytes that have to be left beside variables; what a model takes is measured."""
SAMPLE_BYTES = 16 * KB
"""Of samples in one image: pointers reach 64 KB of flash, and weights come first."""


@dataclass(frozen=True)
class AvrBoard:
    """A board: the chip as avr-gcc and simavr call it, its memories in bytes, cycles of a return."""

    name: str
    chip: str
    flash: int
    ram: int
    return_cycles: int


AVR_BOARDS: Mapping[str, AvrBoard] = {
    board.name: board
    for board in (
        AvrBoard("uno", "atmega328p", 32 * KB, 2 * KB, 4),
        AvrBoard("mega2560", "atmega2560", 256 * KB, 8 * KB, 5),
    )
}


@dataclass(frozen=True)
class SimavrDevice:
    """An AVR board in simavr: a whole image, compiled by avr-gcc."""

    board: AvrBoard

    @property
    def name(self) -> str:
        """See Device."""
        return self.board.name

    def missing(self) -> str:
        """See Device."""
        emulator = "" if shutil.which("simavr") else f"apt install {SIMAVR_PACKAGE}"
        return "; ".join(part for part in (AVR_GCC.missing(), emulator) if part)

    def available(self) -> bool:
        """See Device."""
        return not self.missing()

    def build(self, model: GeneratedModel, out: Path, flags: Iterable[str] = ()) -> Image:
        """See Device."""
        return AvrImage(self.board, model, tuple(flags))


@dataclass(frozen=True)
class AvrImage:
    """A model for a board; samples are part of an image, so that it is linked when they are known."""

    board: AvrBoard
    model: GeneratedModel
    flags: tuple[str, ...]

    def run(self, samples: Sequence[Floats], profile: bool) -> DeviceResult:
        """See Image."""
        with temporary_folder() as folder:
            runs = [self._run(part, folder) for part in self._parts(samples, folder)]
            sizes = self.sizes(folder)
        records = np.concatenate([run[1] for run in runs])
        empty, delay = (int(number) for number in runs[0][0][1:])
        return collect(
            self.model,
            records,
            counted_cycles=self._cycles(records["ticks"].astype(np.int64), empty, delay),
            sizes=sizes,
            stack_bytes=int(records["stack"].max(initial=0)),
        )

    def selftest(self, folder: Path) -> int:
        """What the model's own self-test says on the board."""
        tested = AvrImage(self.board, self.model, (*self.flags, "-DLBNN_SELFTEST"))
        zeros = [np.zeros((1, self.model.input_len), np.float32)] * (1 + self.model.input_variance)
        return int(tested._run(zeros, folder)[0][0])

    def link(self, samples: Sequence[Floats], folder: Path) -> Path:
        """An image with these samples in it."""
        rows = np.concatenate(samples, axis=1).astype("<f4").view("<u4")
        (folder / "samples.h").write_text(_samples_text(rows))
        sources = [targets_folder() / "run_avr.c", *self._objects(folder)]
        flags = (*_target(self.board), *self.model.driver_flags, *self.flags, "-Wl,--gc-sections", "-lm")
        elf = AVR_GCC.compile(sources, folder / "image.elf", flags, [folder, self.model.folder])
        _refuse_too_large(self.board, image_sizes(elf))
        return elf

    def _objects(self, folder: Path) -> list[Path]:
        """The model, compiled into a folder once for all images that are linked there."""
        selftest = self.model.folder / f"{self.model.name}_selftest.c"
        sources = dict.fromkeys((*self.model.sources, *([selftest] if "-DLBNN_SELFTEST" in self.flags else [])))
        objects = {source: folder / f"{source.stem}.o" for source in sources}
        for source, compiled in objects.items():
            if not compiled.exists():
                AVR_GCC.compile([source], compiled, ("-c", *_target(self.board), *self.flags), [self.model.folder])
        return list(objects.values())

    def _parts(self, samples: Sequence[Floats], folder: Path) -> Iterator[Sequence[Floats]]:
        """As many samples as one image holds, and the next."""
        whole = image_sizes(self.link([array[:1] for array in samples], folder)).flash
        room = min(self.board.flash - whole, SAMPLE_BYTES)
        step = max(1, room // (4 * sum(array.shape[1] for array in samples)))
        for start in range(0, len(samples[0]), step):
            yield [array[start : start + step] for array in samples]

    def _run(self, samples: Sequence[Floats], folder: Path) -> tuple[NDArray[np.uint32], NDArray[np.void]]:
        elf = self.link(samples, folder)
        command = ("simavr", "-m", self.board.chip, "-f", str(HERTZ), str(elf))
        text = run_text(self.board.name, command, folder)
        lines = re.findall(r"((?:[0-9a-f]{8})+)\.$", text, re.MULTILINE)  # simavr shows the end of a line as a dot
        first, *answers = (np.frombuffer(bytes.fromhex(line), ">u4").astype("<u4") for line in lines or [""])
        if len(first) != 3 or len(answers) != len(samples[0]):
            last = text.strip().splitlines()[-1:] or ["no message"]
            raise EmulationFault(f"{self.board.name}: {len(answers)} results for {len(samples[0])} samples: {last[0]}")
        records = np.frombuffer(b"".join(answer.tobytes() for answer in answers), self.model.record)
        _refuse_full_stack(self.board, self.model, int(records["stack"].max()), image_sizes(elf))
        return first, records

    def _cycles(self, ticks: NDArray[np.int64], empty: int, delay: int) -> NDArray[np.int64]:
        """Cycles of each prediction: without those of the call, and of an interrupt at each overflow of the timer."""
        overflow = (delay - empty - DELAY) / (DELAY >> 16)
        interrupts = ticks >> 16
        return np.rint(ticks - interrupts * overflow).astype(np.int64) - empty + self.board.return_cycles

    def sizes(self, folder: Path) -> Sizes:
        """Those of the model alone."""
        roots = ("-nostartfiles", "-Wl,--gc-sections", f"-Wl,-e,{self.model.predict}", f"-Wl,-u,{self.model.predict}")
        flags = (*_target(self.board), *self.flags, *roots, "-lm")
        alone = AVR_GCC.compile(self._objects(folder), folder / "model.elf", flags)
        return image_sizes(alone, self.model.weight_pattern)


def _target(board: AvrBoard) -> tuple[str, ...]:
    """The linker gets more memory than the chip has: it would say that an image is too large, but not by how much."""
    lengths = ("__TEXT_REGION_LENGTH__=0x100000", "__DATA_REGION_LENGTH__=0xff00")
    return (f"-mmcu={board.chip}", *SECTION_FLAGS, *(f"-Wl,--defsym={length}" for length in lengths))


def _samples_text(rows: NDArray[np.uint32]) -> str:
    table = ",\n".join("{" + ", ".join(f"0x{word:08x}" for word in row) + "}" for row in rows)
    shape = f"[{rows.shape[0]}][{rows.shape[1]}]"
    return f"#define SAMPLES {rows.shape[0]}\nstatic const uint32_t samples{shape} PROGMEM = {{\n{table}}};\n"


def _refuse_too_large(board: AvrBoard, sizes: Sizes) -> None:
    memories = {"ROM": sizes.flash - board.flash, "RAM": sizes.ram + LEAST_STACK - board.ram}
    for memory, over in memories.items():
        if over > 0:
            text = f"{memory} overflowed by {over} bytes"
            raise CompileError(f"avr-gcc failed: {board.name}: {text}", text)


def _refuse_full_stack(board: AvrBoard, model: GeneratedModel, used: int, sizes: Sizes) -> None:
    left = board.ram - sizes.ram
    if used + LEAST_STACK // 4 > left:  # main and what calls the model take some, too
        raise EmulationFault(f"{board.name}: the stack of {model.predict} runs into variables: {left} bytes are left")
