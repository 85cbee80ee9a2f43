"""What ELU costs on a Cortex-M4F."""

import pytest
from test_piecewise_cost import instructions  # noqa: F401 (a fixture)

ELU = {"alpha": 1.0, "beta": 1.0, "scale": 1.0}


@pytest.mark.parametrize(("sigma", "most"), [(0.05, 102), (0.3, 200), (0.5, 196), (1.0, 160), (30.0, 139)])
def test_an_element_costs_at_most_so_many_instructions(instructions, sigma, most):  # noqa: F811
    assert 0.8 * most <= instructions("elu", ELU, sigma) <= most
