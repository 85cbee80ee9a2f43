"""Linear layers and convolutions whose weights' variances are products: one sum of inputs serves all outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.ops.namespace import Namespace


def second_moment(x: Any) -> Any:
    """S = V + E^2, of a known value E^2."""
    return x.mean * x.mean + x.var if isinstance(x, Moments) else x * x


def linear_factored(xp: Namespace, x: Any, weight: Factored[Any], bias: Moments[Any]) -> Moments[Any]:
    """V' = V[b] + row (S * column) + V * E[w]^2: the sum in brackets is one number a vector."""
    mean = x.mean if isinstance(x, Moments) else x
    shared = xp.linear(0.0, (second_moment(x), weight.column))
    terms = [(shared, weight.row[:, None])]
    if isinstance(x, Moments):
        terms.append((x.var, weight.mean * weight.mean))
    return Moments(xp.linear(bias.mean, (mean, weight.mean)), xp.linear(bias.var, *terms))


def conv_factored(xp: Namespace, x: Any, weight: Factored[Any], bias: Moments[Any], geometry: Any) -> Moments[Any]:
    """The same, with * the convolution; with groups the sums are as many as in the form with free variances."""
    random = isinstance(x, Moments)
    mean = x.mean if random else x
    squares = [(x.var, weight.mean * weight.mean)] if random else []
    out = xp.conv(geometry, bias.mean, (mean, weight.mean))
    if weight.groups > 1:
        return Moments(out, xp.conv(geometry, bias.var, (second_moment(x), weight.var), *squares))
    rank = len(geometry.stride)
    shared = xp.conv(geometry, 0.0, (second_moment(x), weight.column))
    if random:
        rows = weight.row.reshape((-1,) + (1,) * rank)
        return Moments(out, xp.conv(geometry, bias.var, *squares) + shared * rows)
    each = replace(geometry, stride=(1,) * rank, padding=(0,) * rank, dilation=(1,) * rank)  # place by place
    return Moments(out, xp.conv(each, bias.var, (shared, weight.row.reshape((-1, 1) + (1,) * rank))))
