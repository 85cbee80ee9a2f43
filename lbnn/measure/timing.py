"""Times of backends on this host, taken in turns, so that whatever else the machine does hits all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats

Run = Callable[[], Any]
"""Predicts one batch; inputs and outputs are where they were before."""
Clock = Callable[[], float]
"""Seconds for one batch, taken over a short while."""

# Slices are shorter than a scheduler's, so that on a busy machine most of them pass without an interruption.
SLICE_SECONDS = 0.001
MOST_ROUNDS, LEAST_ROUNDS, SLOW_ROUNDS = 201, 11, 3  # at least; those of a second or more fewer
COMPARISON_SECONDS = 5.0
REFERENCE = "onnx"


@dataclass(frozen=True)
class Time:
    """Microseconds for one prediction, and the ratio to onnxruntime in the same round; both medians over rounds.

    `low` and `high` are the quartiles of the ratio; without onnxruntime there is none.
    """

    microseconds: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


def time_in_turns(clocks: Mapping[str, Clock], batch: int, seconds: float = COMPARISON_SECONDS) -> dict[str, Time]:
    """The times of all, in turns: every round asks each clock once, and after about `seconds` no round begins."""
    taken = np.array(list(_rounds(clocks, seconds)))
    names = list(clocks)
    reference = taken[:, names.index(REFERENCE)] if REFERENCE in clocks else None
    return {name: _time(taken[:, i], reference, batch) for i, name in enumerate(names)}


def _rounds(clocks: Mapping[str, Clock], seconds: float) -> Iterator[list[float]]:
    begin = time.perf_counter()
    for number in range(MOST_ROUNDS):
        taken = time.perf_counter() - begin
        least = SLOW_ROUNDS if taken > number else LEAST_ROUNDS
        if number >= least and taken > seconds:
            return
        yield [clock() for clock in clocks.values()]


def clock(run: Run) -> Clock:
    """Times a function over as many calls as fill a slice; the first call, which may set things up, does not count."""
    run()
    if _seconds(run, 1) > SLICE_SECONDS:
        return lambda: _seconds(run, 1)
    repeats = max(1, round(SLICE_SECONDS / median(_seconds(run, 3) for _ in range(3))))
    return lambda: _seconds(run, repeats)


def _time(seconds: Any, reference: Any, batch: int) -> Time:
    microseconds = float(np.median(seconds)) / batch * 1e6
    if reference is None:
        return Time(microseconds)
    low, middle, high = (float(quartile) for quartile in np.percentile(seconds / reference, (25, 50, 75)))
    return Time(microseconds, middle, low, high)


def _seconds(run: Run, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def bind_onnx(proto: Any, inputs: Floats) -> tuple[int, Run]:
    """An exported ONNX model in onnxruntime, inputs and outputs bound; gives the number of threads too.

    A batch runs on one thread, a single sample on as many as suit it best.
    """
    choices = sorted({1, 2, os.cpu_count() or 1}) if len(inputs) == 1 else [1]
    runs = {str(threads): _onnx_session(proto, inputs, threads) for threads in choices}
    times = time_in_turns({name: clock(run) for name, run in runs.items()}, len(inputs), seconds=0.5)
    best = min(runs, key=lambda name: times[name].microseconds)
    return int(best), runs[best]


def one_onnx_thread(proto: Any, inputs: Floats) -> Run:
    """The same on one thread, whatever the batch."""
    return _onnx_session(proto, inputs, 1)


def _onnx_session(proto: Any, inputs: Floats, threads: int) -> Run:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_ortvalue_input("input", ort.OrtValue.ortvalue_from_numpy(inputs))
    for output in session.get_outputs():
        space = np.empty((len(inputs), *output.shape[1:]), np.float32)
        binding.bind_ortvalue_output(output.name, ort.OrtValue.ortvalue_from_numpy(space))
    return lambda: session.run_with_iobinding(binding)


def bind_torch(network: Any, inputs: Floats, part: int) -> Run:
    """The layers themselves, without gradients; at most `part` inputs at once."""
    import torch

    parts = [torch.from_numpy(inputs[begin : begin + part]) for begin in range(0, len(inputs), part)]
    network.eval()

    def run() -> Any:
        with torch.inference_mode():
            return [network(x) for x in parts]

    return run


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """While it lasts torch uses one thread, which suits small networks best."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
