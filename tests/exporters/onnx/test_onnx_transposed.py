"""ConvTranspose as onnxruntime takes it: output_padding below the stride, no padding below zero, the same result."""

from itertools import product

import pytest

from lbnn.exporters.onnx.transposed import transposed_attributes
from lbnn.ops import TransposedGeometry


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_the_result_is_as_long_and_begins_at_the_same_place(stride):
    for padding, more, dilation, size in product(range(5), range(4), range(1, 5), (1, 4)):
        if more >= max(stride, dilation):
            continue
        given = TransposedGeometry((stride,), (padding,), (more,), (dilation,), 1)
        (added,), attributes = transposed_attributes(given)
        (start, end), (extra,) = attributes["pads"], attributes["output_padding"]
        assert added >= 0 and end >= 0 and 0 <= extra < stride and start == padding
        length = (size + added - 1) * stride - start - end + 2 * dilation + extra + 1
        assert (length,) == given.sizes((size,), (3,))
