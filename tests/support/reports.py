"""Models with named inputs and outputs, data for them, and their pages taken apart."""

from html.parser import HTMLParser

import numpy as np
import torch

import lbnn
from lbnn import nn as bnn
from lbnn.measure.report import write_report

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}&amp;</style>-->"


def network(inputs, outputs=1):
    torch.manual_seed(0)
    layers = (bnn.Linear(inputs, 6), bnn.LeakyReLU(0.01), bnn.Linear(6, outputs))
    return bnn.Sequential(bnn.Standardize([3.0] * inputs, [2.0] * inputs), *layers)


def save_named(folder, inputs=1, outputs=1, **about):
    metadata = {"inputs": [f"in{i}" for i in range(inputs)], "targets": [f"out{i}" for i in range(outputs)], **about}
    return lbnn.save(network(inputs, outputs), folder / "sensor.pt", input_shape=(inputs,), metadata=metadata)


def write_csv(path, inputs):
    rng = np.random.default_rng(0)
    rows = rng.normal(3.0, 2.0, (60, inputs + 1))
    header = ",".join([*(f"in{i}" for i in range(inputs)), "out0"])
    np.savetxt(path, rows, delimiter=",", header=header, comments="")
    return path


def report(model, out, **options):
    return write_report(model, out, backends=["torch"], samples=7, **options).read_text()


class Elements(HTMLParser):
    """The tags of a page and their attributes, and its visible text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data
