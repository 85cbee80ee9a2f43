"""Compilers for hosts and microcontrollers: the cores and boards we know and how to build an image for them.

A core, a board and a compiler are each a row in a table; compiler and emulator are chosen independently.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lbnn.base.errors import LbnnError
from lbnn.base.resources import folder

# Flags given by a caller come later and win.
DEFAULT_FLAGS = ("-std=c99", "-O2", "-fno-math-errno")
SECTION_FLAGS = ("-ffunction-sections", "-fdata-sections")
SANITIZE_FLAGS = (
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g",
)
STACK_FLAGS = ("-fstack-usage", "-fcallgraph-info=su")
COMPILE_SECONDS = 300


class CompileError(LbnnError):
    """A compiler refused the source; `log` is all it said."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


@dataclass(frozen=True)
class Core:
    """An instruction set: how each compiler is told of it, and its model in Unicorn if it has one."""

    name: str
    gcc: tuple[str, ...]
    zig_target: str
    zig_cpu: str
    unicorn: str | None
    hard_float: bool

    @property
    def riscv(self) -> bool:
        """RISC-V; all others are Arm."""
        return self.name.startswith("rv")


def _hard(fpu: str) -> tuple[str, ...]:
    return (f"-mfpu={fpu}", "-mfloat-abi=hard")


_ARM_SOFT, _ARM_HARD, _RISCV = "thumb-freestanding-eabi", "thumb-freestanding-eabihf", "riscv32-freestanding-none"

# A bare zig cpu name means soft float, even with eabihf: the floating-point unit has to be added to it.
CORES: Mapping[str, Core] = {
    core.name: core
    for core in (
        Core("cortex-m0", ("-mcpu=cortex-m0", "-mthumb"), _ARM_SOFT, "cortex_m0", "CORTEX_M0", False),
        Core("cortex-m3", ("-mcpu=cortex-m3", "-mthumb"), _ARM_SOFT, "cortex_m3", "CORTEX_M3", False),
        Core(
            "cortex-m4",
            ("-mcpu=cortex-m4", "-mthumb", *_hard("fpv4-sp-d16")),
            _ARM_HARD,
            "cortex_m4+vfp4d16sp",
            "CORTEX_M4",
            True,
        ),
        # Unicorn's M7 has no double precision.
        Core(
            "cortex-m7",
            ("-mcpu=cortex-m7", "-mthumb", *_hard("fpv5-d16")),
            _ARM_HARD,
            "cortex_m7+fp_armv8d16",
            "CORTEX_M7",
            True,
        ),
        Core(
            "cortex-m33",
            ("-mcpu=cortex-m33", "-mthumb", *_hard("fpv5-sp-d16")),
            _ARM_HARD,
            "cortex_m33+fp_armv8d16sp",
            "CORTEX_M33",
            True,
        ),
        Core(
            "cortex-m55",
            ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"),
            _ARM_HARD,
            "cortex_m55+mve_fp",
            None,
            True,
        ),
        # Plain -march strings: with _zicsr added gcc picks the wrong libraries.
        Core(
            "rv32imac",
            ("-march=rv32imac", "-mabi=ilp32", "-mcmodel=medany"),
            _RISCV,
            "generic_rv32+m+a+c",
            "SIFIVE_E31",
            False,
        ),
        Core(
            "rv32imafc",
            ("-march=rv32imafc", "-mabi=ilp32f", "-mcmodel=medany"),
            _RISCV,
            "generic_rv32+m+a+f+c",
            "SIFIVE_U34",
            True,
        ),
    )
}


@dataclass(frozen=True)
class Memory:
    """Where an image is linked: bytes, addresses."""

    rom_base: int
    rom_size: int
    ram_base: int
    ram_size: int


@dataclass(frozen=True)
class Timer:
    """A clock that counts instructions under `-icount shift=SHIFT`, where one instruction lasts 2^SHIFT ns."""

    kind: str
    base: int
    hertz: float
    shift: int = 8

    @property
    def ticks_per_instruction(self) -> float:
        """An exact ratio for every clock in the table."""
        return self.hertz * float(1 << self.shift) / 1e9

    @property
    def flags(self) -> tuple[str, ...]:
        """Tells c_runtime/targets/timer.h which clock this is."""
        return (f"-DLBNN_TIMER_{self.kind}", f"-DLBNN_TIMER_BASE={self.base:#x}u")


