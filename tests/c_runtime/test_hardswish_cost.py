"""What hard-swish costs on a Cortex-M4F."""

import numpy as np
import pytest

from c_models import generated
from lbnn.device.devices import run_model
from lbnn.graph import GraphBuilder
from lbnn.model.file import Model
from places import need

N = 64


@pytest.fixture(scope="module")
def instructions(tmp_path_factory):
    """For one element of a graph that is hard-swish, of means between two numbers with one sigma."""
    need("arm-none-eabi-gcc")
    builder = GraphBuilder("net", (N,), random=True)
    model = Model(builder.finish(builder.add("activation", "hardswish", ["input"], {})), "0" * 64, "net", {})
    net = generated(model, tmp_path_factory.mktemp("hardswish") / "c", input_variance=True)

    def count(low, high, sigma):
        given = [part.astype(np.float32)[None] for part in (np.linspace(low, high, N), np.full(N, sigma**2))]
        flags = ("-O2", "-std=gnu99", "-fno-math-errno")
        found = run_model("cortex-m4-gcc", net, *given, flags=flags, profile=True).functions
        return sum(number for name, number in found.items() if name.startswith("lbnn_hardswish")) / N

    return count


@pytest.mark.parametrize(
    ("case", "most"),
    [
        ((-2.0, 2.0, 0.02), 68),
        ((1.5, 2.5, 0.25), 184),
        ((-2.9, 2.9, 1.0), 232),
        ((-6.0, -3.1, 1.0), 198),
        ((3.1, 6.0, 1.0), 198),
        ((-9.0, 9.0, 30.0), 164),
    ],
    ids=["no tail", "one tail", "two tails", "two tails on the left", "two tails on the right", "a large sigma"],
)
def test_an_element_costs_at_most_so_many_instructions(instructions, case, most):
    assert 0.8 * most <= instructions(*case) <= most
