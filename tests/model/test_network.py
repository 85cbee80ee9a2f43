"""A file's operators become layers again."""

from lbnn import ops
from lbnn.model.network import LAYERS


def test_every_operator_of_the_table_has_a_layer():
    assert {name for name, op in ops.OPS.items() if op.general == name} == set(LAYERS)
