"""What the templates say of a model."""

import lbnn
from lbnn import nn as bnn
from lbnn.exporters.c import generate
from lbnn.model.file import read_model


def test_the_header_names_the_columns_that_the_file_names(tmp_path):
    model = bnn.Sequential(bnn.Linear(2, 1))
    columns = {"inputs": ["adc counts", "*/ int evil; /*"], "targets": ["temperature"]}
    path = lbnn.save(model, tmp_path / "thermo.pt", input_shape=(2,), metadata=columns)
    header = generate(read_model(path))["thermo.h"]
    assert " *     input[0]  adc counts\n *     input[1]  _/ int evil; /_\n *     mean[0]  temperature\n" in header
