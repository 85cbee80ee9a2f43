"""C compilers: which there are for this host and for each family of cores, how one is run, where its parts are kept."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from lbnn.base.errors import LbnnError
from lbnn.base.files import refuse_unwritable
from lbnn.base.temporary import lasting_folder
from lbnn.device.cores import FAMILIES, Core, Family
from lbnn.device.runs import run_to_end

# Flags given by a caller come later and win.
DEFAULT_FLAGS = ("-std=c99", "-O2", "-fno-math-errno")
SANITIZE_FLAGS = (
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g",
)
COMPILE_SECONDS = 300


class CompileError(LbnnError):
    """A compiler refused the source; `log` is all it said."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


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
        _run_compiler(self.name, (*self.command(), *given, "-o", str(out), *libraries), out.parent)
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


# ---- which there are -----------------------------------------------------------------------------------------


def _first_on_path(*names: str) -> tuple[str, ...] | None:
    return next(((path,) for name in names if (path := shutil.which(name))), None)


def on_path(*names: str) -> Callable[[], tuple[str, ...] | None]:
    """Finds the first of these programs that is installed."""
    return partial(_first_on_path, *names)


def zig_command() -> tuple[str, ...] | None:
    """The C compiler of the ziglang package."""
    return (sys.executable, "-m", "ziglang", "cc") if importlib.util.find_spec("ziglang") else None


def _host_command() -> tuple[str, ...] | None:
    """$CC (which may carry flags) if set, else the system's compiler, else zig from pip."""
    if chosen := shlex.split(os.environ.get("CC", "")):
        path = shutil.which(chosen[0])
        return (path, *chosen[1:]) if path else None
    return _first_on_path("cc", "gcc", "clang") or zig_command()


def _family_gcc(family: Family) -> Toolchain:
    return Toolchain(family.gcc, on_path(family.gcc), f"apt install {family.gcc_packages}")


ZIG_FLAGS = ("-fno-sanitize=undefined", "-fomit-frame-pointer")
"""Without them zig compiles with undefined-behaviour traps and frame pointers."""

HOST_TOOLCHAINS: Mapping[str, Toolchain] = {
    toolchain.name: toolchain
    for toolchain in (
        Toolchain("host", _host_command, "set CC, or: apt install gcc, or: pip install ziglang"),
        Toolchain("gcc", on_path("gcc"), "apt install gcc"),
        Toolchain("clang", on_path("clang"), "apt install clang"),
        Toolchain("zig", zig_command, "pip install ziglang", ZIG_FLAGS),
    )
}
"""Those that compile for this host; zig compiles for everything else too."""

TOOLCHAINS: Mapping[str, Toolchain] = {
    **HOST_TOOLCHAINS,
    **{family.gcc: _family_gcc(family) for family in FAMILIES.values()},
}


def cross_gcc(core: Core) -> Toolchain:
    """The gcc for `core`."""
    return TOOLCHAINS[core.family.gcc]


# ---- running one ---------------------------------------------------------------------------------------------


def _run_compiler(name: str, command: Sequence[str], folder: Path) -> None:
    """A compiler that is ended in the middle leaves its own temporary files, so they go where the output goes."""
    zig = str(cache_folder() / "zig")
    own = {"ZIG_GLOBAL_CACHE_DIR": zig, "ZIG_LOCAL_CACHE_DIR": zig, "TMPDIR": str(folder.absolute())}
    done = run_to_end(command, COMPILE_SECONDS, env={**os.environ, **own})
    if done is None:
        raise LbnnError(f"{name} did not finish within {COMPILE_SECONDS} s: {shlex.join(command)}")
    if done.status != 0:
        raise CompileError(f"{name} failed: {_first_error(done.stderr)}", done.stderr)


def _first_error(log: str) -> str:
    """The first line that names an error; linkers do not all say so, hence the last line otherwise."""
    lines = [line.strip() for line in log.splitlines() if line.strip()] or ["no message"]
    named = (line for line in lines if re.search(r"\berror\b|undefined (reference|symbol)|overflowed", line))
    return next(named, lines[-1])


def cache_folder() -> Path:
    """The user's folder for compiled parts that depend on no model; where none can be written, a temporary one."""
    try:
        folder = _wanted_cache()
        folder.mkdir(parents=True, exist_ok=True)
        refuse_unwritable(folder / "new", force=True)
    except (OSError, RuntimeError, LbnnError):  # RuntimeError: there is no home
        return _temporary_cache()
    return folder


def _wanted_cache() -> Path:
    if chosen := os.environ.get("LBNN_CACHE_DIR"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "lbnn"


@cache
def _temporary_cache() -> Path:
    """Code is loaded from the cache, so in a folder that all users share it gets a name that nobody can take first."""
    return lasting_folder()
