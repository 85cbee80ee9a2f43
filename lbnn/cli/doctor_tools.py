"""What `lbnn doctor` looks for: which tools are here, what each missing one would add, and how to install it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from lbnn.base.terminal import print_table

PYTHON_PACKAGES = {
    "torch": ("training and the layers", "pip install torch"),
    "onnx": ("export to ONNX", "pip install 'lbnn[onnx]'"),
    "onnxruntime": ("verifying exported ONNX files", "pip install 'lbnn[onnx]'"),
    "matplotlib": ("pictures", "pip install 'lbnn[plot]'"),
    "pyarrow": ("Parquet files as data", "pip install 'lbnn[parquet]'"),
    "scikit-learn": ("lbnn.Regressor and lbnn.Classifier", "pip install 'lbnn[sklearn]'"),
    "ziglang": ("cross-compiling for Cortex-M without a system toolchain", "pip install 'lbnn[mcu]'"),
    "unicorn": ("emulating Cortex-M cores", "pip install 'lbnn[mcu]'"),
    "capstone": ("estimating the cycles of Cortex-M4 and M7", "pip install 'lbnn[mcu]'"),
    "pyelftools": ("sizes of compiled code", "pip install 'lbnn[mcu]'"),
}
ARM_GCC = "apt install gcc-arm-none-eabi libnewlib-arm-none-eabi"
PROGRAMS = {
    "cc": ("compiling C on this machine", "apt install gcc"),
    "clang": ("a second host compiler in `verify`", "apt install clang"),
    "arm-none-eabi-gcc": ("the compiler most firmware is built with", ARM_GCC),
    "qemu-system-arm": ("booting whole firmware images", "apt install qemu-system-arm"),
    "riscv64-unknown-elf-gcc": ("RISC-V cores", "apt install gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf"),
    "qemu-system-riscv32": ("RISC-V boards", "apt install qemu-system-misc"),
    "s390x-linux-gnu-gcc": (
        "a big-endian machine in `verify`",
        "apt install gcc-s390x-linux-gnu libc6-dev-s390x-cross",
    ),
    "qemu-s390x": ("running what is compiled for it", "apt install qemu-user"),
    "qemu-i386": ("a machine of 32 bits in `verify`", "apt install qemu-user"),
    "avr-gcc": ("AVR boards: Arduino Uno and Mega", "apt install gcc-avr avr-libc"),
    "simavr": ("running what is compiled for them, to the cycle", "apt install simavr"),
    "valgrind": ("instruction counts on this machine", "apt install valgrind"),
}


@dataclass(frozen=True)
class Tool:
    """A tool, where or in which version it is here (None: it is not), what it adds and how to install it."""

    name: str
    found: str | None
    adds: str
    install: str


def examine() -> list[Tool]:
    """Looks for every tool."""
    packages = [Tool(name, _package_version(name), *about) for name, about in PYTHON_PACKAGES.items()]
    return packages + [Tool(name, shutil.which(name), *about) for name, about in PROGRAMS.items()]


def _package_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def show_tools(tools: Sequence[Tool]) -> None:
    """A table, then the commands that would add what is missing."""
    rows = [[tool.name, "ok" if tool.found else "missing", tool.found or "", tool.adds] for tool in tools]
    print_table(("tool", "status", "found", "what it is for"), rows)
    for tool in tools:
        if not tool.found:
            print(f"{tool.name} would add {tool.adds}: {tool.install}")
