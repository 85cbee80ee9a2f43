"""Results across versions: kept models, inputs and outputs (float32 bits) that no change may move beyond the contract.

A change within the contract is shown as a warning. LBNN_UPDATE_GOLDEN=1 writes the files anew.
"""

import json
import os
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import lbnn
from lbnn import nn as bnn
from lbnn.base.moments import Moments
from lbnn.measure import backends
from lbnn.measure.parity import FLOAT32_TOLERANCE, Outcome, errors
from lbnn.measure.samples import Samples, draw_samples
from lbnn.model.file import read_model
from places import TESTS

FOLDER = TESTS / "golden" / "parity"
UPDATE = os.environ.get("LBNN_UPDATE_GOLDEN") == "1"
BACKENDS = ("torch", "onnx", "c", "cortex-m4")


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = bnn.Sequential(bnn.Conv1d(2, 2, 3, padding=1, groups=2), bnn.ReLU())
        self.head = bnn.Sequential(bnn.AdaptiveAvgPool1d(1), bnn.Flatten(), bnn.Linear(4, 4), bnn.VarianceHead())

    def forward(self, x):
        return self.head(lbnn.cat([x, x + self.inner(x)]))


def mlp():
    return bnn.Sequential(
        bnn.Standardize([1.0] * 5, [2.0] * 5), bnn.Linear(5, 9), bnn.LeakyReLU(0.01), bnn.Linear(9, 2)
    )


def cnn():
    return bnn.Sequential(
        bnn.Conv2d(1, 4, 3, padding=1), bnn.LeakyReLU(0.1), bnn.AvgPool2d(2), bnn.Flatten(), bnn.Linear(36, 3)
    )


MODELS = {"mlp": (mlp, (5,)), "cnn": (cnn, (1, 6, 6)), "residual": (Residual, (2, 8))}


def bits(array):
    return np.ascontiguousarray(array, np.float32).view(np.uint32).ravel().tolist()


def floats(numbers, shape):
    return np.array(numbers, np.uint32).view(np.float32).reshape(shape)


def write(name):
    make, shape = MODELS[name]
    torch.manual_seed(11)
    model = read_model(lbnn.save(make(), FOLDER / f"{name}.pt", input_shape=shape))
    samples = draw_samples(model, 14, seed=11)
    outcomes = {backend: backends.BACKENDS[backend].run(model, samples) for backend in BACKENDS}
    outputs = {backend: {"mean": bits(out.mean), "var": bits(out.var)} for backend, out in outcomes.items()}
    record = {"inputs": bits(samples.mean), "outputs": outputs}
    (FOLDER / f"{name}.json").write_text(json.dumps(record) + "\n")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_that_were_kept(name, backend):
    if UPDATE and backend == BACKENDS[0]:
        write(name)
    model = read_model(FOLDER / f"{name}.pt")
    kept = json.loads((FOLDER / f"{name}.json").read_text())
    inputs = floats(kept["inputs"], (-1, *model.graph.input.shape))
    parts = (floats(kept["outputs"][backend][part], (len(inputs), -1)) for part in ("mean", "var"))
    want = Moments(*(part.astype(np.float64) for part in parts))
    out = backends.BACKENDS[backend].run(model, Samples(inputs, None, ("kept",) * len(inputs)))
    got = Outcome(out.mean.reshape(want.mean.shape), out.var.reshape(want.var.shape))
    worst = max(float(part.max()) for part in errors(got, want))
    assert worst <= FLOAT32_TOLERANCE
    if worst > 0.0:
        warnings.warn(f"{backend} on {name} moved by {worst:.1e}, within {FLOAT32_TOLERANCE:g}", stacklevel=1)
