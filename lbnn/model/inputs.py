"""What a model's inputs usually are: the range of those it was trained on, and what its first layer standardises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.arrays import AnyArray, Floats
from lbnn.graph import INPUT, Graph
from lbnn.model.file import Model

KEY_OF_RANGE = "input_range"
"""Of a model file's metadata: the lowest and the highest values of each input, or of each channel."""

KEY_OF_UNSURE = "unsure_entropy"
"""Of a model file's metadata: the entropy in nats above which an answer of a network with a head is unsure."""


def unsure_entropy(metadata: Mapping[str, Any]) -> float | None:
    """The limit; None if the file has none that makes sense."""
    limit = metadata.get(KEY_OF_UNSURE)
    return float(limit) if isinstance(limit, (int, float)) and 0.0 <= limit < 1e30 else None


def range_of(x: Floats) -> list[list[float]]:
    """Lowest and highest value of each input [n, inputs], or channel [n, channels, ...], as plain data."""
    axes = (0, *range(2, x.ndim))
    return [x.min(axis=axes).tolist(), x.max(axis=axes).tolist()]


def trained_range(metadata: Mapping[str, Any], count: int) -> tuple[AnyArray, AnyArray] | None:
    """Lowest and highest values of so many inputs or channels; None if the file has none that make sense."""
    try:
        low, high = (np.array(part, dtype=np.float64) for part in metadata.get(KEY_OF_RANGE) or ())
    except (TypeError, ValueError):
        return None
    fits = low.shape == high.shape == (count,) and np.isfinite([low, high]).all() and (low <= high).all()
    return (low, high) if fits and np.abs([low, high]).max() < np.finfo(np.float32).max else None


def input_scale(graph: Graph) -> tuple[AnyArray, AnyArray]:
    """Centre and spread of ordinary inputs: what the first layer standardises, or 0 and 1."""
    first = graph.users[INPUT][0] if graph.users[INPUT] else None
    if first is None or ops.find(first.op).general != "affine":
        return np.zeros(()), np.ones(())
    scale, shift = (np.asarray(first.params[key]) for key in ("scale", "shift"))
    usable = np.where(scale == 0.0, 1.0, scale)
    return -shift / usable, np.abs(1.0 / usable)


def usual_inputs(model: Model, steps: AnyArray) -> AnyArray:
    """Inputs so many spreads away from the centre; within the range of the training data where the file has it."""
    shape = model.graph.input.shape
    centre, spread = (np.broadcast_to(part, shape) for part in input_scale(model.graph))
    inputs: AnyArray = centre + spread * steps
    given = trained_range(model.metadata, shape[0])
    if given is None:
        return inputs
    low, high = (part.reshape(-1, *(1,) * (len(shape) - 1)) for part in given)
    return np.asarray(np.clip(inputs, low, high))
