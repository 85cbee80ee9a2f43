"""What the templates say, and that they hold layout only."""

import re

import lbnn
from lbnn import nn as bnn
from lbnn.base.resources import folder as resource_folder
from lbnn.exporters.c import generate
from lbnn.model.file import read_model


def test_templates_hold_layout_only():
    texts = [path.read_text() for path in (resource_folder("codegen_templates") / "c").rglob("*.j2")]
    expressions = [match for text in texts for match in re.findall(r"\{\{(.*?)\}\}", text)]
    tags = [match for text in texts for match in re.findall(r"\{%(.*?)%\}", text)]
    assert all(re.fullmatch(r" [a-z0-9_.]+ ", expression) for expression in expressions)
    allowed = r" (if [a-z_.]+|else|endif|endfor|for \w+ in [a-z_.]+|include \"[a-z_.0-9]+\") "
    assert all(re.fullmatch(allowed, tag) for tag in tags)


def test_the_header_names_the_columns_that_the_file_names(tmp_path):
    model = bnn.Sequential(bnn.Linear(2, 1))
    columns = {"inputs": ["adc counts", "*/ int evil; /*"], "targets": ["temperature"]}
    path = lbnn.save(model, tmp_path / "thermo.pt", input_shape=(2,), metadata=columns)
    header = generate(read_model(path))["thermo.h"]
    assert " *     input[0]  adc counts\n *     input[1]  _/ int evil; /_\n *     mean[0]  temperature\n" in header
