"""Images for cores and boards: linker script, start-up code, the compilers' flags, and a Makefile that boots them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lbnn.base.errors import LbnnError
from lbnn.base.resources import targets_folder
from lbnn.base.templates import render
from lbnn.device.boards import KB, MB, Board, Memory
from lbnn.device.compilers import TOOLCHAINS, CompileError, Toolchain, cross_gcc
from lbnn.device.cores import Core
from lbnn.device.stack import STACK_FLAGS

RESET = "lbnn_reset"
"""Where every start-up file begins."""
SECTION_FLAGS = ("-ffunction-sections", "-fdata-sections")
IMAGE_MEMORY = Memory(0x08000000, 16 * MB, 0x20000000, 4 * MB)
"""Where an image without start-up code is linked: not at address 0, so that a null pointer faults. 16 MB hold 2 million
weights in float32."""


def linker_script(name: str, memory: Memory, entry: str) -> str:
    """The linker script of an image called `name` that starts at the symbol `entry`."""
    return render(
        "device/image.ld.j2",
        name=name,
        entry=entry,
        rom_base=f"{memory.rom_base:#010x}",
        rom_size=f"{memory.rom_size // KB}K",
        ram_base=f"{memory.ram_base:#010x}",
        ram_size=f"{memory.ram_size // KB}K",
        constants_base=f"{memory.constants_base:#010x}",
        constants_size=f"{memory.constants_size // KB}K" if memory.constants_size else "",
    )


def gcc_link_flags(core: Core) -> tuple[str, ...]:
    """Our own start-up code, the C library of the compiler, nothing that is not called."""
    libraries = ("-lm", "-lc", "-lgcc")
    return (*core.family.gcc_specs, "-nostartfiles", "-Wl,--gc-sections", *libraries)


def compile_gcc(
    core: Core,
    sources: Sequence[Path],
    out: Path,
    script: Path,
    flags: Iterable[str] = (),
    include: Sequence[Path] = (),
) -> Path:
    """Links an image for `core` with the gcc of its family."""
    given = (*core.gcc, *SECTION_FLAGS, f"-T{script}", *gcc_link_flags(core), *flags)
    return cross_gcc(core).compile(sources, out, given, include)


def zig_target(core: Core) -> tuple[str, ...]:
    """Tells zig which core it compiles for."""
    if core.zig_cpu is None or core.family.zig_targets is None:
        raise LbnnError(f"zig has no {core.name}; compile for it with {core.family.gcc}")
    soft, hard = core.family.zig_targets
    return ("-target", hard if core.hard_float else soft, f"-mcpu={core.zig_cpu}", "-ffreestanding")


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
    given = (*zig_target(core), *SECTION_FLAGS, f"-Wl,-T,{script}", "-Wl,--gc-sections", *flags)
    folders = (*include, targets_folder() / "freestanding")
    zig = TOOLCHAINS["zig"]
    try:
        return zig.compile(sources, out, (*given, "-nostdlib"), folders)
    except CompileError as error:
        if "undefined symbol" not in error.log:
            raise
    return zig.compile(sources, out, given, folders)


@dataclass(frozen=True)
class CrossCompiler:
    """A compiler for other cores: which it knows, its command for one, and how it links an image."""

    name: str
    suffix: str  # of a device's name
    knows: Callable[[Core], bool]
    toolchain: Callable[[Core], Toolchain]
    link: Callable[[Core, Sequence[Path], Path, Path, Iterable[str], Sequence[Path]], Path]
    stack_flags: tuple[str, ...] = ()  # where it can write down the stack of each function


CROSS_COMPILERS: Mapping[str, CrossCompiler] = {
    compiler.name: compiler
    for compiler in (
        CrossCompiler("zig", "", lambda core: core.zig_cpu is not None, lambda core: TOOLCHAINS["zig"], compile_zig),
        CrossCompiler("gcc", "-gcc", lambda core: True, cross_gcc, compile_gcc, STACK_FLAGS),
    )
}


def link_for_core(
    core: Core,
    sources: Sequence[Path],
    out: Path,
    keep: Sequence[str],
    flags: Iterable[str] = (),
    include: Sequence[Path] = (),
    compiler: str = "zig",
) -> Path:
    """An image for UnicornMachine that holds the functions `keep` and what they call; `compiler` is zig or gcc."""
    script = out.with_suffix(".ld")
    script.write_text(linker_script(core.name, IMAGE_MEMORY, keep[0]))
    roots = (f"-Wl,-e,{keep[0]}", *(f"-Wl,-u,{name}" for name in keep))
    return CROSS_COMPILERS[compiler].link(core, sources, out, script, ("-g", *roots, *flags), include)


def emulator_command(board: Board) -> tuple[str, ...]:
    """QEMU for `board`, without the image; the clock advances by a fixed step for each instruction."""
    qemu = board.core.family.qemu
    quiet = ("-nographic", "-monitor", "none", "-serial", "none")
    semihosting = ("-semihosting-config", "enable=on,target=native,arg=firmware")
    clock = ("-icount", f"shift={board.timer.shift}")
    return (qemu.program, "-M", board.machine, *qemu.flags, *quiet, *semihosting, *clock)


def firmware_files(board: Board, model: str, input_variance: bool = False) -> dict[str, str]:
    """What turns a folder of generated C into firmware for `board`: file name -> text; `make run` there boots it."""
    core = board.core
    makefile = render(
        "device/Makefile.j2",
        board=board.name,
        model=model,
        model_upper=model.upper(),
        variance_flag=" -DLBNN_INPUT_VARIANCE" if input_variance else "",
        compiler=cross_gcc(core).name,
        target_flags=" ".join(core.gcc),
        link_flags=" ".join(gcc_link_flags(core)),
        startup=core.family.startup,
        emulate=" ".join(emulator_command(board)),
    )
    copied = (core.family.startup, "semihosting.c", "device_io.h", "cycles.h", "run_selftest.c")
    return {
        "Makefile": makefile,
        f"{board.name}.ld": linker_script(board.name, board.memory, RESET),
        **{name: (targets_folder() / name).read_text() for name in copied},
    }
