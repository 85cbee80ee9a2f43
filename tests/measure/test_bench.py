"""`lbnn bench` counts what it says it counts. Nothing here asserts a time."""

import json

import numpy as np
import pytest
import torch

import lbnn
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.files import write_folder
from lbnn.cli.main import main
from lbnn.device.devices import run_model
from lbnn.device.generated import read_generated
from lbnn.exporters.c import COptions, generate
from lbnn.graph import arithmetic
from lbnn.graph.passes import prepare
from lbnn.measure import bench, timing
from lbnn.model.file import read_model
from places import need


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    torch.manual_seed(0)
    model = bnn.Sequential(bnn.Linear(3, 8), bnn.LeakyReLU(0.1), bnn.Linear(8, 2))
    return lbnn.save(model, tmp_path_factory.mktemp("model") / "small.pt", input_shape=(3,))


@pytest.fixture(scope="module")
def found(small):
    need("arm-none-eabi-gcc")
    return bench.run(small, ["torch", "onnx", "c", "cortex-m4-gcc"])


def row(found, backend):
    return next(row for row in found.rows if row.backend == backend)


def test_a_row_for_each_backend_with_what_it_can_tell(found):
    assert [row.backend for row in found.rows] == ["torch", "onnx", "c", "cortex-m4-gcc"]
    device = row(found, "cortex-m4-gcc")
    assert device.cost.instructions > 0 and device.one is None
    assert device.flash_bytes == device.cost.code_bytes + device.cost.weight_bytes
    assert row(found, "torch").cost.instructions is None


def test_times_are_ratios_to_onnxruntime_in_the_same_rounds(found):
    for host in found.rows[:3]:
        for time in (host.one, host.batch):
            assert time.microseconds > 0 and time.low <= time.ratio <= time.high
    assert row(found, "onnx").one.ratio == 1.0


def test_layers_and_checks_add_up_to_the_whole(found):
    assert sum(layer.instructions for layer in found.layers) == row(found, "cortex-m4-gcc").cost.instructions
    assert [layer.op for layer in found.layers] == ["linear_point", "leaky_relu", "linear", ""]


def test_no_layer_takes_less_than_its_arithmetic(found):
    assert all(layer.instructions >= layer.minimum > 0 for layer in found.layers)


def test_the_plain_network_is_that_of_the_means(small, tmp_path):
    """And takes fewer instructions than the moments, on the host and on a core."""
    need("arm-none-eabi-gcc")
    model = read_model(small)
    folder = write_folder(tmp_path / "c", generate(model, COptions(name="model")))
    x = bench.ordinary_inputs(model)[:4]
    weights = [(node.params["weight"].mean, node.params["bias"].mean) for node in model.graph.nodes if node.params]
    (w1, b1), (w2, b2) = weights
    hidden = x @ w1.T + b1
    want = np.where(hidden < 0, 0.1 * hidden, hidden) @ w2.T + b2
    for device in ("c", "cortex-m4-gcc"):
        result = run_model(device, read_generated(folder, "model"), x, flags=[*bench.DEVICE_FLAGS, bench.PLAIN_FLAG])
        np.testing.assert_allclose(result.mean, want, rtol=1e-5, atol=1e-6)


def test_variances_cost_instructions_and_sampling_more_of_them(found):
    assert 2 < row(found, "cortex-m4-gcc").factor < 8
    assert bench.sampled_cost(found) == pytest.approx(found.sampling.passes / row(found, "cortex-m4-gcc").factor)


def test_one_gaussian_output_needs_two_hundred_passes_for_ten_percent(tmp_path):
    """The variance of a Gaussian from n samples has the relative standard error sqrt(2 / n)."""
    path = lbnn.save(bnn.Sequential(bnn.Linear(4, 1)), tmp_path / "linear.pt", input_shape=(4,))
    sampling = bench.sampled_passes(path, bench.ordinary_inputs(read_model(path)))
    assert sampling.passes == pytest.approx(200, rel=0.1)
    assert not sampling.resolved


def test_a_network_without_gaussian_weights_has_nothing_to_draw(tmp_path):
    path = lbnn.save(bnn.Sequential(bnn.Flatten(), bnn.LeakyReLU(0.1)), tmp_path / "plain.pt", input_shape=(4,))
    assert bench.sampled_passes(path, bench.ordinary_inputs(read_model(path))) is None


def test_the_reference_of_all_ratios_is_timed_with_the_others():
    times = timing.compare({"onnx": lambda: 2.0, "c": lambda: 0.5}, batch=10)
    assert times["onnx"].ratio == 1.0
    assert times["c"] == timing.Time(microseconds=0.05e6, ratio=0.25, low=0.25, high=0.25)
    assert timing.compare({"c": lambda: 0.5}, batch=10)["c"].ratio is None


def test_a_clock_gives_the_seconds_of_one_call():
    calls = []
    seconds = timing.clock(lambda: calls.append(1))
    before = len(calls)
    assert 0 < seconds() < 1 and len(calls) > before


PRODUCTS = [
    (bnn.Linear(5, 3), (5,), 15),
    (bnn.Conv2d(1, 1, 3), (1, 3, 3), 9),
    (bnn.Conv2d(1, 1, 3, padding=1), (1, 3, 3), 49),  # 2 + 3 + 2 taps of each axis are inside
    (bnn.Conv2d(2, 4, 1), (2, 5, 5), 200),
    (bnn.Conv2d(4, 4, 3, padding=1, groups=4), (4, 3, 3), 196),
    (bnn.Conv1d(1, 2, 3, stride=2), (1, 7), 18),
]


@pytest.mark.parametrize(("layer", "shape", "count"), PRODUCTS)
def test_products_with_padding_do_not_count(layer, shape, count):
    graph = prepare(read_model(layer, shape).graph, input_variance=False)
    assert arithmetic.products(graph.nodes[0], graph) == count


def test_the_least_for_a_linear_layer_is_six_instructions_a_weight():
    """Two loads, a square and three multiply-adds; 2 loads and S for each input, 2 loads and 2 stores for an output."""
    graph = prepare(read_model(bnn.Linear(100, 10), (100,)).graph, input_variance=True)
    assert arithmetic.minimum(graph.nodes[0], graph) == 6 * 1000 + 3 * 100 + 4 * 10


def test_json_is_one_object_and_nothing_else(small, capsys):
    need("arm-none-eabi-gcc")
    with pytest.raises(SystemExit) as ended:
        main(["bench", str(small), "--backends", "cortex-m4-gcc", "--json"])
    assert ended.value.code == 0
    printed = json.loads(capsys.readouterr().out)
    assert [backend["backend"] for backend in printed["backends"]] == ["cortex-m4-gcc"]
    assert printed["layers"][0]["instructions"] > printed["layers"][0]["minimum"]


def test_a_backend_that_does_not_exist_is_named():
    with pytest.raises(LbnnError, match="unknown backend 'z80'"):
        bench.choose(["z80"])
    with pytest.raises(LbnnError, match="use it in verify"):
        bench.choose(["c-sanitized"])


def test_the_benchmark_models_are_the_ones_described_and_always_the_same(tmp_path):
    from bench_models import MODELS, write

    first, second = ({path.stem: path.read_bytes() for path in write(tmp_path)} for _ in range(2))
    assert first == second
    products = {name: sum(_products(tmp_path / f"{name}.pt")) for name in MODELS}
    assert products == {"m1": 5184, "m2": 81440, "m3": 256, "m4": 59176, "m5": 203264}


def _products(path):
    graph = prepare(read_model(path).graph, input_variance=False)
    return [arithmetic.products(node, graph) for node in graph.nodes if "weight" in node.params]
