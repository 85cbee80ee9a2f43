"""A file's operators become layers again."""

from lbnn import ops
from lbnn.model.network import LAYERS


def test_every_operator_of_the_table_has_a_layer():
    forms = {op.point_form for op in ops.OPS.values()}
    assert {name for name in ops.OPS if name not in forms} == set(LAYERS)
