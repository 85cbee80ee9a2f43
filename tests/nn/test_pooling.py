"""Average pooling of moments."""

import pytest
import torch

from lbnn import LbnnError, Moments
from lbnn import nn as bnn


def test_global_average_pooling_divides_the_variance_by_the_number_of_elements():
    x = Moments(torch.full((1, 2, 3, 4), 5.0), torch.full((1, 2, 3, 4), 6.0))
    out = bnn.AdaptiveAvgPool2d(1)(x)
    torch.testing.assert_close(tuple(out), (torch.full((1, 2, 1, 1), 5.0), torch.full((1, 2, 1, 1), 0.5)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.AdaptiveAvgPool2d(2), "output_size must be 1"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(call, message):
    with pytest.raises(LbnnError, match=message):
        call()
