"""The command line: its commands, and what becomes of errors.

Modules of commands import what they run when they run it, so that `lbnn --help` is quick.
"""

from __future__ import annotations

import io
import os
import sys

import click

from lbnn.base.errors import LbnnError, one_line
from lbnn.base.version import __version__
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


def main(arguments: list[str] | None = None) -> None:
    """Runs a command; whatever the user can mend is one line on stderr and exit status 2."""
    _accept_any_text()
    try:
        status = cli.main(arguments, prog_name="lbnn", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        _leave("interrupted", 130)
    except click.ClickException as error:
        _leave(error.format_message(), 2)
    except LbnnError as error:
        _leave(str(error), 2)
    except KeyboardInterrupt:
        _leave("interrupted", 130)
    except BrokenPipeError:
        _drop_output()
        sys.exit(0)
    except OSError as error:  # such as a full disk behind stdout or temporary files
        _drop_output()
        _leave(str(error), 2)
    except MemoryError:
        _leave("not enough memory", 2)
    sys.exit(status if isinstance(status, int) else 0)


def _leave(message: str, status: int) -> None:
    print("lbnn:", one_line(message), file=sys.stderr)
    sys.exit(status)


def _accept_any_text() -> None:
    """What stdout and stderr can't encode, such as a file name that is no UTF-8, is spelled out."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Nothing more goes to stdout, so that Python does not fail again when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


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


if __name__ == "__main__":
    main()
