"""`lbnn verify --dtype int8`: C in integers, bit for bit beside the integer reference, and what integers lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.base.terminal import kilobytes, print_table, progress
from lbnn.device.avr import AVR_BOARDS
from lbnn.device.compilers import CompileError
from lbnn.device.devices import DEVICES
from lbnn.device.runs import OutOfMemory
from lbnn.exporters.c.dtype import find_dtype
from lbnn.exporters.c.lower import lower
from lbnn.exporters.options import COptions
from lbnn.graph.ints.reference import IntegerResult, predict_integers
from lbnn.graph.reference import predict
from lbnn.measure.backends import default_backends
from lbnn.measure.cost import Cost
from lbnn.measure.device_backend import run_device
from lbnn.measure.loss import BitLoss, losses_by_kind, plain_losses, show_losses
from lbnn.measure.parity import CLASS_PARITY, Runner, class_error
from lbnn.measure.samples import Samples, draw_samples
from lbnn.measure.verify import too_small
from lbnn.model.file import Model

MOST_KL = 0.005
"""Mean KL of ordinary samples above which an arithmetic is too coarse for a model."""

MOST_CLASS_KL = 0.001
"""The same of class probabilities: logits may be off where no probability changes."""

ORDINARY = 256
"""Samples of which that is the mean."""

COST_COLUMNS = ("instructions", "code", "weights", "work", "stack")


@dataclass(frozen=True)
class IntegerVerdict:
    """One backend: how many samples differ from the integer reference, and the first of them.

    `class_error` is that of what the head makes of the logits, in float, if there is one.
    """

    backend: str
    differ: int
    first: str
    cost: Cost
    class_error: float | None = None

    @property
    def passed(self) -> bool:
        """Every bit is that of the reference, and a head computes what it should."""
        return self.differ == 0 and (self.class_error is None or self.class_error <= CLASS_PARITY)


def expect_integers(model: Model, samples: Samples, dtype: str) -> IntegerResult:
    """What the integer reference answers."""
    graph = lower(model, COptions(dtype=dtype, input_variance=samples.var is not None)).graph
    return predict_integers(graph, find_dtype(dtype).mean_bits, samples.mean, samples.var)


def integer_losses(model: Model, samples: Samples, expected: IntegerResult) -> dict[str, BitLoss]:
    """What integers lose of float64, for each kind of sample; results beyond float are left out."""
    exact = predict(model.graph, samples.mean, samples.var)
    kept = np.flatnonzero(~expected.saturated)
    rows = Moments(exact.mean.reshape(len(samples), -1)[kept], exact.var.reshape(len(samples), -1)[kept])
    stored = Moments(expected.mean[kept], expected.var[kept])
    return losses_by_kind(rows, stored, [samples.kinds[i] for i in kept], model.graph)


def ordinary_samples(model: Model, count: int = ORDINARY) -> Samples:
    """Inputs as the model expects them, always the same; two of seven that are drawn are."""
    drawn = draw_samples(model, 7 * count // 2, seed=0)
    chosen = [i for i, kind in enumerate(drawn.kinds) if kind == "ordinary"]
    return Samples(drawn.mean[chosen], None, ("ordinary",) * len(chosen))


def ordinary_loss(model: Model, dtype: str) -> BitLoss:
    """What integers lose on ordinary inputs."""
    samples = ordinary_samples(model)
    return integer_losses(model, samples, expect_integers(model, samples, dtype))["ordinary"]


def too_coarse(loss: BitLoss) -> str:
    """What an arithmetic loses, in words, where that is more than it should be."""
    if loss.class_kl_mean is not None:
        return "" if loss.class_kl_mean <= MOST_CLASS_KL else f"KL {loss.class_kl_mean:.2g} of the class probabilities"
    return "" if loss.kl_mean <= MOST_KL else f"KL {loss.kl_mean:.2g} a prediction"


def verify_integers(
    model: Model,
    samples: Samples,
    names: Sequence[str],
    dtype: str,
    left_out: dict[str, str] | None = None,
    weights: str = "source",
) -> list[IntegerVerdict]:
    """Every backend beside the reference; a board that is too small goes to `left_out`, or is an error without it."""
    expected, rows = expect_integers(model, samples, dtype), []
    with progress("verifying", names) as steps:
        for name in steps:
            try:
                runner = partial(run_device, name, dtype=dtype, weights=weights)
                rows.append(_judge(name, runner, model, samples, expected))
            except (CompileError, OutOfMemory) as error:
                reason = too_small(error) if isinstance(error, CompileError) else str(error)
                if not reason:
                    raise
                if left_out is None:
                    raise LbnnError(f"{model.name} does not fit {name}: {reason}; choose another backend") from error
                left_out[name] = reason
    return rows


def _judge(name: str, runner: Runner, model: Model, samples: Samples, expected: IntegerResult) -> IntegerVerdict:
    outcome = runner(model, samples)
    wrong = _bits_differ(outcome.mean, expected.mean) | _bits_differ(outcome.var, expected.var)
    places = np.flatnonzero(wrong)
    first = f"#{places[0]} {samples.kinds[places[0]]}" if places.size else ""
    return IntegerVerdict(name, int(places.size), first, outcome.cost, class_error(model.graph, outcome))


def _bits_differ(a: Any, b: Any) -> Any:
    patterns = [np.ascontiguousarray(x, np.float32).view(np.uint32).reshape(len(x), -1) for x in (a, b)]
    return (patterns[0] != patterns[1]).any(axis=1)


def integer_backends(asked: Sequence[str] | None) -> tuple[list[str], dict[str, str]]:
    """The devices to run, and those left out with what they need; torch and ONNX have no integers."""
    if asked:
        known = [name for name in DEVICES if name not in AVR_BOARDS]
        if unknown := [name for name in asked if name not in known]:
            why = ", which need an int of 32 bits" if unknown[0] in AVR_BOARDS else ""
            raise LbnnError(f"backend {unknown[0]!r} has no integers{why}; choose from {', '.join(known)}")
        return list(asked), {}
    names = [name for name in default_backends("verify") if name in DEVICES]
    lacking = {name: lack for name in names if (lack := DEVICES[name].missing())}
    return [name for name in names if name not in lacking], lacking


def plain_integers(
    rows: Sequence[IntegerVerdict], losses: Mapping[str, BitLoss], lacking: Mapping[str, str]
) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "passed": all(row.passed for row in rows),
        "backends": [{**asdict(row), "passed": row.passed} for row in rows],
        "losses": plain_losses(losses),
        "missing": dict(lacking),
    }


def show_integers(
    rows: Sequence[IntegerVerdict], losses: Mapping[str, BitLoss], lacking: Mapping[str, str], title: str
) -> None:
    """A table of backends, and one of what integers lose."""
    headed = any(row.class_error is not None for row in rows)
    columns = ["backend", "samples that differ", *(["class error"] if headed else []), "status", *COST_COLUMNS]
    print_table(columns, [_cells(row, headed) for row in rows], f"{title} against the integer reference, bit for bit")
    show_losses(losses, "What integers lose of float64")
    for name, how in lacking.items():
        print(f"left out: {name} ({how})")


def _cells(row: IntegerVerdict, headed: bool) -> list[str]:
    cost = row.cost
    sizes = (cost.code_bytes, cost.weight_bytes, cost.work_bytes, cost.stack_bytes)
    differ = f"{row.differ}, first {row.first}" if row.differ else "none"
    classes = [] if not headed else ["" if row.class_error is None else f"{row.class_error:.1e}"]
    status = "ok" if row.passed else "fails"
    return [row.backend, differ, *classes, status, cost.counted, *map(kilobytes, sizes)]
