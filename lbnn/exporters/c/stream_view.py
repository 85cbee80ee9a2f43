"""What the templates see of a stream: lengths, counts, and the lines of NAME_push."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from lbnn.exporters.c.program import Program
from lbnn.exporters.c.streams import EACH, PushProgram, TickedCall
from lbnn.graph.stream import Tick


@dataclass(frozen=True)
class CountView:
    """A count as text: its name, the call that counts a sample, and when it is due."""

    name: str
    call: str
    comment: str


@dataclass(frozen=True)
class StreamView:
    """Everything the templates may say of a stream."""

    sample_len: int
    result_len: int
    state_len: int
    work_len: int
    length: int
    columns: int
    first: int
    every: int
    results: str
    restarts: bool
    due: str
    counts: tuple[CountView, ...]
    lines: tuple[str, ...]
    result_mean: str
    result_var: str
    logits: int


def stream_view(program: Program) -> StreamView | None:
    """Of a program with a push."""
    push = program.push
    if push is None:
        return None
    result = push.stream.result
    return StreamView(
        sample_len=push.sample_len,
        result_len=push.result_len,
        state_len=push.state_len,
        work_len=push.work_len,
        length=push.stream.length,
        columns=push.stream.columns,
        first=result.first,
        every=result.every,
        results=_results(push),
        restarts=push.stream.restarts,
        due="" if result == EACH else _name(push, result),
        counts=tuple(_count(push, tick) for tick in push.counts),
        lines=tuple(push_lines(push)),
        result_mean=push.program.result[0],
        result_var=push.program.result[1],
        logits=push.work_len - 2 * push.result_len,
    )


def _results(push: PushProgram) -> str:
    """When there is a result and what it equals, for the header."""
    result, length = push.stream.result, push.stream.length
    if push.stream.restarts:
        return f"A result after each {length} samples, and the stream begins anew: that of _predict for these samples"
    if push.stream.columns == 1 and result.first == length:
        return f"A result with sample {length} and {_each(result)}: that of _predict for the last {length} samples"
    return f"A result with sample {result.first} and {_each(result)}: the columns of _predict's, one after the other"


def _each(tick: Tick) -> str:
    return "each one after it" if tick.every == 1 else f"each {tick.every} after it"


def _name(push: PushProgram, tick: Tick) -> str:
    return f"due_{push.counts[tick]}"


def _count(push: PushProgram, tick: Tick) -> CountView:
    at = push.counts[tick]
    return CountView(
        _name(push, tick),
        f"lbnn_due(state{f' + {at}' if at else ''}, {tick.first}, {tick.every})",
        f"with sample {tick.first} and {_each(tick)}",
    )


def push_lines(push: PushProgram) -> list[str]:
    """A comment for each layer and its calls; those that are not made with every sample stand within an if."""
    lines: list[str] = []
    for tick, timed in groupby(_timed_lines(push), key=lambda pair: pair[0]):
        texts = [text for _, text in timed]
        if tick == EACH:
            lines += texts
        else:
            lines += [f"if ({_name(push, tick)}) {{", *(f"    {text}" for text in texts), "}"]
    return lines


def _timed_lines(push: PushProgram) -> Iterator[tuple[Tick, str]]:
    for layer in push.program.layers:
        calls = [each for each in layer.calls if isinstance(each, TickedCall)]
        due = calls[0].tick if calls else push.stream.ticks[layer.node.name]
        yield due, f"/* {layer.layer}  {layer.node.op}  {layer.shape} */"
        yield from ((each.tick, str(each)) for each in calls)
