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


def save_classes(folder, about=None, names=("idle", "run", "walk"), head=None):
    """A network of two inputs with a head."""
    model = bnn.Sequential(*network(2, len(names)), head or bnn.SoftmaxHead())
    metadata = {"inputs": ["in0", "in1"], "targets": ["gait"], "classes": list(names), **(about or {})}
    return lbnn.save(model, folder / "gait.pt", input_shape=(2,), metadata=metadata)


def write_classes(path, names=("idle", "run", "walk")):
    """Rows for it."""
    rng = np.random.default_rng(0)
    rows = [f"{a:.4f},{b:.4f},{names[i % len(names)]}" for i, (a, b) in enumerate(rng.normal(3.0, 2.0, (60, 2)))]
    path.write_text("\n".join(["in0,in1,gait", *rows]))
    return path


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
