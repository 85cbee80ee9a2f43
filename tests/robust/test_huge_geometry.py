"""Geometry that no memory holds: refused in one line, whatever the operator, before anything is allocated for it."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lbnn
from huge_geometry import HUGE, changed, geometric_ops, model_file, spots
from lbnn import LbnnError
from lbnn import nn as bnn
from lbnn.base.moments import Moments
from lbnn.graph import GraphBuilder
from lbnn.ops import OPS, Use
from lbnn.ops.arithmetic import pairs_inside
from lbnn.ops.limits import MAX_ELEMENTS
from saved import refused

MEMORY = 512 * 2**20  # bytes that may be added while files are read
PROCESSOR = 60  # seconds for all files of a test


@contextmanager
def limited() -> Iterator[None]:
    """Within little more memory than is used now, and little time of the processor."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    used = resource.getrusage(resource.RUSAGE_SELF)
    wanted = {
        resource.RLIMIT_AS: pages * resource.getpagesize() + MEMORY,
        resource.RLIMIT_CPU: int(used.ru_utime + used.ru_stime) + PROCESSOR,
    }
    before = {which: resource.getrlimit(which) for which in wanted}
    handler = signal.signal(signal.SIGXCPU, lambda *_: pytest.fail("reading takes too long"))
    try:
        for which, soft in wanted.items():
            resource.setrlimit(which, (soft, before[which][1]))
        yield
    finally:
        for which, limits in before.items():
            resource.setrlimit(which, limits)
        signal.signal(signal.SIGXCPU, handler)


@pytest.mark.parametrize("op", geometric_ops(), ids=lambda op: op.name)
def test_a_file_with_one_huge_number_is_refused_in_one_line(op: Any, tmp_path: Path) -> None:
    with limited():
        for sample in op.samples:
            for spot in spots(op, sample):
                for number in HUGE:
                    refused(tmp_path / "huge.pt", model_file(op, sample, changed(sample, {spot: number})))


@pytest.mark.parametrize("op", geometric_ops(), ids=lambda op: op.name)
def test_a_layer_with_a_huge_number_is_refused_when_the_graph_is_built(op: Any) -> None:
    for sample in op.samples:
        for spot in spots(op, sample):
            attrs = {key: _tuples(value) for key, value in changed(sample, {spot: 2**30}).items()}
            params = {key: _param(shape, key in op.gaussian) for key, shape in sample.params.items()}
            with pytest.raises(LbnnError, match=r"^node 'node': [^\n]+$"):
                GraphBuilder("g", sample.inputs[0], True).add(
                    "node", op.name, ["input"] * len(sample.inputs), attrs, params
                )


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _param(shape: tuple[int, ...], gaussian: bool) -> Any:
    return Moments(np.ones(shape), np.ones(shape)) if gaussian else np.ones(shape)


@st.composite
def geometries(draw: Any) -> tuple[Any, Any, dict[str, Any]]:
    """An operator, one of its samples, and attributes of which some numbers are large: any size up to 2^31."""
    op = draw(st.sampled_from(geometric_ops()))
    sample = draw(st.sampled_from(op.samples))
    chosen = draw(st.lists(st.sampled_from(spots(op, sample)), min_size=1, max_size=4, unique=True))
    large = st.integers(0, 30).flatmap(lambda bits: st.integers(2**bits - 1, 2 ** (bits + 1) - 1))
    return op, sample, changed(sample, {spot: draw(large) for spot in chosen})


def padded_elements(op: Any, shape: tuple[int, ...], attrs: dict[str, Any]) -> int:
    """Of a copy of the input with its padding, as numpy and torch make it; counted by hand.

    The padding of a transposed convolution is cut off its result, which is there whole before.
    """
    pads = attrs.get("padding", [0] * (len(shape) - 1))
    amounts = [sum(pad) if isinstance(pad, list) else 2 * pad for pad in pads]
    return shape[0] * prod(size + amount for size, amount in zip(shape[1:], amounts, strict=True))


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(geometries())
def test_what_is_read_has_no_padded_copy_beyond_the_limit(tmp_path_factory: Any, drawn: Any) -> None:
    op, sample, attrs = drawn
    path = tmp_path_factory.getbasetemp() / "drawn.pt"
    path.write_bytes(model_file(op, sample, attrs))
    with limited():
        try:
            graph = lbnn.read_model(path).graph
        except LbnnError as error:
            assert "\n" not in str(error)
            return
        for node in graph.nodes:
            OPS[node.op].arithmetic(graph.use(node))
    if "padding" in attrs:
        cut = op.general == "conv_transposed"
        assert padded_elements(op, graph.values["node"].shape if cut else sample.inputs[0], attrs) <= MAX_ELEMENTS


# Sizes that a small file can ask for: each number is allowed, what follows from them is not.
FOLLOWS = {
    "windows beyond count": (bnn.AvgPool1d(2**26, stride=1), (1, 2**27), "windows"),
    "padding of both axes": (bnn.Conv2d(1, 1, 1, stride=2**15, padding=2**14), (1, 2, 2), "padded input"),
    "padding of a pool": (bnn.AvgPool2d(2**15, padding=2**14), (1, 2, 2), "padded input"),
    "channels times padding": (bnn.Conv1d(16, 1, 1, stride=2**25, padding=2**24), (16, 4), "padded input"),
    "dilation under padding": (bnn.Conv1d(1, 1, 3, dilation=2**27, padding=2**27), (1, 4), "padded input"),
    "windows of a convolution": (bnn.Conv2d(64, 1, 9), (64, 300, 300), "windows"),
    "a result that is cut": (bnn.ConvTranspose1d(1, 1, 2, padding=2**27, dilation=2**28), (1, 4), "padded input"),
    "taps of all inputs": (bnn.ConvTranspose2d(1, 64, 9), (1, 300, 300), "windows"),
    "padding alone": (bnn.ZeroPad2d(2**14), (1, 2, 2), "its result has"),
}


@pytest.mark.parametrize("case", FOLLOWS)
def test_layers_that_would_allocate_more_than_the_limit_are_refused(case: str, tmp_path: Path) -> None:
    layer, shape, reason = FOLLOWS[case]
    with limited(), pytest.raises(LbnnError, match=rf"^node '0': [^\n]*{reason}[^\n]*$"):
        lbnn.save(bnn.Sequential(layer), tmp_path / "m.pt", input_shape=shape)


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 4), st.integers(0, 6), st.integers(1, 4))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_pairs_inside_are_those_that_counting_finds(size: int, kernel: int, stride: int, pad: int, step: int) -> None:
    number = (size + 2 * pad - step * (kernel - 1) - 1) // stride + 1
    if number < 1:
        return
    starts = [i * stride - pad for i in range(number)]
    counted = sum(0 <= start + tap * step < size for start in starts for tap in range(kernel))
    use = Use(((1, size),), (1, number), {}, {})
    assert pairs_inside(use, (kernel,), (stride,), (pad,), (step,)) == counted