@dataclass(frozen=True)
class Board:
    """A machine that QEMU emulates whole."""

    name: str
    machine: str
    core: str
    memory: Memory
    timer: Timer


KB, MB = 1 << 10, 1 << 20
_MPS2 = Memory(0, 4 * MB, 0x20000000, 4 * MB)
_MPS2_TIMER = Timer("CMSDK", 0x40000000, 25e6)
_VIRT = Memory(0x80000000, 4 * MB, 0x80400000, 4 * MB)
_MINSTRET = Timer("MINSTRET", 0, 1e9, shift=0)

BOARDS: Mapping[str, Board] = {
    board.name: board
    for board in (
        Board(
            "microbit",
            "microbit",
            "cortex-m0",
            Memory(0, 256 * KB, 0x20000000, 16 * KB),
            Timer("NRF51", 0x40008000, 16e6),
        ),
        Board("mps2-an385", "mps2-an385", "cortex-m3", _MPS2, _MPS2_TIMER),
        Board("mps2-an386", "mps2-an386", "cortex-m4", _MPS2, _MPS2_TIMER),
        Board("mps2-an500", "mps2-an500", "cortex-m7", _MPS2, _MPS2_TIMER),
        Board(
            "mps2-an505",
            "mps2-an505",
            "cortex-m33",
            Memory(0x10000000, 4 * MB, 0x38000000, 4 * MB),
            Timer("CMSDK", 0x50000000, 20e6),
        ),
        Board(
            "mps3-an547",
            "mps3-an547",
            "cortex-m55",
            Memory(0, 512 * KB, 0x20000000, 512 * KB),
            Timer("FPGAIO", 0x59302000, 20e6),
        ),
        Board("riscv-virt-rv32imac", "virt", "rv32imac", _VIRT, _MINSTRET),
        Board("riscv-virt-rv32imafc", "virt", "rv32imafc", _VIRT, _MINSTRET),
    )
}


def _first_on_path(*names: str) -> tuple[str, ...] | None:
    return next(((path,) for name in names if (path := shutil.which(name))), None)


def _zig_command() -> tuple[str, ...] | None:
    return (sys.executable, "-m", "ziglang", "cc") if importlib.util.find_spec("ziglang") else None


def _host_command() -> tuple[str, ...] | None:
    """$CC (which may carry flags) if set, else the system's compiler, else zig from pip."""
    if chosen := shlex.split(os.environ.get("CC", "")):
        path = shutil.which(chosen[0])
        return (path, *chosen[1:]) if path else None
    return _first_on_path("cc", "gcc", "clang") or _zig_command()


@dataclass(frozen=True)
class Toolchain:
    """A C compiler: `find` gives its command or None."""

    name: str
    find: Callable[[], tuple[str, ...] | None]
    install: str
    flags: tuple[str, ...] = ()

    def available(self) -> bool:
        """Whether it is installed."""
        return self.find() is not None

    def missing(self) -> str:
        """How to install it, or nothing where it is here."""
        return "" if self.available() else self.install

    def command(self) -> tuple[str, ...]:
        """The start of its command line."""
        if command := self.find():
            return command
        raise LbnnError(f"compiler {self.name} is not here; {self.install}")

    def compile(
        self, sources: Sequence[Path], out: Path, flags: Iterable[str] = (), include: Sequence[Path] = ()
    ) -> Path:
        """Compiles and links `sources` into `out`; libraries among `flags` come after the sources."""
        flags = (*_contraction(flags := tuple(flags)), *flags)
        libraries = tuple(flag for flag in flags if flag.startswith("-l"))
        options = tuple(flag for flag in flags if not flag.startswith("-l"))
        folders = tuple(f"-I{folder}" for folder in include)
        given = (*self.flags, *DEFAULT_FLAGS, *options, *folders, *map(str, sources))
        _run_compiler(self.name, (*self.command(), *given, "-o", str(out), *libraries))
        return out

    def compile_shared(
        self, sources: Sequence[Path], out: Path, flags: Iterable[str] = (), include: Sequence[Path] = ()
    ) -> Path:
        """Compiles a shared library for this host."""
        return self.compile(sources, out, ("-shared", "-fPIC", *flags, "-lm"), include)


