"""Which kernel computes which operator: the table from graph nodes to C calls and their constants.

An emitter gives the calls of one node as text; constants and geometry it needs are noted in the Listing. The kernels
and their contract are in c_runtime/README.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from math import prod
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.exporters.c import literals, names
from lbnn.exporters.c.pack import (
    PACK,
    PAD,
    ConvShape,
    PoolShape,
    SmallConvShape,
    conv_kernel,
    least_pad,
    pack_weights,
    pool_kernel,
    small_shape,
)
from lbnn.graph import Graph, Node
from lbnn.graph.plan import WORK, Place, Plan
from lbnn.ops import Shape
from lbnn.ops.memory import MEAN, VAR

# Suffixes of the model's own functions and arrays: no layer may take them.
TAKEN = ("predict", "selftest", "weights", "input", "input_variance", "mean", "variance")

Lines = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Constant:
    """An array of weights: its identifier, the layer it belongs to, its numbers, and how they stand in lines.

    `lines` is (numbers in all, numbers a line) for each block of lines.
    """

    name: str
    layer: str
    values: Floats
    lines: Lines


@dataclass(frozen=True)
class Geometry:
    """A constant struct that describes a convolution or a pooling."""

    kind: str
    name: str
    members: str


@dataclass(frozen=True)
class Line:
    """One layer of the listing: its name, operator and shape for the comment, and its calls."""

    layer: str
    op: str
    shape: str
    calls: tuple[str, ...]


class Listing:
    """The flat list of calls for a graph and its plan, with everything the calls refer to.

    `small` are the layers to be computed by lbnn_conv2d_small, and their shapes.
    """

    def __init__(self, name: str, graph: Graph, plan: Plan, small: Mapping[str, SmallConvShape] | None = None) -> None:
        self.name, self.graph, self.plan, self.small = name, graph, plan, small or {}
        self.layers = names.identifiers((node.name for node in graph.nodes), "layer", TAKEN)
        self.constants: list[Constant] = []
        self.geometries: list[Geometry] = []
        self.headers = ["lbnn_pointwise.h"]
        self.lines = [self._line(node) for node in graph.nodes]

    def _line(self, node: Node) -> Line:
        header, emit = SMALL if node.name in self.small else _emitter(node)
        if header not in self.headers:
            self.headers.append(header)
        shape = " -> ".join("x".join(map(str, shape)) for shape in self._shapes(node))
        return Line(self.layers[node.name], node.op, shape, tuple(emit(node, self)))

    def _shapes(self, node: Node) -> list[Shape]:
        own = self.graph.values[node.name].shape
        sources = [self.graph.values[name].shape for name in node.inputs[:1]]
        return [own] if sources == [own] else [*sources, own]

    def shape(self, name: str) -> Shape:
        """The shape of a value."""
        return self.graph.values[name].shape

    def size(self, name: str) -> int:
        """The number of elements of a value."""
        return prod(self.shape(name))

    def parts(self, name: str) -> tuple[str, ...]:
        """The arrays of a value."""
        return (MEAN, VAR) if self.graph.values[name].random else (MEAN,)

    def at(self, name: str, part: str = MEAN, ahead: int = 0) -> str:
        """A pointer to an array, `ahead` floats behind its start."""
        return self._pointer(self.plan.places[name, part], ahead)

    def scratch(self, name: str) -> str:
        """A pointer to the memory that a node has beside its values."""
        return self._pointer(self.plan.scratch[name])

    def arrays(self, name: str) -> list[str]:
        """Pointers to all arrays of a value."""
        return [self.at(name, part) for part in self.parts(name)]

    def constant(self, node: Node, values: Any, suffix: str = "", lines: Lines | None = None) -> str:
        """Notes an array of numbers and gives its identifier."""
        name = self._symbol(node.name) + suffix
        rounded = literals.float32(values, f"layer {self.layers[node.name]}").reshape(-1)
        self.constants.append(Constant(name, self.layers[node.name], rounded, lines or ((rounded.size, 8),)))
        return name

    def geometry(self, node: Node, kind: str, shape: ConvShape | PoolShape) -> str:
        """Notes a constant struct and gives a pointer to it."""
        name = f"{self._symbol(node.name)}_shape"
        self.geometries.append(Geometry(kind, name, ", ".join(map(str, astuple(shape)))))
        return f"&{name}"

    def copies(self, source: str, target: str) -> list[str]:
        """Calls that bring a value to where an operator overwrites it, none if it is there."""
        pairs = [(self.at(source, part), self.at(target, part)) for part in self.parts(target)]
        return [call("lbnn_copy", a, b, self.size(target)) for a, b in pairs if a != b]

    def _pointer(self, place: Place, ahead: int = 0) -> str:
        base = place.base if place.base in (WORK, "input", "input_variance") else self._symbol(place.base)
        return f"{base} + {place.offset + ahead}" if place.offset + ahead else base

    def _symbol(self, name: str) -> str:
        return f"{self.name}_{self.layers[name]}"


Emitter = Callable[[Node, Listing], list[str]]


def call(function: str, *arguments: Any) -> str:
    """A call as C text."""
    return f"{function}({', '.join(map(str, arguments))});"


def _point(node: Node) -> str:
    return "_point" if node.op.endswith("_point") else ""


def _linear(node: Node, listing: Listing) -> list[str]:
    weight, bias = _gaussian(node, "weight"), _bias(node)
    out_len, in_len = weight.mean.shape
    w = listing.constant(node, _packed(node, weight, bias), lines=_packed_lines(weight))
    (source,) = node.inputs
    rows = listing.size(source) // in_len
    inputs, outputs = (
        [_stepping(pointer, length, rows) for pointer in listing.arrays(name)]
        for name, length in ((source, in_len), (node.name, out_len))
    )
    kernel = call(f"lbnn_linear{_point(node)}", *inputs, w, *outputs, in_len, out_len)
    return [kernel if rows == 1 else f"for (int i = 0; i < {rows}; i++) {{ {kernel} }}"]


def _stepping(pointer: str, step: int, rows: int) -> str:
    return pointer if rows == 1 else f"{pointer} + {step} * i"


def _conv(node: Node, listing: Listing) -> list[str]:
    weight, bias, groups = _gaussian(node, "weight"), _bias(node), node.attrs["groups"]
    w = listing.constant(node, _packed(node, weight, bias, groups), lines=_packed_lines(weight, groups))
    (source,) = node.inputs
    shape = _conv_shape(node, listing.graph)
    geometry = listing.geometry(node, "lbnn_conv_shape", shape)
    kernel = conv_kernel(shape) + _point(node)
    return [call(kernel, *listing.arrays(source), w, *listing.arrays(node.name), geometry)]


def _conv_shape(node: Node, graph: Graph) -> ConvShape:
    pairs = zip(
        *(_two(node.attrs[key], pad) for key, pad in (("stride", 1), ("padding", 0), ("dilation", 1))), strict=True
    )
    (stride_h, padding_h, dilation_h), (stride_w, padding_w, dilation_w) = pairs
    return ConvShape(
        *_planes(graph.values[node.inputs[0]].shape),
        *_planes(graph.values[node.name].shape),
        *_two(_gaussian(node, "weight").mean.shape[2:], 1),
        stride_h,
        stride_w,
        padding_h,
        padding_w,
        dilation_h,
        dilation_w,
        node.attrs["groups"],
    )


def small_layers(graph: Graph) -> dict[str, SmallConvShape]:
    """The layers that one small kernel computes, if there is a convolution at all: a linear one is no reason for it."""
    shapes = {node.name: small_shape(shape) for node in graph.nodes if (shape := _sums_shape(node, graph))}
    convolved = any(node.op.startswith("conv") for node in graph.nodes)
    return {name: shape for name, shape in shapes.items() if shape} if convolved else {}


def _sums_shape(node: Node, graph: Graph) -> ConvShape | None:
    """A linear layer of one vector is a convolution of one row with a kernel as wide as the row."""
    if node.op in ("conv", "conv_point"):
        return _conv_shape(node, graph)
    if node.op == "linear" and len(graph.values[node.name].shape) == 1:
        out_len, in_len = _gaussian(node, "weight").mean.shape
        return ConvShape(1, 1, in_len, out_len, 1, 1, 1, in_len, 1, 1, 0, 0, 1, 1, 1)
    return None


def small_scratch(graph: Graph, small: Mapping[str, SmallConvShape]) -> dict[str, int]:
    """Floats that these layers need beside their values: the variances, zeros, of an input that has none."""
    inputs = {node.name: graph.values[node.inputs[0]] for node in graph.nodes if node.name in small}
    return {name: prod(value.shape) for name, value in inputs.items() if not value.random}


def _small(node: Node, listing: Listing) -> list[str]:
    weight, bias, shape = _gaussian(node, "weight"), _bias(node), listing.small[node.name]
    packed = _packed(node, weight, bias, shape.groups, least_pad(len(weight.mean), shape.groups))
    w = listing.constant(node, packed, lines=_packed_lines(weight, shape.groups))
    geometry = listing.geometry(node, "lbnn_conv_small_shape", shape)
    (source,) = node.inputs
    inputs, lift = listing.arrays(source), []
    if node.name in listing.plan.scratch:
        inputs.append(listing.scratch(node.name))
        lift = [call("lbnn_lift", inputs[1], listing.size(source))]
    return [*lift, call("lbnn_conv2d_small", *inputs, w, *listing.arrays(node.name), geometry)]


def _avg_pool(node: Node, listing: Listing) -> list[str]:
    (source,) = node.inputs
    shape = PoolShape(
        *_planes(listing.shape(source)),
        *_planes(listing.shape(node.name))[1:],
        *_two(node.attrs["kernel_size"], 1),
        *_two(node.attrs["stride"], 1),
        *_two(node.attrs["padding"], 0),
        int(node.attrs["count_include_pad"]),
    )
    geometry = listing.geometry(node, "lbnn_pool_shape", shape)
    kernel = pool_kernel(shape) + _point(node)
    return [call(kernel, *listing.arrays(source), *listing.arrays(node.name), geometry)]


def _leaky_relu(node: Node, listing: Listing) -> list[str]:
    numbers = [literals.scalar(node.attrs[key]) for key in ("negative_slope", "clamp") if key in node.attrs]
    kernel = call(f"lbnn_{node.op}", *listing.arrays(node.name), listing.size(node.name), *numbers)
    return [*listing.copies(node.inputs[0], node.name), kernel]


def _affine(node: Node, listing: Listing) -> list[str]:
    shape = listing.shape(node.name)
    scale, shift = (_per_channel(node.params[key], shape) for key in ("scale", "shift"))
    channels = max(scale.size, shift.size)
    constants = [
        listing.constant(node, np.broadcast_to(values, channels), suffix)
        for values, suffix in ((scale, "_scale"), (shift, "_shift"))
    ]
    sizes = (channels, prod(shape) // channels)
    kernel = call(f"lbnn_affine{_point(node)}", *listing.arrays(node.name), *constants, *sizes)
    return [*listing.copies(node.inputs[0], node.name), kernel]


def _sum(node: Node, listing: Listing) -> list[str]:
    kernel = {"add": "lbnn_add", "shift": "lbnn_shift", "add_point": "lbnn_add_points"}[node.op]
    inputs = [pointer for name in node.inputs for pointer in listing.arrays(name)]
    return [call(kernel, *inputs, *listing.arrays(node.name), listing.size(node.name))]


def _concat(node: Node, listing: Listing) -> list[str]:
    """A copy for each input that does not lie in the result already."""
    axis, calls, ahead = node.attrs["axis"], [], 0
    count, step = prod(listing.shape(node.name)[:axis]), prod(listing.shape(node.name)[axis:])
    for name in node.inputs:
        length = prod(listing.shape(name)[axis:])
        for part in listing.parts(node.name):
            source, target = listing.at(name, part), listing.at(node.name, part, ahead)
            if source != target:
                calls.append(call("lbnn_concat", source, target, count, length, step))
        ahead += length
    return calls


def _pad(node: Node, listing: Listing) -> list[str]:
    (source,) = node.inputs
    (top, bottom), (left, right) = _two(node.attrs["padding"], (0, 0))
    sizes = (*_planes(listing.shape(source)), top, bottom, left, right)
    return [
        call("lbnn_pad", listing.at(source, part), listing.at(node.name, part), *sizes)
        for part in listing.parts(node.name)
    ]


def _lift(node: Node, listing: Listing) -> list[str]:
    return [call("lbnn_lift", listing.at(node.name, VAR), listing.size(node.name))]


def _variance_head(node: Node, listing: Listing) -> list[str]:
    arrays = (*listing.arrays(node.inputs[0]), *listing.arrays(node.name))
    return [call(f"lbnn_variance_head{_point(node)}", *arrays, listing.size(node.name))]


def _constant(node: Node, listing: Listing) -> list[str]:
    listing.constant(node, node.params["value"])
    return []


def _flatten(node: Node, listing: Listing) -> list[str]:
    return []


_FORMS: dict[str, tuple[str, Emitter]] = {
    "linear": ("lbnn_linear.h", _linear),
    "conv": ("lbnn_conv.h", _conv),
    "avg_pool": ("lbnn_pool.h", _avg_pool),
    "leaky_relu": ("lbnn_activation.h", _leaky_relu),
    "affine": ("lbnn_pointwise.h", _affine),
    "add": ("lbnn_pointwise.h", _sum),
    "concat": ("lbnn_pointwise.h", _concat),
    "pad": ("lbnn_pointwise.h", _pad),
    "flatten": ("lbnn_pointwise.h", _flatten),
    "variance_head": ("lbnn_pointwise.h", _variance_head),
}
SMALL: tuple[str, Emitter] = ("lbnn_conv_small.h", _small)
EMITTERS: dict[str, tuple[str, Emitter]] = {
    **_FORMS,
    **{f"{op}_point": form for op, form in _FORMS.items()},
    "leaky_relu_clamped": _FORMS["leaky_relu"],
    "shift": _FORMS["add"],
    "lift": ("lbnn_pointwise.h", _lift),
    "constant": ("lbnn_pointwise.h", _constant),
}


def _emitter(node: Node) -> tuple[str, Emitter]:
    if node.op not in EMITTERS:
        raise LbnnError(f"op {node.op!r} has no C kernel; export with --target onnx, or use one of {', '.join(_FORMS)}")
    return EMITTERS[node.op]


def _gaussian(node: Node, key: str) -> Moments[Any]:
    param = node.params[key]
    assert isinstance(param, Moments)
    return param


def _bias(node: Node) -> Moments[Any]:
    """One entry for each output: a bias may be a single number for all."""
    bias, outputs = _gaussian(node, "bias"), len(_gaussian(node, "weight").mean)
    return Moments(np.broadcast_to(bias.mean, (outputs,)), np.broadcast_to(bias.var, (outputs,)))


def _packed(node: Node, weight: Moments[Any], bias: Moments[Any], groups: int = 1, pad: int = PAD) -> Floats:
    what = f"layer {names.identifier(node.name, 'layer')}"
    weight_mean, weight_var, bias_mean, bias_var = (literals.float32(part, what) for part in (*weight, *bias))
    return pack_weights(weight_mean, weight_var, bias_mean, bias_var, groups, pad)


def _packed_lines(weight: Moments[Any], groups: int = 1) -> Lines:
    """A line for each packed row: the means of a block of outputs and their variances."""
    outputs, rows = len(weight.mean) // groups, 1 + weight.mean[0].size
    widths = [2 * min(PACK, outputs - start) for start in range(0, outputs, PACK)]
    return tuple((width * rows, width) for width in widths) * groups


def _two(values: Any, missing: Any) -> tuple[Any, Any]:
    """(height, width); one axis alone is the width."""
    height, width = values if len(values) == 2 else (missing, *values)
    return height, width


def _planes(shape: Shape) -> tuple[int, int, int]:
    """(channels, height, width)."""
    return (shape[0], *_two(shape[1:], 1))


def _per_channel(values: Any, shape: Shape) -> Any:
    """One number, one for each channel (first axis), or one for each element: the fewest that describe `values`."""
    full = np.broadcast_to(values, shape).reshape(shape[0], -1)
    if np.all(full == full[0, 0]):
        return full[:1, 0]
    if np.all(full == full[:, :1]):
        return full[:, 0]
    return full.reshape(-1)
