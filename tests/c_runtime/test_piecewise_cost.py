"""What piecewise-linear functions cost on a Cortex-M4F."""

import numpy as np
import pytest

from c_models import generated
from lbnn.device.devices import run_model
from lbnn.graph import GraphBuilder
from lbnn.model.file import Model
from lbnn.ops.piecewise import PIECEWISE_EXAMPLES
from places import need

N = 128
RELU6, HARDTANH, _, PRELU, *_ = PIECEWISE_EXAMPLES


@pytest.fixture(scope="module")
def instructions(tmp_path_factory):
    """For one element of a graph that is one activation, of means from -2 to 2 with one sigma."""
    need("arm-none-eabi-gcc")

    def count(op, attrs, sigma):
        builder = GraphBuilder("net", (N,), random=True)
        model = Model(builder.finish(builder.add("activation", op, ["input"], attrs)), "0" * 64, "net", {})
        net = generated(model, tmp_path_factory.mktemp(op) / "c", input_variance=True)
        mean, var = np.linspace(-2.0, 2.0, N), np.full(N, sigma**2)
        given = [part.astype(np.float32)[None] for part in (mean, var)]
        flags = ("-O2", "-std=gnu99", "-fno-math-errno")
        found = run_model("cortex-m4-gcc", net, *given, flags=flags, profile=True).functions
        return sum(number for name, number in found.items() if name.startswith(f"lbnn_{op}")) / N

    return count


@pytest.mark.parametrize(
    ("function", "sigma", "most"),
    [(PRELU, 0.3, 100), (RELU6, 0.3, 150), (HARDTANH, 0.3, 210), (HARDTANH, 30.0, 412)],
    ids=["one kink", "two, one of them far", "two near", "sigma beyond the pieces"],
)
def test_an_element_costs_at_most_so_many_instructions(instructions, function, sigma, most):
    assert 0.8 * most <= instructions("piecewise", function, sigma) <= most
