"""A command that torchrun started in many processes: the first one speaks, also for another one that fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from lbnn.base.errors import LbnnError
from lbnn.cli.ending import INTERRUPTED, MESSAGES, Terminated

if TYPE_CHECKING:
    from lbnn.train.processes import Processes


@contextmanager
def one_of_many() -> Iterator[Processes]:
    """The processes that run this command together; an error is one line of the first, and the others end silently."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # or torch warns of names without an address
    from lbnn.train.processes import PeerLost
    from lbnn.train.together import together

    with together() as processes:
        try:
            yield processes
        except (LbnnError, OSError, MemoryError, KeyboardInterrupt, Terminated) as error:
            if processes.rank:
                if not isinstance(error, PeerLost):
                    processes.tell(_words(error))
                raise click.exceptions.Exit(_status(error)) from None
            if isinstance(error, Terminated) and (reason := processes.told()):  # torchrun ends all where one fails
                raise LbnnError(reason) from None
            raise


def _words(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return MESSAGES["SIGINT"]
    return str(error) or "not enough memory"


def _status(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return error.status if isinstance(error, Terminated) else 2
