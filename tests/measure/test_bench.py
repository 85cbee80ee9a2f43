"""`lbnn bench` counts what it says it counts. Nothing here asserts a time."""

import math
import re
from dataclasses import replace

import numpy as np
import onnxruntime as ort
import pytest
import torch

import lbnn
from costs import products
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.device.boards import BOARDS
from lbnn.device.devices import DEVICES
from lbnn.device.emulated import QemuDevice
from lbnn.exporters.c import COptions, footprint, lower
from lbnn.exporters.onnx.plain import plain_onnx
from lbnn.graph.passes import prepare
from lbnn.measure.bench import choose_measured, measure_backends, plain_bench, sampled_cost, show_bench
from lbnn.model.file import read_model
from lbnn.nn import BayesianLayer
from lbnn.nn.spread import rho_tensors
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
    assert device.cost.instructions < device.cost.cycles.low < device.cost.cycles.high
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


def test_a_network_takes_more_than_its_arithmetic(found):
    """A small layer may take less: an instruction can load several weights, and units far from a kink are cheap."""
    assert all(layer.minimum > 0 for layer in found.layers)
    assert sum(layer.instructions for layer in found.layers) >= sum(layer.minimum for layer in found.layers)


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


def test_a_large_network_is_timed_in_smaller_batches_and_counted_over_one_input(small, monkeypatch):
    from lbnn.measure import subject

    monkeypatch.setattr(subject, "MANY_PRODUCTS", 1)
    monkeypatch.setattr(subject, "TIMED_VALUES", 1000)
    found = measure_backends(small, ["c"])
    assert 1 <= found.batch < 256
    assert f"batch_{found.batch}" in plain_bench(found, {})["backends"][0]
    model = read_model(small)
    program = lower(model, COptions(name=subject.NAME))
    assert len(subject.counted_inputs(subject.ordinary_inputs(model), program)) == 1


def test_a_board_that_is_too_small_is_left_out_with_the_reason(small, monkeypatch, capsys):
    need("arm-none-eabi-gcc"), need("qemu-system-arm")
    board = BOARDS["microbit"]
    tiny = QemuDevice(replace(board, memory=replace(board.memory, rom_size=1024)))
    monkeypatch.setitem(DEVICES, "microbit", tiny)
    found = measure_backends(small, ["microbit"], asked=False)
    show_bench(found, {}, "title")
    assert not found.rows and re.search(
        r"left out: microbit \(flash too small by [\d,]+ bytes\)", capsys.readouterr().out
    )
    with pytest.raises(LbnnError, match=r"does not fit microbit: flash too small by [\d,]+ bytes; choose another"):
        measure_backends(small, ["microbit"])


def test_weights_in_half_floats_take_four_bytes_less_each(small):
    need("arm-none-eabi-gcc")
    weights = footprint(lower(read_model(small), COptions())).macs
    whole, half = (measure_backends(small, ["cortex-m4-gcc"], weights=form).rows[0].cost for form in ("source", "half"))
    assert whole.weight_bytes - half.weight_bytes == 4 * weights and half.instructions != whole.instructions


def test_cores_without_a_floating_point_unit_are_for_small_networks_and_for_who_asks(small, monkeypatch, capsys):
    need("arm-none-eabi-gcc")
    from lbnn.measure import counting

    names = ["cortex-m0-gcc", "cortex-m4-gcc", "uno"]
    assert not any(counting.too_slow(name, lower(read_model(small), COptions())) for name in names)
    monkeypatch.setattr(counting, "MANY_PRODUCTS", 1)
    found = measure_backends(small, names[:2], asked=False)
    assert [row.backend for row in found.rows] == ["cortex-m4-gcc"]
    show_bench(found, {}, "title")
    assert re.search(
        r"left out: cortex-m0-gcc \(no floating-point unit: \d+ products .*; --backends cortex-m0-gcc counts them\)",
        capsys.readouterr().out,
    )
    assert measure_backends(small, names[:1]).rows[0].cost.instructions
    assert measure_backends(small, names[:1], asked=False, dtype="int8").rows[0].cost.instructions


def test_the_plain_network_for_others_has_the_pads_and_sums_of_ours(tmp_path):
    """Zeros in front of a convolution become its own, wider behind than before."""
    from tiny_models import TINY

    torch.manual_seed(0)
    residual = type(TINY["ic"][2]()[3])
    path = lbnn.save(bnn.Sequential(residual(3, 4, 2), residual(4, 4, 1)).eval(), tmp_path / "net.pt", (3, 8, 8))
    graph = prepare(read_model(path).graph, input_variance=False)
    proto = plain_onnx(graph)
    assert [node.op_type for node in proto.graph.node].count("Add") == 2
    assert "Pad" not in {node.op_type for node in proto.graph.node}
    x = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    known = lbnn.load(path)
    for layer in known.modules():
        if isinstance(layer, BayesianLayer):
            for _, _, rho in layer.named_gaussians():
                rho_tensors(rho)[0].data.fill_(-math.inf)
    with torch.no_grad():
        want = known(torch.from_numpy(x)).mean.numpy()
    np.testing.assert_allclose(session.run(None, {"input": x})[0], want, rtol=1e-4, atol=1e-5)
