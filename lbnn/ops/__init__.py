"""The operators: one file each, the formula once, for every backend."""

from lbnn.ops import (
    absolute,
    affine,
    avg_pool,
    avg_pool_correlated,
    conv,
    dropout,
    leaky_relu,
    linear,
    max_pool,
    piecewise,
    product,
    smooth,
    structure,
    upsample,
    variance_head,
)
from lbnn.ops.conv import ConvGeometry
from lbnn.ops.namespace import AxisFactors, Namespace, Shape, TailRow, Window
from lbnn.ops.table import OPS, Op, Sample, Use, find

__all__ = [
    "OPS",
    "AxisFactors",
    "ConvGeometry",
    "Namespace",
    "Op",
    "Sample",
    "Shape",
    "TailRow",
    "Use",
    "Window",
    "absolute",
    "affine",
    "avg_pool",
    "avg_pool_correlated",
    "conv",
    "dropout",
    "find",
    "leaky_relu",
    "linear",
    "max_pool",
    "piecewise",
    "product",
    "smooth",
    "structure",
    "upsample",
    "variance_head",
]