def _contraction(flags: Iterable[str]) -> tuple[str, ...]:
    """Multiply and add are fused only for a caller who asks: gcc reads -std=c99 so, clang has to be told."""
    asks = any(flag.startswith(("-std=gnu", "-ffp-contract", "-ffast-math")) for flag in flags)
    return () if asks else ("-ffp-contract=off",)


# zig compiles with undefined-behaviour traps and frame pointers unless told otherwise.
_ZIG_FLAGS = ("-fno-sanitize=undefined", "-fomit-frame-pointer")

TOOLCHAINS: Mapping[str, Toolchain] = {
    toolchain.name: toolchain
    for toolchain in (
        Toolchain("host", _host_command, "set CC, or: apt install gcc, or: pip install ziglang"),
        Toolchain("gcc", lambda: _first_on_path("gcc"), "apt install gcc"),
        Toolchain("clang", lambda: _first_on_path("clang"), "apt install clang"),
        Toolchain("zig", _zig_command, "pip install ziglang", _ZIG_FLAGS),
        Toolchain(
            "arm-none-eabi-gcc",
            lambda: _first_on_path("arm-none-eabi-gcc"),
            "apt install gcc-arm-none-eabi libnewlib-arm-none-eabi",
        ),
        Toolchain(
            "riscv64-unknown-elf-gcc",
            lambda: _first_on_path("riscv64-unknown-elf-gcc"),
            "apt install gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf",
        ),
    )
}


def cross_gcc(core: Core) -> Toolchain:
    """The gcc for `core`."""
    return TOOLCHAINS["riscv64-unknown-elf-gcc" if core.riscv else "arm-none-eabi-gcc"]


def _run_compiler(name: str, command: Sequence[str]) -> None:
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(cache_folder() / "zig")}
    environment["ZIG_LOCAL_CACHE_DIR"] = environment["ZIG_GLOBAL_CACHE_DIR"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_SECONDS,
            env=environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LbnnError(f"{name} did not finish within {COMPILE_SECONDS} s: {shlex.join(command)}") from None
    if done.returncode != 0:
        raise CompileError(f"{name} failed: {_first_error(done.stderr)}", done.stderr)


def _first_error(log: str) -> str:
    """The first line that names an error; linkers do not all say so, hence the last line otherwise."""
    lines = [line.strip() for line in log.splitlines() if line.strip()] or ["no message"]
    named = (line for line in lines if re.search(r"\berror\b|undefined (reference|symbol)|overflowed", line))
    return next(named, lines[-1])


def cache_folder() -> Path:
    """The user's cache folder for compiled parts that do not depend on a model."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("LBNN_CACHE_DIR") or Path(base) / "lbnn")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return _temporary_cache()
    return folder


@cache
def _temporary_cache() -> Path:
    """Code is loaded from the cache, so in a folder that all users share it gets a name that nobody can take first."""
    return Path(tempfile.mkdtemp(prefix="lbnn-cache-"))


def targets_folder() -> Path:
    """c_runtime/targets."""
    return folder("c_runtime") / "targets"


def model_flags(name: str, input_variance: bool = False) -> tuple[str, ...]:
    """Tells c_runtime/targets/run_*.c which model they run."""
    flags = ("-include", f"{name}.h", f"-DLBNN_MODEL={name}", f"-DLBNN_MODEL_UPPER={name.upper()}")
    return (*flags, "-DLBNN_INPUT_VARIANCE") if input_variance else flags


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Replaces each @KEY@ of a template in c_runtime/targets; a key it does not know is an error."""
    text = (targets_folder() / template).read_text()
    return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], text)


