"""Every way to run a model, what each lacks here, and which of them a command takes unless others are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

from lbnn.base.errors import LbnnError
from lbnn.device.devices import DEVICES
from lbnn.measure.device_backend import run_device
from lbnn.measure.parity import Outcome, Runner
from lbnn.measure.samples import Samples
from lbnn.measure.torch_backend import run_torch
from lbnn.model.file import Model


@dataclass(frozen=True)
class Backend:
    """How to run a model; `missing` says what that lacks here and how to get it, or nothing."""

    run: Runner
    missing: Callable[[], str] = lambda: ""


def _run_onnx(model: Model, samples: Samples) -> Outcome:
    from lbnn.measure.onnx_backend import run_onnx  # onnx and onnxruntime may not be installed

    return run_onnx(model, samples)


def _onnx_missing() -> str:
    return "" if find_spec("onnx") and find_spec("onnxruntime") else "pip install 'lbnn[onnx]'"


STREAMED = ("c", "c-sanitized", "cortex-m0", "cortex-m4", "cortex-m4-gcc")
"""Devices that push a network's input sample by sample where NAME-stream is asked for."""

BACKENDS = {
    "torch": Backend(run_torch),
    "onnx": Backend(_run_onnx, _onnx_missing),
    **{name: Backend(partial(run_device, name), device.missing) for name, device in DEVICES.items()},
    **{f"{name}-stream": Backend(partial(run_device, name, stream=True), DEVICES[name].missing) for name in STREAMED},
}

DEFAULTS = {
    "torch": ("verify", "bench", "report", "demo"),
    "onnx": ("verify", "bench", "report", "demo"),
    "c": ("verify", "bench", "report", "demo"),
    "c-sanitized": ("verify",),
    "cortex-m0-gcc": ("bench",),
    "cortex-m3-gcc": ("bench",),
    "cortex-m4-gcc": ("bench",),
    "cortex-m7-gcc": ("bench",),
    "cortex-m33-gcc": ("bench",),
    "cortex-m0": ("verify", "bench", "report"),
    "cortex-m3": ("verify",),
    "cortex-m4": ("verify", "bench", "report", "demo"),
    "cortex-m7": ("verify",),
    "cortex-m33": ("verify",),
    "microbit": ("verify",),
    "mps2-an385": ("verify",),
    "mps2-an386": ("verify", "report"),
    "mps2-an500": ("verify",),
    "mps2-an505": ("verify",),
    "mps3-an547": ("verify", "bench"),
}
"""The commands that run a backend unless others are asked for; `demo` is its quick form."""


def find_runner(name: str, weights: str = "source", dtype: str = "float32") -> Runner:
    """How a backend answers; `weights` and `dtype` as in an export to C, which other backends have not."""
    if weights == "source" and dtype == "float32":
        return BACKENDS[name].run
    device, asked = name.removesuffix("-stream"), f"--dtype {dtype}" if weights == "source" else f"--weights {weights}"
    if device not in DEVICES:
        raise LbnnError(f"backend {name!r} has no {asked}: that is of generated C; choose another backend")
    return partial(run_device, device, weights=weights, stream=name not in DEVICES, dtype=dtype)


def default_backends(command: str) -> tuple[str, ...]:
    """The backends of a command, in the order of its table."""
    return tuple(name for name, commands in DEFAULTS.items() if command in commands)


def choose_backends(asked: Iterable[str] | None, command: str) -> tuple[list[str], dict[str, str]]:
    """The backends to run and those left out with what they need; one that was asked for must be there."""
    if names := list(asked or ()):
        for name in names:
            _require(name)
        return names, {}
    lacking = {name: BACKENDS[name].missing() for name in default_backends(command)}
    return [name for name, lack in lacking.items() if not lack], {n: lack for n, lack in lacking.items() if lack}


def _require(name: str) -> None:
    if name not in BACKENDS:
        raise LbnnError(f"unknown backend {name!r}; known are {', '.join(BACKENDS)}")
    if lacking := BACKENDS[name].missing():
        raise LbnnError(f"backend {name!r} is not available here: {lacking}")
