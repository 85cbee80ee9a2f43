"""Average pooling of elements that rise and fall together: outputs of a convolution share its weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lbnn.base.moments import Moments
from lbnn.ops.avg_pool import factors, window_sums, windows
from lbnn.ops.namespace import Namespace, Shape
from lbnn.ops.table import find, register


def avg_pool_correlated(
    xp: Namespace,
    x: Moments[Any],
    kernel_size: Shape,
    stride: Shape,
    padding: Shape,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Moments[Any]:
    """E' = sum(E) / n;  V' = (sum(sigma) / n)^2, n the divisor at that position: one random number moves all."""
    spatial = tuple(x.mean.shape[-len(kernel_size) :])
    window, counts = windows(spatial, kernel_size, stride, padding, ceil_mode, count_include_pad)
    each = factors(window, counts, power=1)
    mean, sigma = (xp.scale(xp.window_mean(part, window), each) for part in (x.mean, xp.sqrt(x.var)))
    return Moments(mean, sigma * sigma)


register(
    replace(
        find("avg_pool"),
        name="avg_pool_correlated",
        formula=avg_pool_correlated,
        kind="correlated",
        arithmetic=lambda use: 3 * window_sums(use),  # a root for each term of a variance
    )
)