def linker_script(name: str, memory: Memory, entry: str) -> str:
    """The linker script of an image called `name` that starts at the symbol `entry`."""
    return fill_template(
        "image.ld.in",
        {
            "NAME": name,
            "ENTRY": entry,
            "ROM_BASE": f"{memory.rom_base:#010x}",
            "ROM_SIZE": f"{memory.rom_size // KB}K",
            "RAM_BASE": f"{memory.ram_base:#010x}",
            "RAM_SIZE": f"{memory.ram_size // KB}K",
        },
    )


def gcc_link_flags(core: Core) -> tuple[str, ...]:
    """Our own start-up code, the C library of the compiler, nothing that is not called."""
    libraries = ("-lm", "-lc", "-lgcc")
    specs = ("-specs=picolibc.specs",) if core.riscv else ()
    return (*specs, "-nostartfiles", "-Wl,--gc-sections", *libraries)


def compile_gcc(
    core: Core,
    sources: Sequence[Path],
    out: Path,
    script: Path,
    flags: Iterable[str] = (),
    include: Sequence[Path] = (),
) -> Path:
    """Links an image for `core` with the Arm or RISC-V gcc."""
    given = (*core.gcc, *SECTION_FLAGS, f"-T{script}", *gcc_link_flags(core), *flags)
    return cross_gcc(core).compile(sources, out, given, include)


def compile_zig(
    core: Core,
    sources: Sequence[Path],
    out: Path,
    script: Path,
    flags: Iterable[str] = (),
    include: Sequence[Path] = (),
) -> Path:
    """Links an image for `core` with zig, which needs nothing but pip.

    Its runtime library takes seconds to build on first use for a core, so it is linked only where something is
    missing without it.
    """
    target = ("-target", core.zig_target, f"-mcpu={core.zig_cpu}", "-ffreestanding")
    given = (*target, *SECTION_FLAGS, f"-Wl,-T,{script}", "-Wl,--gc-sections", *flags)
    folders = (*include, targets_folder() / "freestanding")
    zig = TOOLCHAINS["zig"]
    try:
        return zig.compile(sources, out, (*given, "-nostdlib"), folders)
    except CompileError as error:
        if "undefined symbol" not in error.log:
            raise
    return zig.compile(sources, out, given, folders)


def emulator_command(board: Board) -> tuple[str, ...]:
    """QEMU for `board`, without the image; the clock advances by a fixed step for each instruction."""
    riscv = CORES[board.core].riscv
    program = "qemu-system-riscv32" if riscv else "qemu-system-arm"
    bios = ("-bios", "none") if riscv else ()
    quiet = ("-nographic", "-monitor", "none", "-serial", "none")
    semihosting = ("-semihosting-config", "enable=on,target=native,arg=firmware")
    clock = ("-icount", f"shift={board.timer.shift}")
    return (program, "-M", board.machine, *bios, *quiet, *semihosting, *clock)


def startup_source(core: Core) -> str:
    """The file in c_runtime/targets that runs before main."""
    return "startup_riscv.c" if core.riscv else "startup_cortex_m.c"


def firmware_files(board: Board, model: str) -> dict[str, str]:
    """What turns a folder of generated C into firmware for `board`: file name -> text; `make run` there boots it."""
    core = CORES[board.core]
    makefile = fill_template(
        "firmware.mk.in",
        {
            "BOARD": board.name,
            "MODEL": model,
            "MODEL_UPPER": model.upper(),
            "COMPILER": cross_gcc(core).name,
            "TARGET_FLAGS": " ".join(core.gcc),
            "LINK_FLAGS": " ".join(gcc_link_flags(core)),
            "STARTUP": startup_source(core),
            "EMULATE": " ".join(emulator_command(board)),
        },
    )
    copied = (startup_source(core), "semihosting.c", "device_io.h", "run_selftest.c")
    return {
        "Makefile": makefile,
        f"{board.name}.ld": linker_script(board.name, board.memory, "lbnn_reset"),
        **{name: (targets_folder() / name).read_text() for name in copied},
    }
