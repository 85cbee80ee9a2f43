"""What the templates say of a model."""

import re
from dataclasses import replace

import pytest

import lbnn
from c_models import read
from lbnn import nn as bnn
from lbnn.exporters.c import COptions, generate, lower
from lbnn.exporters.c.program import LONGEST_STEP, Geometry
from lbnn.exporters.c.view import call_lines, layer_lines, view
from lbnn.model.file import read_model


def test_the_header_names_the_columns_that_the_file_names(tmp_path):
    model = bnn.Sequential(bnn.Linear(2, 1))
    columns = {"inputs": ["adc counts", "*/ int evil; /*"], "targets": ["temperature"]}
    path = lbnn.save(model, tmp_path / "thermo.pt", input_shape=(2,), metadata=columns)
    header = generate(read_model(path))["thermo.h"]
    assert " *     input[0]  adc counts\n *     input[1]  _/ int evil; /_\n *     mean[0]  temperature\n" in header


def test_every_layer_has_a_line_with_its_shapes_also_one_that_calls_nothing():
    program = lower(
        read_model(bnn.Sequential(bnn.Conv1d(2, 3, 1), bnn.ReLU(), bnn.Flatten(), bnn.Linear(12, 1)), (2, 4)),
        COptions(),
    )
    heads = [re.fullmatch(r"/\* (\w+) +(\w+) +([\dx> -]+?) *\*/ ?(\w*).*", line) for line in call_lines(program)]
    assert [head.groups()[1:] for head in heads] == [
        ("conv_point", "2x4 -> 3x4", "lbnn_conv2d_1x1_point"),
        ("leaky_relu", "3x4", "lbnn_leaky_relu"),
        ("flatten", "3x4 -> 12", ""),
        ("linear", "12 -> 1", "lbnn_linear"),
    ]


def test_the_lines_of_a_source_belong_to_the_layers_whose_calls_stand_there():
    model = read("zoo")
    program = lower(model, COptions())
    source = generate(model)["model.c"]
    owners = layer_lines(program, source)
    calls = [call.kernel for layer in program.layers for call in layer.calls]
    found = {number: re.findall(r"\b(lbnn_\w+)\(", source.splitlines()[number - 1]) for number in owners}
    assert [kernel for kernels in found.values() for kernel in kernels] == calls
    by_layer = {layer.layer: [call.kernel for call in layer.calls] for layer in program.layers}
    assert by_layer == {name: [k for n in owners if owners[n] == name for k in found[n]] for name in by_layer}


@pytest.mark.parametrize(("largest", "asks"), [(32767, False), (32768, True)])
def test_a_header_asks_for_a_wide_int_where_a_number_passes_what_c_promises(largest, asks):
    model, options = read_model(bnn.Sequential(bnn.Linear(2, 1)), (2,)), COptions()
    geometry = Geometry("lbnn_pool_shape", "pool", (), largest - LONGEST_STEP)
    program = replace(lower(model, options), geometries=(geometry,))
    seen = view(program, model, options)
    assert [limit.condition for limit in seen.limits] == [f"INT_MAX < {largest}"] * asks


@pytest.mark.parametrize(
    ("layer", "shape", "widths"),
    [
        (bnn.Linear(3, 10), (3,), [16] * 4 + [4] * 4),  # the bias and 3 inputs: 8 outputs, then 2
        (bnn.Conv1d(4, 6, 3, groups=2), (4, 9), [6] * 14),  # two groups of 3 outputs: the bias and 2 x 3 inputs
    ],
)
def test_packed_weights_stand_in_lines_of_a_blocks_means_and_variances(layer, shape, widths):
    model = read_model(bnn.Sequential(layer), shape)
    (constant,) = view(lower(model, COptions()), model, COptions()).constants
    lines = [line.count("f") for line in constant.text.splitlines()]
    assert lines[: len(widths)] == widths and sum(lines) == constant.length
