"""`verify` on real models and devices: everything agrees, and a fault put into one kernel is found at its node."""

import json
import shutil
from functools import partial

import pytest
import torch

from lbnn import nn as bnn
from lbnn.measure.backends import choose_backends, default_backends
from lbnn.measure.device_backend import run_device
from lbnn.measure.parity import FLOAT32_TOLERANCE, judge
from lbnn.measure.samples import draw_samples
from lbnn.measure.verify import plain_verdicts, verify_backends
from lbnn.model.file import read_model
from places import ROOT, need
from thorough import chosen

RUNTIME = ROOT / "c_runtime"


def mlp():
    torch.manual_seed(1)
    layers = [bnn.Linear(4, 12), bnn.LeakyReLU(0.1), bnn.Linear(12, 8), bnn.LeakyReLU(0.1), bnn.Linear(8, 2)]
    return read_model(bnn.Sequential(*layers), (4,))


def cnn():
    torch.manual_seed(2)
    return read_model(
        bnn.Sequential(
            bnn.Conv2d(1, 4, 3, padding=1),
            bnn.LeakyReLU(0.1),
            bnn.AvgPool2d(2),
            bnn.Conv2d(4, 6, 3, padding=1),
            bnn.LeakyReLU(0.1),
            bnn.AvgPool2d(2),
            bnn.Flatten(),
            bnn.Linear(24, 3),
        ),
        (1, 8, 8),
    )


@pytest.mark.parametrize("make", chosen([mlp, cnn], mlp))
def test_every_backend_agrees_with_float64(make):
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm", "cc"):
        need(tool)
    model = make()
    names, lacking = choose_backends(None, "verify")
    assert not lacking
    rows = verify_backends(model, draw_samples(model, 21, seed=0), names, FLOAT32_TOLERANCE)
    assert [row.backend for row in rows] == list(default_backends("verify"))
    assert all(row.passed for row in rows), rows
    emulated = [row for row in rows if row.backend.startswith(("cortex", "mps"))]
    assert all(row.cost.instructions and row.cost.code_bytes and row.cost.stack_bytes for row in emulated)


def test_input_variance_is_verified_too():
    model = cnn()
    samples = draw_samples(model, 14, seed=3, input_variance=True)
    rows = verify_backends(model, samples, ["torch", "onnx", "c", "cortex-m4"], FLOAT32_TOLERANCE)
    assert all(row.passed for row in rows), rows


FAULTS = {
    "1 (leaky_relu)": ("lbnn_activation.h", "out.var = in.var * ratio;", "out.var = 1.01f * in.var * ratio;"),
    "2 (avg_pool)": ("lbnn_pool.h", "scale * (upper[0]", "0.99f * scale * (upper[0]"),
}


@pytest.mark.parametrize("node", FAULTS)
def test_a_fault_in_one_kernel_is_caught_and_its_node_named(node, tmp_path):
    """The fault is in every call of that kernel; the report names the first."""
    header, old, new = FAULTS[node]
    runtime = tmp_path / "runtime"
    shutil.copytree(RUNTIME, runtime, ignore=shutil.ignore_patterns("targets"))
    text = (runtime / header).read_text()
    assert text.count(old) == 1, f"{header} has no {old!r} to break"
    (runtime / header).write_text(text.replace(old, new))
    model = cnn()
    backend = partial(run_device, "c", runtime=runtime)
    row = judge("c", backend, model, draw_samples(model, 14, seed=0), FLOAT32_TOLERANCE)
    assert not row.passed
    assert row.departs_at == node


def test_plain_data_is_json(tmp_path):
    model = mlp()
    rows = verify_backends(model, draw_samples(model, 7, seed=0), ["torch"], 1e-5)
    plain = json.loads(json.dumps(plain_verdicts(rows, {"onnx": "pip install it"})))
    assert (
        plain["passed"]
        and plain["backends"][0]["backend"] == "torch"
        and plain["missing"] == {"onnx": "pip install it"}
    )
