"""Models with the weights that generated C stores: what the reference computes with, and what their rounding loses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lbnn.device.devices import DEVICES
from lbnn.exporters.c import COptions, lower
from lbnn.graph.reference import predict
from lbnn.measure.loss import BitLoss, losses_by_kind
from lbnn.measure.parity import Expected
from lbnn.measure.samples import Samples
from lbnn.model.file import Model


def as_stored(model: Model, weights: str, input_variance: bool = False) -> Model:
    """The model with the weights of an export with --weights; itself where they are those of the file."""
    options = COptions(name="model", input_variance=input_variance, weights=weights)
    return replace(model, graph=lower(model, options).graph) if options.half else model


def storing_backends(names: Sequence[str], weights: str) -> list[str]:
    """Those that can have such weights: generated C."""
    return [name for name in names if weights == "source" or name in DEVICES]


def loss_by_storage(model: Model, stored: Model, samples: Samples, expected: Expected) -> dict[str, BitLoss]:
    """What `stored` loses beside the model, by kind of sample; nothing if that is the model. `expected` is its own."""
    if stored is model:
        return {}
    exact = predict(model.graph, samples.mean, samples.var)
    return losses_by_kind(exact, expected.result, samples.kinds, model.graph)
