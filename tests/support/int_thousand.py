"""Models and inputs on which generated integers are held to the reference, a thousand samples each.

tests/exporters/c/dtypes/test_integer_thousand.py runs a part of what tools/check/integers.py runs whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench_models import MODELS as BENCH
from bench_models import build
from c_models import generated
from int_maps import map_network
from int_models import hostile_inputs, reference, same_bits, with_variances
from lbnn.device.devices import Device, run_model
from lbnn.device.generated import GeneratedModel
from lbnn.exporters.c import COptions, lower
from lbnn.graph.ints.reference import IntegerResult
from lbnn.measure.samples import draw_samples
from lbnn.model.file import Model, read_model
from places import ROOT

SAMPLES = 1000


def _file(path: str) -> Callable[[], Model]:
    return lambda: read_model(ROOT / "examples" / path)


def _m2(form: str) -> Callable[[], Model]:
    return lambda: with_variances(read_model(build("m2"), BENCH["m2"][1]), form, 0)


THOUSANDS: dict[str, Callable[[], Model]] = {
    "thermometer": _file("sensor_firmware/thermometer.pt"),
    "thermometer, input variance": _file("sensor_firmware/thermometer.pt"),
    "gas sensor": _file("edge_onnx/gas_sensor.pt"),
    "digits CNN": _file("digits_cnn/digits.pt"),
    "M2, rank-1": _m2("rank1"),
    "M2, full": _m2("full"),
    "dilated groups": lambda: map_network("dilated groups", "full"),
    "depthwise, strided": lambda: map_network("depthwise", "rank1"),
    "max pools": lambda: map_network("max pools", "rank1"),
    "the largest of the input": lambda: map_network("the largest of the input", "full"),
    "branches, input variance": lambda: map_network("odd branches", "full"),
}


@dataclass(frozen=True)
class Thousand:
    """A model with inputs, their variances if it takes any, and what the reference makes of them."""

    model: Model
    options: dict[str, Any]
    mean: Any
    var: Any
    wanted: IntegerResult

    def write(self, folder: Path) -> GeneratedModel:
        """Its generated C."""
        return generated(self.model, folder, **self.options)

    def differ(self, device: str | Device, net: GeneratedModel, flags: tuple[str, ...] = ()) -> int:
        """How many samples have another bit on a device, or another status."""
        return int(np.sum(~same_bits(run_model(device, net, self.mean, self.var, flags=flags), self.wanted)))


@cache
def thousand(name: str, dtype: str, count: int = SAMPLES) -> Thousand:
    """A row of THOUSANDS; half of its inputs are hostile, the others as `verify` draws them."""
    model, spread = THOUSANDS[name](), name.endswith("input variance")
    shape = model.graph.input.shape
    drawn = draw_samples(model, count - count // 2, seed=1).mean.reshape(-1, int(np.prod(shape)))
    mean = np.concatenate([hostile_inputs(drawn.shape[1], count // 2), drawn])
    var = _variances(mean) if spread else None
    options = dict(name="net", dtype=dtype, input_variance=spread)
    given = [None if part is None else part.reshape(count, *shape) for part in (mean, var)]
    return Thousand(model, options, mean, var, reference(lower(model, COptions(**options)), *given))


def _variances(mean: Any) -> Any:
    """A tenth of an input's size as its sigma, at most what float holds, and none for every seventh."""
    var = np.minimum(0.01 * np.square(mean, dtype=np.float64) + 1e-9, 1e37).astype(np.float32)
    var[::7] = 0.0
    return var
