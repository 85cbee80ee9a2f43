"""The footprint is made of what the program has: weights, structs, kernels, calls and multiplications."""

from dataclasses import fields

import pytest

from c_models import read
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.footprint import (
    CALL_CODE,
    CHECKS,
    GEOMETRY_BYTES,
    KERNELS,
    PREDICT_CODE,
    PREDICT_STACK,
    footprint,
)
from lbnn.exporters.c.int_conv import ConvStruct
from lbnn.exporters.c.int_pack import LayerStruct
from lbnn.exporters.c.int_pools import MaxStruct, PoolStruct
from lbnn.exporters.c.shapes import ConvShape, MaxPoolShape, PoolShape


def test_a_struct_takes_its_members():
    """int has 4 bytes on the cores of the footprint; the small form has members of 16 bits."""
    conv, pool = len(fields(ConvShape)), len(fields(PoolShape))
    expected = {"lbnn_conv_shape": 4 * conv, "lbnn_conv_small_shape": 2 * conv, "lbnn_pool_shape": 4 * pool}
    expected["lbnn_max_pool_shape"] = 4 * len(fields(MaxPoolShape))
    integers = {"lbnn_int_layer": LayerStruct, "lbnn_int_conv_shape": ConvStruct, "lbnn_int_pool_shape": PoolStruct}
    integers["lbnn_int_max_shape"] = MaxStruct
    expected |= {name: 4 * len(fields(struct)) for name, struct in integers.items()}
    expected["lbnn_int_layer"] -= 4  # the bits of free sigmas and the exponent of columns share a word
    assert expected == GEOMETRY_BYTES


@pytest.mark.parametrize("optimize", ["speed", "size"])
@pytest.mark.parametrize("name", ["gas_sensor", "series", "zoo"])
def test_every_part_of_a_program_counts_once(name, optimize):
    program = lower(read(name), COptions(optimize=optimize))
    found = footprint(program)
    used = [*CHECKS, *(call.kernel for layer in program.layers for call in layer.calls)]
    structs = sum(GEOMETRY_BYTES[geometry.kind] for geometry in program.geometries)
    assert found.weight_bytes == 4 * sum(array.values.size for array in program.weights) + structs
    assert found.work_bytes == 4 * program.plan.size
    assert found.code_bytes == PREDICT_CODE + sum(KERNELS[kernel][0] for kernel in set(used)) + CALL_CODE * len(used)
    assert found.stack_bytes == PREDICT_STACK + max(KERNELS[kernel][1] for kernel in used)
    assert found.flash_bytes == found.weight_bytes + found.code_bytes


MACS = {
    "gas_sensor": 4 * 9 + 9 * 3 + 3 * 1,
    "series": 4 * 6 * (2 * 3) + 12 * 3,  # 4 channels of 10 - 2 * 2 steps, each of 2 x 3 inputs
    "zoo": 6 * 64 * 18 + 6 * 16 * 9 + 6 * 16 * 6 + 5 * 2 * 2 * 12 * 9 + 20 * 8 + 8 * 6,
}


@pytest.mark.parametrize("name", MACS)
def test_multiplications_are_those_of_the_plain_network(name):
    assert footprint(lower(read(name), COptions())).macs == MACS[name]
