"""Times of the backends that run on this host, for one sample and in a batch."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from math import prod
from pathlib import Path

from lbnn.base.arrays import Floats
from lbnn.device.compilers import Toolchain
from lbnn.device.devices import DEVICES
from lbnn.device.hosts import HostDevice
from lbnn.exporters.compiled import compile
from lbnn.graph.passes import prepare
from lbnn.measure import peers, timing
from lbnn.measure.subject import Subject
from lbnn.measure.timing import Clock, Time, clock
from lbnn.model.file import load

TORCH_VALUES = 16_000_000  # of all layers, that torch computes at once; a batch runs in parts of so many
HOST_FLAGS = ("-O3", "-march=native", "-std=gnu99")
Timed = tuple[str, Time, Time]
Binder = Callable[[Floats], tuple[str, Clock]]
"""Gives for a batch how it is run, and the clock of it."""


def host_times(subject: Subject, names: Iterable[str]) -> dict[str, Timed]:
    """How each backend that runs here was run, and its times for one sample and in a batch."""
    binders = {name: HERE[name](subject) for name in names if name in HERE}
    inputs = subject.inputs[: subject.batch]
    with timing.one_torch_thread():
        single = {name: bind(inputs[:1]) for name, bind in binders.items()}
        one = timing.time_in_turns({name: clock for name, (_, clock) in single.items()}, 1)
        many = timing.time_in_turns({name: bind(inputs)[1] for name, bind in binders.items()}, len(inputs))
    return {name: (settings, one[name], many[name]) for name, (settings, _) in single.items()}


def _torch(subject: Subject) -> Binder:
    network = load(subject.path)
    part = max(1, TORCH_VALUES // sum(prod(value.shape) for value in subject.model.graph.values.values()))
    return lambda inputs: ("eager, 1 thread", clock(timing.bind_torch(network, inputs, part)))


def _onnx(subject: Subject) -> Binder:
    def bind(inputs: Floats) -> tuple[str, Clock]:
        threads, run = timing.bind_onnx(subject.onnx, inputs)
        return f"onnxruntime, IO bound, {threads} thread{'s' if threads > 1 else ''}", clock(run)

    return bind


def _iree(subject: Subject) -> Binder:
    folder = Path(tempfile.mkdtemp(dir=subject.generated.folder.parent))
    return lambda inputs: ("its own benchmark, 1 thread", peers.iree_clock(subject.onnx, len(inputs), folder))


def _fastbnns(subject: Subject) -> Binder:
    graph = prepare(subject.model.graph, input_variance=False)
    return lambda inputs: ("eager, 1 thread", clock(peers.bind_fastbnns(graph, inputs)))


def _compiled(name: str, subject: Subject) -> Binder:
    dtype, toolchain = subject.program.dtype.name, host_toolchain(name).name
    compiled = compile(subject.model, dtype=dtype, flags=HOST_FLAGS, toolchain=toolchain)
    bind = compiled.bind if subject.model.graph.head is None else compiled.bind_classify
    return lambda inputs: (" ".join(HOST_FLAGS), clock(bind(inputs)))


HERE: dict[str, Callable[[Subject], Binder]] = {
    "torch": _torch,
    "onnx": _onnx,
    "iree": _iree,
    "fastbnns": _fastbnns,
    **{name: partial(_compiled, name) for name, device in DEVICES.items() if isinstance(device, HostDevice)},
}
"""Backends that run on this host; all others are emulated."""


def host_toolchain(name: str) -> Toolchain:
    """The compiler of a backend that runs the generated C here."""
    device = DEVICES[name]
    assert isinstance(device, HostDevice)
    return device.toolchain
