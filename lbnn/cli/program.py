"""The command line: its commands, and what becomes of errors.

Modules of commands import what they run when they run it, so that `lbnn --help` is quick.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence

import click

from lbnn.base.errors import LbnnError
from lbnn.base.version import __version__
from lbnn.cli import ending
from lbnn.cli.bench import bench_command
from lbnn.cli.calibrate import calibrate_command
from lbnn.cli.demo import demo_command
from lbnn.cli.doctor import doctor_command
from lbnn.cli.export import export_command
from lbnn.cli.inspect import inspect_command
from lbnn.cli.predict import predict_command
from lbnn.cli.report import report_command
from lbnn.cli.train import train_command
from lbnn.cli.verify import verify_command

LEAST_MEMORY = 768 << 20
"""Of address space: what `lbnn inspect` takes with torch on one thread, and some more."""


def run(words: Sequence[str]) -> int:
    """Runs a command and gives its exit status; whatever the user can mend is one line on stderr and status 2."""
    _accept_any_text()
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of its caches and fonts
    try:
        status = _invoke(words)
        sys.stdout.flush()
    except click.exceptions.Abort:
        return ending.interrupted()
    except click.ClickException as error:
        return ending.say(error.format_message(), 2)
    except LbnnError as error:
        return ending.say(str(error), 2)
    except BrokenPipeError:
        ending.drop_output()
        return ending.READER_GONE
    except OSError as error:  # such as a full disk behind stdout or temporary files
        ending.drop_output()
        return ending.say(str(error), 2)
    except (MemoryError, RuntimeError, ImportError) as error:
        if not _is_about_memory(error):
            raise
        return ending.say("not enough memory, or not enough address space (ulimit -v), for this command", 2)
    return status


def _invoke(words: Sequence[str]) -> int:
    """What click's own `main` does, except that it ends with 1, here a check that failed, when a reader has gone."""
    if "_LBNN_COMPLETE" in os.environ:
        cli.main(prog_name="lbnn")
    try:
        with cli.make_context("lbnn", list(words)) as context:
            status = cli.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return status if isinstance(status, int) else 0


def _is_about_memory(error: Exception) -> bool:
    """Python, torch and the loader of shared libraries each say it in their own way."""
    signs = ("bad_alloc", "allocate memory", "failed to map segment", "Cannot allocate", "out of memory")
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in signs)


def _refuse_small_memory() -> None:
    """An error where torch would end the process while it loads, with a message of the C++ library."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit not in (-1, resource.RLIM_INFINITY) and limit < LEAST_MEMORY:
        have, need = limit >> 20, LEAST_MEMORY >> 20
        raise LbnnError(f"only {have} MB of address space (ulimit -v); raise the limit to {need} MB or more")


def _accept_any_text() -> None:
    """What stdout and stderr can't encode, such as a file name that is no UTF-8, is spelled out."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


COMMANDS = (
    demo_command,
    train_command,
    predict_command,
    calibrate_command,
    export_command,
    verify_command,
    bench_command,
    inspect_command,
    report_command,
    doctor_command,
)
"""Every command; each is in the module of its name."""


@click.group(commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lbnn")
def cli() -> None:
    """Bayesian neural networks in one pass, from PyTorch to a microcontroller."""
    _refuse_small_memory()
