"""The processes that torchrun starts: they meet over gloo, train as one, and end together.

torchrun says in the environment who is who. The connection is by its address; on one machine it stays inside, where
the machine's name need not have an address.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from lbnn.train.processes import Ending, Processes, joined

STARTED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LONGEST_WAIT = timedelta(hours=6)
"""While one process reads a large table; an end of another is noticed at once."""
SECONDS_BETWEEN_LOOKS = 0.02


def is_one_of_many() -> bool:
    """Whether torchrun started this process beside others."""
    return all(name in os.environ for name in STARTED) and int(os.environ["WORLD_SIZE"]) > 1


@contextmanager
def together() -> Iterator[Processes]:
    """What this block trains is trained by all processes that torchrun started; alone where it started one or none."""
    if not is_one_of_many():
        yield Processes()
        return
    processes = _meet()
    try:
        with joined(processes), _noting(processes.ending):
            yield processes
            wait_for_all(processes)
    finally:
        with suppress(RuntimeError):
            dist.destroy_process_group()


def wait_for_all(processes: Processes) -> None:
    """Returns when every process is here; signals are answered meanwhile. Nobody waits for one that was lost."""
    if processes.group is None or processes.ending.reason:
        return
    with processes.noticing():
        work: Any = dist.barrier(group=processes.group, async_op=True)
        while not work.is_completed():
            time.sleep(SECONDS_BETWEEN_LOOKS)
        work.wait()


def machine() -> int:
    """The number of this process' machine."""
    return int(os.environ.get("GROUP_RANK", "0"))


def is_first_of_its_machine() -> bool:
    """Whether this process does what each machine needs once."""
    return int(os.environ.get("LOCAL_RANK", "0")) == 0


def import_before_joining() -> None:
    """Modules that hold on to a group which exists when they are imported; torch's optimizers import them late.

    The group's threads would then run until the interpreter is taken down, and now and then abort it.
    """
    import_module("torch._dynamo")


def _meet() -> Processes:
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"] and Path("/sys/class/net/lo").exists():
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    import_before_joining()
    store, rank, world = next(rendezvous("env://", timeout=LONGEST_WAIT))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=LONGEST_WAIT)
    return Processes(rank, world, dist.group.WORLD, store=store)


@contextmanager
def _noting(ending: Ending) -> Iterator[None]:
    """While processes train, Ctrl-C and SIGTERM are noted; at other times they are answered as before."""
    numbers = [signal.SIGINT, signal.SIGTERM] if threading.current_thread() is threading.main_thread() else []
    before = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}

    def answer(number: int, frame: FrameType | None) -> None:
        if ending.waits:
            ending.noted = True
        else:
            before[signal.Signals(number)](number, frame)

    for number in before:
        signal.signal(number, answer)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
