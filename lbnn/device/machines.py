"""Other machines than this host that run programs for Linux: a cross-compiler, and QEMU for single programs.

Adding one is a row of MACHINES (docs/devices.md).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lbnn.base.arrays import Floats
from lbnn.device.compilers import ZIG_FLAGS, Toolchain, on_path, zig_command
from lbnn.device.generated import GeneratedModel
from lbnn.device.hosts import build_program
from lbnn.device.results import DeviceResult, Image, collect, run_samples
from lbnn.device.runs import run_program


@dataclass(frozen=True)
class Machine:
    """A machine: its compiler, the program that runs what it makes with the Debian package of that, its byte order."""

    name: str
    toolchain: Toolchain
    emulator: str
    package: str
    byte_order: str  # as numpy writes it: < or >


MACHINES: Mapping[str, Machine] = {
    machine.name: machine
    for machine in (
        Machine(
            "s390x",
            Toolchain(
                "s390x-linux-gnu-gcc",
                on_path("s390x-linux-gnu-gcc"),
                "apt install gcc-s390x-linux-gnu libc6-dev-s390x-cross",
                ("-static", "-fexcess-precision=fast"),  # or -std=c99 computes floats as doubles there
            ),
            emulator="qemu-s390x",
            package="qemu-user",
            byte_order=">",
        ),
        Machine(  # pointers of 32 bits; zig brings the C library that gcc -m32 lacks beside other cross-compilers
            "x86",
            Toolchain("zig", zig_command, "pip install ziglang", (*ZIG_FLAGS, "-target", "x86-linux-musl", "-static")),
            emulator="qemu-i386",
            package="qemu-user",
            byte_order="<",
        ),
    )
}


@dataclass(frozen=True)
class MachineDevice:
    """The model as a program of another machine."""

    name: str
    machine: Machine

    def missing(self) -> str:
        """See Device."""
        emulator = "" if shutil.which(self.machine.emulator) else f"apt install {self.machine.package}"
        return "; ".join(part for part in (self.machine.toolchain.missing(), emulator) if part)

    def available(self) -> bool:
        """See Device."""
        return not self.missing()

    def build(self, model: GeneratedModel, out: Path, flags: Iterable[str] = ()) -> Image:
        """See Device."""
        return _MachineImage(self, model, build_program(self.machine.toolchain, model, out / "model", flags))


@dataclass(frozen=True)
class _MachineImage:
    device: MachineDevice
    model: GeneratedModel
    program: Path

    def run(self, samples: Sequence[Floats], profile: bool) -> DeviceResult:
        name, machine = self.device.name, self.device.machine
        command = (machine.emulator, str(self.program.resolve()))
        done, _, records = run_samples(
            name, self.model, samples, lambda folder: run_program(name, command, folder), machine.byte_order
        )
        return collect(self.model, records, stderr=done.stderr)
