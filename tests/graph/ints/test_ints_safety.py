"""What integers must never do: be surer than float far outside, say zero, wrap, or pass on what is no number."""

from dataclasses import replace

import numpy as np
import pytest

from c_models import generated
from int_maps import map_network
from int_models import network
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.graph.ints import kernels, quantise, quantise_conv
from lbnn.graph.ints.reference import predict_integers
from lbnn.graph.ints.values import Narrow
from lbnn.graph.passes import prepare
from lbnn.graph.reference import predict
from lbnn.model.file import read_model
from lbnn.model.inputs import input_scale
from places import ROOT

EXAMPLES = {
    "thermometer": "sensor_firmware/thermometer.pt",
    "gas sensor": "edge_onnx/gas_sensor.pt",
    "digits CNN": "digits_cnn/digits.pt",
}
FLT_MAX = np.finfo(np.float32).max
BITS = {"int8": 8, "int16": 12}


def example(name):
    return read_model(ROOT / "examples" / EXAMPLES[name])


def outside(model, factor, count=60):
    """Inputs with all elements so far outside, and as many with a single one."""
    centre, spread = input_scale(model.graph)
    rng, shape = np.random.default_rng(0), (count, *model.graph.input.shape)
    far, usual = (centre + size * spread * rng.normal(size=shape) for size in (factor, 1.0))
    alone = np.zeros((count, far[0].size), bool)
    alone[np.arange(count), rng.integers(alone.shape[1], size=count)] = True
    return np.concatenate([far, np.where(alone.reshape(shape), far, usual)]).astype(np.float32)


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("factor", [10, 30, 100, 300, 1000])
@pytest.mark.parametrize("name", EXAMPLES)
def test_far_outside_an_example_is_as_unsure_as_float(name, factor, dtype):
    model = example(name)
    x = outside(model, factor)
    found, exact = predict_integers(prepare(model.graph, False), BITS[dtype], x), predict(model.graph, x).var
    assert np.all(exact > 0.0) and not found.saturated.any()
    assert np.all(found.var >= 0.9 * exact.reshape(len(x), -1))


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_no_variance_of_an_example_is_zero_whatever_the_size_of_its_input(name, dtype):
    model = example(name)
    shape = model.graph.input.shape
    sizes = 10.0 ** np.linspace(-44, 38, 165).reshape(-1, *(1,) * len(shape))
    signs = np.random.default_rng(0).uniform(-1.0, 1.0, (len(sizes), *shape))
    x = np.concatenate([np.zeros((1, *shape)), sizes * signs]).astype(np.float32)
    found, exact = predict_integers(prepare(model.graph, False), BITS[dtype], x), predict(model.graph, x).var
    wanted = exact.reshape(len(x), -1)
    assert np.all(found.var > 0.0)
    assert np.all((found.var >= 0.9 * wanted) | found.saturated[:, None])


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_beyond_float_is_said_and_bad_input_refused(tmp_path, name, dtype):
    model = example(name)
    size = int(np.prod(model.graph.input.shape))
    x = np.zeros((6, size), np.float32)
    x[0], x[1], x[2, 0], x[3, -1], x[4, size // 2] = FLT_MAX, -FLT_MAX, np.nan, np.inf, -np.inf
    found = run_model("c-sanitized", generated(model, tmp_path, name="net", dtype=dtype), x)
    exact = predict(model.graph, x[:2].reshape(2, *model.graph.input.shape)).var.reshape(2, -1)
    assert found.status.tolist() == [2 if (row > FLT_MAX).any() else 0 for row in exact] + [-2, -2, -2, 0]
    assert np.all(found.variance[:2][exact > FLT_MAX] == FLT_MAX) and np.isfinite(found.mean[:2]).all()
    assert found.status[0] == 2, "the variance of the largest float is beyond float"


@pytest.mark.parametrize(
    ("where", "model"), [(quantise, network((5, 64, 1), "full")), (quantise_conv, map_network("cnn", "full"))]
)
@pytest.mark.parametrize("bits", ["mean_bits", "sigma_bits", "free_bits"])
def test_an_export_with_a_bit_too_many_is_refused(monkeypatch, where, model, bits):
    """Whoever chooses the bits, `check_bounds` has the last word."""
    chosen = quantise.with_bits

    def careless(layer, columns):
        found = chosen(layer, columns)
        return replace(found, **{bits: getattr(found, bits) + 8})

    lower(model, COptions(dtype="int8"))
    monkeypatch.setattr(where, "with_bits", careless)
    with pytest.raises(LbnnError, match=r"layer '.*': a layer of \d+ inputs has sums beyond 32 bits"):
        lower(model, COptions(dtype="int8"))


@pytest.mark.parametrize(("part", "says"), [("mean", "sum of means"), ("sigma", "sum of squares")])
def test_a_sum_beyond_its_bound_stops_the_reference(part, says):
    """Mantissas of all 16 bits, which a layer of so many inputs does not allow."""
    rng, exponent = np.random.default_rng(0), np.zeros(1, np.int64)
    weight = Moments(rng.normal(size=(2, 4096)), np.full((2, 4096), 0.01))
    layer = quantise.quantise_linear(weight, Moments(np.zeros(2), np.zeros(2)), 8)
    assert layer.mean_bits < 15 and layer.sigma_bits < 14
    given = {"mean": np.zeros((1, 4096), np.int64), "sigma": np.zeros((1, 4096), np.int64)}
    given[part] = np.where(layer.weight[:1] < 0, -32767, 32767) if part == "mean" else np.full((1, 4096), 1 << 14)
    with pytest.raises(AssertionError, match=f"a {says} leaves its bound"):
        kernels.int_linear(Narrow(given["mean"], exponent, given["sigma"], exponent), layer)
