"""Scratch of kernels: room that a call needs and whose content nobody compares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn.exporters.c.shapes import ConvShape, conv_kernel, conv_scratch, factored_kernel, factored_scratch


@dataclass(frozen=True)
class Room:
    """Floats that hold no number before a call."""

    floats: int

    def array(self) -> np.ndarray:
        """The room as an array."""
        return np.full(self.floats, np.nan, np.float32)


def conv_room(kernel: str, shape: ConvShape) -> list[Room]:
    """What a convolution by a kernel takes behind its shape: the fast forms have scratch."""
    name, point = kernel.removesuffix("_point"), kernel.endswith("_point")
    if name in ("lbnn_conv2d", "lbnn_conv2d_small") or "transposed" in name:
        return []
    assert conv_kernel(shape) == name, (kernel, shape)
    return [Room(conv_scratch(shape, point))]


def shared_room(kernel: str, shape: ConvShape) -> Room:
    """What a convolution with factors takes before its shape."""
    name, point = kernel.removesuffix("_point").removesuffix("_rank1"), kernel.endswith("_point")
    plane = shape.out_height * shape.out_width
    assert name in ("lbnn_conv2d", factored_kernel(shape)), (kernel, shape)
    return Room(plane if name == "lbnn_conv2d" else factored_scratch(shape, point, shape.out_height))
