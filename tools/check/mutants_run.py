"""Runs tests in a copy of the tree that has a fault in it, shielded from the caller, limited in time and memory."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import Progress

CONSOLE = Console(stderr=True)
LEFT_OUT = shutil.ignore_patterns(".*", "out", "build", "dist", "*.egg-info")

LIMIT = 240
"""Seconds for the listed tests; a fault that makes them hang is caught."""

MOST_MEMORY = 4 << 30
"""Bytes that the tests and all that they start may hold; a fault that takes more is caught."""

NOTHING_SELECTED, STRAYED, REFUSED = 5, 99, 98
"""Exit statuses of pytest and of ours."""

CONTEXT = multiprocessing.get_context("forkserver")
"""Forks from a process that has loaded what all tests import, but nothing of lbnn: that halves the time of a fault."""
CONTEXT.set_forkserver_preload(
    ["click", "hypothesis", "mpmath", "numpy", "onnx", "pytest", "rich.progress", "scipy.stats", "torch"]
)

Item, Value = TypeVar("Item"), TypeVar("Value")


class RefusedError(Exception):
    """The language refuses a fault before any test sees it."""


@contextmanager
def copy_of(source: Path) -> Iterator[Path]:
    """A copy of the tree that is gone afterwards, so that nothing a test leaves behind meets the next fault."""
    with tempfile.TemporaryDirectory(prefix="lbnn-mutant-", ignore_cleanup_errors=True) as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(source, tree, ignore=LEFT_OUT)
        yield tree


def put(tree: Path, file: str, text: str) -> None:
    """Writes a file of a copy, and drops what Python has compiled of the old one."""
    (tree / file).write_text(text)
    for compiled in (tree / file).parent.glob(f"__pycache__/{Path(file).stem}.*"):
        compiled.unlink()


def environment(tree: Path) -> dict[str, str]:
    """`import lbnn` is the copy, also in subprocesses; no tool may be missing; the caller's pytest has no say."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "LBNN_REQUIRE_TOOLS": "1",
        "LBNN_THOROUGH": "1",  # a fault names tests that `make test` may leave out
    }


def run_tests(tree: Path, selection: str, limit: float = LIMIT, slack: float = 10.0, probe: str = "") -> str:
    """The first test that fails in a tree, or nothing if all pass; `hangs` if they do not end or take all memory.

    `limit` is seconds of the processor; on the clock it is `slack` times that, because a machine that has other work to
    do is no fault. `probe` is a file of the tree that is loaded before; RefusedError if the language refuses it.
    """
    log = tree.parent / "log"
    process = CONTEXT.Process(target=_pytest, args=(tree, selection, log, int(limit), probe))
    process.start()
    assert process.pid is not None
    ended = time.monotonic() + slack * limit
    while process.is_alive():
        process.join(1.0)
        if process.is_alive() and (time.monotonic() > ended or memory_of_group(process.pid) > MOST_MEMORY):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.join()
            return "hangs"
    return _outcome(process.exitcode, selection, log)


def _outcome(status: int | None, selection: str, log: Path) -> str:
    text = log.read_text(errors="replace") if log.exists() else ""
    if status == REFUSED:
        raise RefusedError(text)
    if "ImportError while loading conftest" in text:
        return "conftest.py"
    if status in (NOTHING_SELECTED, STRAYED):
        raise ValueError(f"pytest {selection}\n{text}")
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return "hangs"
    first = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", text, re.MULTILINE)
    if status == 1 and not first:
        raise RuntimeError(f"pytest {selection} did not begin\n{text}")
    return "" if status == 0 else first[1] if first else f"exit status {status}"


def memory_of_group(group: int) -> int:
    """Bytes held by the processes of a group."""
    total = 0
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            if os.getpgid(int(path.name)) == group:
                total += int((path / "statm").read_text().split()[1]) * resource.getpagesize()
    return total


def _pytest(tree: Path, selection: str, log: Path, seconds: int, probe: str) -> None:
    """What a forked process does: pytest in the copy, which must have imported the copy and nothing else."""
    os.setsid()
    gc.freeze()  # pytest collects garbage at its end: not among the million objects of torch
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(tree)
    os.environ |= dict.fromkeys({*os.environ} - {*environment(tree)}, "") | environment(tree)
    sys.path.insert(0, str(tree))
    for name in [name for name in sys.modules if name.partition(".")[0] == "lbnn"]:  # another user of the fork server
        del sys.modules[name]
    sys.dont_write_bytecode = True
    if probe and (why := _refusal(tree, probe)):
        print(why, flush=True)
        os._exit(REFUSED)
    status = _main(tree, selection)
    if "lbnn" in sys.modules and not Path(str(sys.modules["lbnn"].__file__)).is_relative_to(tree):
        print(f"not the copy: {sys.modules['lbnn'].__file__}", flush=True)
        status = STRAYED
    os._exit(status)


def _main(tree: Path, selection: str) -> int:
    import pytest
    from hypothesis import Phase, settings

    # The same examples every time, and no search for a smaller one: the first that fails is enough.
    settings.register_profile("mutants", derandomize=True, database=None, phases=(Phase.explicit, Phase.generate))
    settings.load_profile("mutants")
    options = [
        "-x",
        "-q",
        "--tb=no",
        "--color=no",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:unraisableexception",
        f"--basetemp={tree.parent}/tmp",
    ]
    status = int(pytest.main([*options, *shlex.split(selection)]))
    sys.stdout.flush()
    return NOTHING_SELECTED if status == pytest.ExitCode.USAGE_ERROR else status


def _refusal(tree: Path, file: str) -> str:
    """Why a file can't be used at all, or nothing."""
    try:
        if file.endswith(".py"):
            importlib.import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
            importlib.import_module("lbnn.exporters")
        elif file.endswith(".j2"):
            return _generated_c_does_not_compile(tree.parent / "probe")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _generated_c_does_not_compile(folder: Path) -> str:
    """What the compiler says of an export that uses every template of C, or nothing."""
    import torch

    lbnn: Any = importlib.import_module("lbnn")
    torch.manual_seed(0)
    model = lbnn.nn.Sequential(lbnn.nn.Linear(3, 4), lbnn.nn.LeakyReLU(0.1), lbnn.nn.Linear(4, 2))
    lbnn.export(model, "c", folder, input_shape=(3,), name="probe", input_variance=True)
    templates: Any = importlib.import_module("lbnn.base.templates")
    names = SimpleNamespace(name="probe", upper="PROBE", input_variance=True, element="float")
    (folder / "batch.c").write_text(templates.render("c/batch.c.j2", model=names, tiles=None))
    command = "gcc -std=c99 -Wall -Wextra -Wconversion -Werror -fsyntax-only -I."
    sources = sorted(path.name for path in folder.glob("*.c"))
    return subprocess.run([*command.split(), *sources], cwd=folder, capture_output=True, text=True).stderr


def each(label: str, function: Callable[[Item], Value], items: list[Item], jobs: int) -> Iterator[Value]:
    """The results as they come, with a bar on a terminal."""
    with Progress(console=CONSOLE, disable=not CONSOLE.is_terminal) as bar, ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            for done in bar.track(as_completed(futures), total=len(items), description=label):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
