"""Instruction sets: what differs from family to family, and the cores of each.

Adding a family is a row of FAMILIES and its start-up file; adding a core is a row of CORES (docs/devices.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Abi:
    """How a call passes words and floats: registers by their name in Unicorn."""

    integers: tuple[str, ...]
    floats: tuple[str, ...]
    stack: str
    link: str
    counter: str


@dataclass(frozen=True)
class UnicornFamily:
    """A family in Unicorn: the names of its constants, its calls, and how long an instruction is.

    An instruction takes 4 bytes where its first halfword & `wide_mask` is `wide_from` or more, otherwise 2.
    """

    arch: str  # of UC_ARCH_* and UC_*_REG_*, and of the module that holds them
    modes: tuple[str, ...]  # of UC_MODE_*
    cpu_prefix: str  # Core.unicorn comes behind it
    abi: Abi
    code_bit: int  # set in the address of a function: 1 marks Thumb code
    wide_mask: int
    wide_from: int
    fpu_bits: tuple[tuple[str, int], ...]  # set in a register before code for a floating-point unit runs


@dataclass(frozen=True)
class QemuFamily:
    """A family in QEMU: the program that emulates its boards, the Debian package with it, and what it must be told."""

    program: str
    package: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """Everything that cores of one instruction set share and others do differently.

    None stands for a tool that does not know the family.
    """

    name: str
    macro: str  # by which the C of c_runtime/targets knows it
    startup: str  # the file of c_runtime/targets that runs before main
    gcc: str
    gcc_packages: str  # of Debian
    gcc_specs: tuple[str, ...]
    zig_targets: tuple[str, str] | None  # without and with a floating-point unit
    unicorn: UnicornFamily | None
    qemu: QemuFamily


FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family(
            name="arm",
            macro="__arm__",
            startup="startup_cortex_m.c",
            gcc="arm-none-eabi-gcc",
            gcc_packages="gcc-arm-none-eabi libnewlib-arm-none-eabi",
            gcc_specs=(),
            zig_targets=("thumb-freestanding-eabi", "thumb-freestanding-eabihf"),
            unicorn=UnicornFamily(
                arch="ARM",
                modes=("THUMB", "MCLASS"),
                cpu_prefix="UC_CPU_ARM_",
                abi=Abi(("R0", "R1", "R2", "R3"), tuple(f"S{i}" for i in range(16)), "SP", "LR", "PC"),
                code_bit=1,
                wide_mask=0xFFFF,
                wide_from=0xE800,
                fpu_bits=(),
            ),
            qemu=QemuFamily("qemu-system-arm", "qemu-system-arm", ()),
        ),
        Family(
            name="riscv",
            macro="__riscv",
            startup="startup_riscv.c",
            gcc="riscv64-unknown-elf-gcc",
            gcc_packages="gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf",
            gcc_specs=("-specs=picolibc.specs",),
            zig_targets=("riscv32-freestanding-none", "riscv32-freestanding-none"),
            unicorn=UnicornFamily(
                arch="RISCV",
                modes=("RISCV32",),
                cpu_prefix="UC_CPU_RISCV32_",
                abi=Abi(tuple(f"A{i}" for i in range(8)), tuple(f"FA{i}" for i in range(8)), "SP", "RA", "PC"),
                code_bit=0,
                wide_mask=0b11,
                wide_from=0b11,
                fpu_bits=(("MSTATUS", 0x6000),),  # FS: dirty
            ),
            qemu=QemuFamily("qemu-system-riscv32", "qemu-system-misc", ("-bios", "none")),
        ),
    )
}
_ARM, _RISCV = FAMILIES["arm"], FAMILIES["riscv"]


@dataclass(frozen=True)
class Core:
    """A processor: how each compiler is told of it, and its model in Unicorn; None where one does not know it."""

    name: str
    family: Family
    gcc: tuple[str, ...]
    zig_cpu: str | None
    unicorn: str | None
    hard_float: bool


def _cortex(name: str, *gcc: str) -> tuple[str, ...]:
    return (f"-mcpu=cortex-{name}", "-mthumb", *gcc)


def _hard(fpu: str) -> tuple[str, ...]:
    return (f"-mfpu={fpu}", "-mfloat-abi=hard")


def _march(march: str, abi: str) -> tuple[str, ...]:
    """A plain -march string: with _zicsr added gcc picks the wrong libraries."""
    return (f"-march={march}", f"-mabi={abi}", "-mcmodel=medany")


# A bare zig cpu name means soft float, even with eabihf: the floating-point unit has to be added to it.
# Unicorn's M7 has no double precision.
CORES: Mapping[str, Core] = {
    core.name: core
    for core in (
        Core("cortex-m0", _ARM, _cortex("m0"), "cortex_m0", "CORTEX_M0", False),
        Core("cortex-m3", _ARM, _cortex("m3"), "cortex_m3", "CORTEX_M3", False),
        Core("cortex-m4", _ARM, _cortex("m4", *_hard("fpv4-sp-d16")), "cortex_m4+vfp4d16sp", "CORTEX_M4", True),
        Core("cortex-m7", _ARM, _cortex("m7", *_hard("fpv5-d16")), "cortex_m7+fp_armv8d16", "CORTEX_M7", True),
        Core("cortex-m33", _ARM, _cortex("m33", *_hard("fpv5-sp-d16")), "cortex_m33+fp_armv8d16sp", "CORTEX_M33", True),
        Core("cortex-m55", _ARM, _cortex("m55", "-mfloat-abi=hard"), "cortex_m55+mve_fp", None, True),
        Core("rv32imac", _RISCV, _march("rv32imac", "ilp32"), "generic_rv32+m+a+c", "SIFIVE_E31", False),
        Core("rv32imafc", _RISCV, _march("rv32imafc", "ilp32f"), "generic_rv32+m+a+f+c", "SIFIVE_U34", True),
    )
}
