"""The bar that shows a training on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lbnn.train.result import Epoch


@contextmanager
def epoch_bar(progress: bool | None, rank: int, epochs: int) -> Iterator[Callable[[Epoch], None]]:
    """A function that shows an epoch's loss and validation NLL; None asks for a bar on a terminal only."""
    wanted = sys.stderr.isatty() if progress is None else progress
    if not wanted or rank != 0:
        yield lambda record: None
        return
    columns = [TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")]
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=epochs)
        last = ""

        def show(record: Epoch) -> None:
            nonlocal last
            if record.validation is not None:
                last = f"  validation NLL {record.validation:.4f}"
            bar.update(task, completed=record.epoch, description=f"loss {record.loss:.4f}{last}")

        yield show
