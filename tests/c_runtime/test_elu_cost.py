"""What ELU costs on a Cortex-M4F, beside a leaky-ReLU of the same values."""

import pytest
from test_piecewise_cost import instructions  # noqa: F401 (a fixture)

ELU = {"alpha": 1.0, "beta": 1.0, "scale": 1.0}


@pytest.mark.parametrize(("sigma", "most"), [(0.05, 2.7), (0.3, 3.0), (0.5, 2.9), (1.0, 2.4), (30.0, 2.1)])
def test_an_element_costs_at_most_so_many_leaky_relus(instructions, sigma, most):  # noqa: F811
    one = instructions("leaky_relu", {"negative_slope": 0.01}, sigma)
    assert 1.0 < instructions("elu", ELU, sigma) / one <= most
