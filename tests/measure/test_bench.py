"""`lbnn bench` counts what it says it counts. Nothing here asserts a time."""

import pytest

from costs import products
from lbnn.base.errors import LbnnError
from lbnn.graph.passes import prepare
from lbnn.measure.bench import choose_measured, measure_backends, sampled_cost
from lbnn.model.file import read_model
from places import need
from saved import save_small


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return save_small(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def found(small):
    need("arm-none-eabi-gcc")
    return measure_backends(small, ["torch", "onnx", "c", "cortex-m4-gcc"])


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


def test_variances_cost_instructions_and_sampling_more_of_them(found):
    assert 2 < row(found, "cortex-m4-gcc").factor < 8
    assert sampled_cost(found) == pytest.approx(found.sampling.passes / row(found, "cortex-m4-gcc").factor)


def test_a_backend_that_does_not_exist_is_named():
    with pytest.raises(LbnnError, match="unknown backend 'z80'"):
        choose_measured(["z80"])
    with pytest.raises(LbnnError, match="use it in verify"):
        choose_measured(["c-sanitized"])


def test_the_benchmark_models_are_the_ones_described_and_always_the_same(tmp_path):
    from bench_models import MODELS, write

    first, second = ({path.stem: path.read_bytes() for path in write(tmp_path)} for _ in range(2))
    assert first == second
    counts = {name: sum(_products(tmp_path / f"{name}.pt")) for name in MODELS}
    assert counts == {"m1": 5184, "m2": 81440, "m3": 256, "m4": 59176, "m5": 203264}


def _products(path):
    graph = prepare(read_model(path).graph, input_variance=False)
    return [products(node, graph) for node in graph.nodes if "weight" in node.params]
