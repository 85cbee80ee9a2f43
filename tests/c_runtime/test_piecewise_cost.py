"""What piecewise-linear functions cost on a Cortex-M4F, beside a leaky-ReLU of the same values."""

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
    [(PRELU, 0.3, 1.5), (RELU6, 0.3, 2.2), (HARDTANH, 0.3, 3.0), (HARDTANH, 30.0, 6.0)],
    ids=["one kink", "two, one of them far", "two near", "sigma beyond the pieces"],
)
def test_an_element_costs_at_most_so_many_leaky_relus(instructions, function, sigma, most):
    one = instructions("leaky_relu", {"negative_slope": 0.01}, sigma)
    assert 1.0 < instructions("piecewise", function, sigma) / one <= most
