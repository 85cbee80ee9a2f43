"""The geometry of ConvTranspose as onnxruntime takes it."""

from __future__ import annotations

from typing import Any

from lbnn.ops import Shape, TransposedGeometry


def transposed_attributes(geometry: TransposedGeometry) -> tuple[Shape, dict[str, Any]]:
    """Zeros to add behind the input, along each axis, and the attributes of padding.

    onnxruntime refuses an output_padding as large as the stride, which a dilation allows. There the result is cut by so
    much less at its end or, where there is not so much to cut, the input is made longer.
    """
    added, ends, more = zip(*map(_axis, geometry.stride, geometry.padding, geometry.output_padding), strict=True)
    return added, {"pads": [*geometry.padding, *ends], "output_padding": list(more)}


def _axis(stride: int, padding: int, output_padding: int) -> tuple[int, int, int]:
    if output_padding < stride:
        return 0, padding, output_padding
    longer = max(0, -(-(output_padding - padding) // stride))
    return longer, padding - output_padding + longer * stride, 0
