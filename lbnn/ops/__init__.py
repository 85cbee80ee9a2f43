"""The operators: one file each, the formula once, for every backend."""

from lbnn.ops import affine, avg_pool, conv, leaky_relu, linear, structure, variance_head
from lbnn.ops.base import OPS, Op, Sample, find
from lbnn.ops.conv import ConvGeometry
from lbnn.ops.namespace import AxisFactors, Namespace, Shape, TailRow, Window

__all__ = ["OPS", "AxisFactors", "ConvGeometry", "Namespace", "Op", "Sample", "Shape", "TailRow", "Window", "find"]
__all__ += ["affine", "avg_pool", "conv", "leaky_relu", "linear", "structure", "variance_head"]
