"""`lbnn calibrate` of a network that gives classes: its temperature, when it is unsure, and sets that hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from scipy import stats
from torch import Tensor, nn

from lbnn import nn as bnn
from lbnn.base.classes import Classes
from lbnn.model.file import save
from lbnn.model.network import Network, Step
from lbnn.train.class_calibration import CLASS_KEY, ClassCalibration, calibrate_classes, cooled
from lbnn.train.recipe import predict_in_parts
from lbnn.train.table import Table

STEP = "temperature"
"""The name of the layer that divides the logits."""


def calibrate_network(
    network: Network, table: Table, out: Path, level: float, false_alarms: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """Writes the network with its temperature inside, and the constants that hold with it."""
    if _divider(network) is not None:
        divide_logits(network, 1.0)  # what an earlier calibration found is forgotten
    predicted, seen = predict_in_parts(network, torch.from_numpy(table.x)), torch.from_numpy(table.labels)
    assert network.head is not None
    found = calibrate_classes(predicted, seen, network.head.head, level, false_alarms)
    told = [*table.notes, *_lines(found, mean_set_size(predicted, found, network.head))]
    divide_logits(network, found.temperature)
    kept = {key: value for key, value in network.metadata.items() if key != CLASS_KEY}
    written = save(network, out, metadata={**kept, **found.as_metadata()})
    say("\n".join([*told, str(written)]))
    return {**found.as_dict(), "likely_coverage": list(likely_coverage(found.rows, level)), "file": str(written)}


def divide_logits(network: Network, temperature: float) -> None:
    """By a layer behind the others, which every export merges into the weights; one that is there already is used."""
    layer = _divider(network)
    if layer is None:
        names = {step.name for step in network.steps}
        name = next(f"{STEP}{number or ''}" for number in range(len(names) + 1) if f"{STEP}{number or ''}" not in names)
        layer = bnn.Affine(1.0)
        network.layers.append(layer)
        network.steps += (Step(name, len(network.layers) - 1, (network.output,)),)
        network.output = name
    layer.scale.fill_(1.0 / temperature)


def _divider(network: Network) -> bnn.Affine | None:
    """The layer that an earlier calibration has put there."""
    last = {step.name: step for step in network.steps}.get(network.output)
    layer = None if last is None else network.layers[last.layer]
    return layer if CLASS_KEY in network.metadata and isinstance(layer, bnn.Affine) else None


@torch.no_grad()
def mean_set_size(predicted: Classes[Tensor], found: ClassCalibration, head: nn.Module) -> float:
    """Classes in a set on the average."""
    sets = found.sets(head(cooled(predicted.logits, found.temperature)).probability)
    return float(sets.sum(-1).double().mean())


def likely_coverage(rows: int, level: float) -> tuple[float, float]:
    """Between which shares the true coverage lies for 19 of 20 sets of so many rows: it is Beta(k, n + 1 - k)."""
    rank = round((rows + 1) * level + 0.5 - 1e-9)
    low, high = stats.beta.ppf((0.025, 0.975), rank, rows + 1 - rank)
    return float(low), float(high)


def _lines(found: ClassCalibration, size: float) -> list[str]:
    low, high = likely_coverage(found.rows, found.level)
    first, second = found.nll
    return [
        f"temperature {found.temperature:.3f} by one half of the rows; for the {found.rows} others it takes the NLL "
        f"from {first:.4g} to {second:.4g}",
        f"unsure above an entropy of {found.unsure_entropy:.4g} nats",
        f"{found.level:.4g} sets: classes with a probability of at least {found.threshold:.4g}, {size:.3g} on average",
        f"with so many rows the set holds {low:.3f} to {high:.3f} of new rows like these, for 19 of 20 such sets",
    ]
