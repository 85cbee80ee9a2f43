"""Instructions and bytes of a prediction: exact on emulated cores, by callgrind on this host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from lbnn.base.errors import LbnnError
from lbnn.base.temporary import temporary_folder
from lbnn.device import callgrind
from lbnn.device.compilers import DEFAULT_FLAGS, CompileError
from lbnn.device.cycles import PIPELINES
from lbnn.device.devices import DEVICES, run_model
from lbnn.device.firmware import CROSS_COMPILERS
from lbnn.device.generated import GeneratedModel
from lbnn.device.results import DeviceResult
from lbnn.exporters.c import COptions, footprint, lower
from lbnn.exporters.c.folder import write_program
from lbnn.exporters.c.program import Program
from lbnn.measure import peers
from lbnn.measure.backends import BACKENDS
from lbnn.measure.cost import Cost
from lbnn.measure.device_backend import device_cost
from lbnn.measure.host_times import HERE, HOST_FLAGS, host_toolchain
from lbnn.measure.layers import LayerCost, head_cost, layer_costs
from lbnn.measure.subject import MANY_PRODUCTS, NAME, Subject, counted_inputs, ordinary_inputs
from lbnn.measure.verify import too_small, unfit
from lbnn.model.file import Model

DEVICE_FLAGS = ("-std=gnu99",)  # beside the defaults -O2 -fno-math-errno; gnu99 lets gcc fuse multiply and add
FLAGS_TEXT = " ".join((*DEFAULT_FLAGS[1:], *DEVICE_FLAGS))
PLAIN_FLAG = "-DLBNN_MEAN_ONLY"  # the same kernels without variances: the plain network
REFERENCE_DEVICES = ("cortex-m4-gcc", "cortex-m4")
CYCLE_DEVICES = tuple(core + compiler.suffix for core in PIPELINES for compiler in CROSS_COMPILERS.values())


@dataclass(frozen=True)
class Counted:
    """What was counted on a backend."""

    settings: str
    cost: Cost
    plain: Cost | None = None
    layers: tuple[LayerCost, ...] = ()


def count_backend(name: str, subject: Subject, asked: bool) -> Counted | str:
    """The cost of a prediction; why there is none on a board that is too small, an error if it was asked for."""
    if name in HERE:
        return _count_here(name, subject)
    if name == "emx-onnx-cgen":
        return Counted(f"cortex-m4-gcc {FLAGS_TEXT}", peers.count_emx(subject.onnx, subject.inputs, DEVICE_FLAGS))
    try:
        return _emulate(name, subject)
    except CompileError as error:
        if not (reason := too_small(error)):
            raise
        if asked:
            raise unfit(subject.model, name, reason) from error
        return reason


def too_slow(name: str, program: Program) -> str:
    """Why a core is left out unless it is asked for: in software, floats of a large network take minutes."""
    core, products = getattr(DEVICES.get(name), "core", None), footprint(program).macs
    if core is None or core.hard_float or program.dtype.is_integer or products < MANY_PRODUCTS:
        return ""
    return f"no floating-point unit: {products:,} products take minutes there; --backends {name} counts them"


def _count_here(name: str, subject: Subject) -> Counted:
    if name not in DEVICES or not callgrind.available():
        return Counted("", Cost())
    count = partial(callgrind.count, host_toolchain(name), inputs=subject.few)
    whole = Cost(count(model=subject.called, flags=HOST_FLAGS))
    if subject.program.dtype.is_integer:
        return Counted("", whole)
    return Counted("", whole, Cost(count(model=subject.generated, flags=(*HOST_FLAGS, PLAIN_FLAG))))


def _emulate(name: str, subject: Subject) -> Counted:
    run = partial(run_model, name, inputs=subject.few, flags=DEVICE_FLAGS, profile=name in CYCLE_DEVICES)
    result = predicted = run(model=subject.generated)
    if subject.called.classifies:
        result = run(model=subject.called)
    cost = device_cost(result, footprint(subject.program).weight_bytes)
    if name not in REFERENCE_DEVICES:
        return Counted(FLAGS_TEXT, cost, _plain(name, subject))
    layers = _layers(subject.program, subject.generated, predicted, result)
    return Counted(FLAGS_TEXT, cost, _plain(name, subject), layers)


def _plain(name: str, subject: Subject) -> Cost | None:
    """The same network without variances; integers have none."""
    if subject.program.dtype.is_integer:
        return None
    flags = (*DEVICE_FLAGS, PLAIN_FLAG)
    plain = run_model(name, subject.generated, subject.few, flags=flags, profile=name in CYCLE_DEVICES)
    return _means_alone(device_cost(plain, footprint(subject.program).weight_bytes))


def _layers(
    program: Program, generated: GeneratedModel, predicted: DeviceResult, result: DeviceResult
) -> tuple[LayerCost, ...]:
    *layers, checks = layer_costs(program, generated.source, predicted)
    return (*layers, *head_cost(program, predicted, result), checks)


def _means_alone(cost: Cost) -> Cost:
    """The generated code keeps room for the variances; a plain network needs no more than half of it."""
    halved = {key: (value + 1) // 2 for key in ("weight_bytes", "work_bytes") if (value := getattr(cost, key))}
    return replace(cost, **halved)


def reference_device() -> str | None:
    """The Cortex-M4F that layers are counted on: by gcc, else by zig."""
    return next((name for name in REFERENCE_DEVICES if not BACKENDS[name].missing()), None)


def reference_layer_costs(model: Model) -> tuple[LayerCost, ...]:
    """Instructions of each layer on a Cortex-M4F; none where it can't be emulated."""
    device = reference_device()
    if device is None:
        return ()
    options = COptions(name=NAME)
    program = lower(model, options)
    inputs = counted_inputs(ordinary_inputs(model), program)
    with temporary_folder() as folder:
        generated = write_program(program, model, options, folder / "c")
        try:
            predicted = run_model(device, generated, inputs, flags=DEVICE_FLAGS, profile=True)
            called = replace(generated, classifies=program.graph.head is not None)
            result = run_model(device, called, inputs, flags=DEVICE_FLAGS) if called.classifies else predicted
        except LbnnError:
            return ()
        return _layers(program, generated, predicted, result)
