"""A model as a flat list of kernel calls: the data that source, footprint, cost tables and emulators are made from.

`Program` is frozen and holds no C text but the arguments of calls. `Emission` is what the emitters of
lbnn/exporters/c/calls.py write into while a Program is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbnn import ops
from lbnn.base.arrays import AnyArray
from lbnn.base.errors import LbnnError
from lbnn.base.factored import Factored
from lbnn.device.generated import GeneratedModel
from lbnn.exporters.c import names
from lbnn.exporters.c.dtype import DType
from lbnn.exporters.c.heads import HEAD_HEADER, classify_len, head_kernels
from lbnn.exporters.c.shapes import SmallConvShape
from lbnn.graph import INPUT, Graph, Node
from lbnn.graph.plan import WORK, Place, Plan
from lbnn.ops import Shape
from lbnn.ops.memory import MEAN, VAR

if TYPE_CHECKING:
    from lbnn.exporters.c.streams import PushProgram

# Suffixes of the model's own functions and arrays: no layer may take them.
TAKEN = (
    *("predict", "classify", "decision", "selftest", "weights", "input", "input_variance", "mean", "variance"),
    *("work", "predict_q", "run", "reset", "push", "push_classify", "state", "replay", "replay_classify", "sample"),
)

LONGEST_STEP = 144
"""LBNN_FOLD of c_runtime/lbnn.h: no loop counts further beyond its end."""

Lines = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Weights:
    """A constant array: its identifier, the layer it belongs to, its numbers, and how they stand in lines.

    `lines` is (numbers in all, numbers a line) for each block of lines. `is_value`: kernels take it for data, as
    they take an input, and do not read it as LBNN_READ of lbnn.h does.
    """

    name: str
    layer: str
    values: AnyArray
    lines: Lines
    is_value: bool = False


@dataclass(frozen=True)
class Geometry:
    """A constant struct that describes a convolution or a pooling; `largest` is the largest number made from it."""

    kind: str
    name: str
    members: tuple[int | str, ...]
    largest: int


@dataclass(frozen=True)
class Call:
    """One call of a kernel, its arguments as C; `times` runs it for i = 0, 1, ..."""

    kernel: str
    arguments: tuple[str, ...]
    times: int = 1

    def __str__(self) -> str:
        call = f"{self.kernel}({', '.join(self.arguments)});"
        return call if self.times == 1 else f"for (int i = 0; i < {self.times}; i++) {{ {call} }}"


@dataclass(frozen=True)
class LayerCalls:
    """One layer: its name in C, the node it comes from, operator and shape for the reader, and its calls."""

    layer: str
    node: Node
    shape: str
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Program:
    """Everything that generated C says of a model, as data."""

    name: str
    graph: Graph
    plan: Plan
    dtype: DType
    layers: tuple[LayerCalls, ...]
    weights: tuple[Weights, ...]
    geometries: tuple[Geometry, ...]
    headers: tuple[str, ...]
    result: tuple[str, str]
    closing: tuple[Call, ...] = ()  # behind all layers
    push: PushProgram | None = None  # of a stream: what one sample does
    lacks: tuple[str, ...] = ()  # macros of what kernels can leave out

    @property
    def input_len(self) -> int:
        """Numbers that a prediction takes."""
        return prod(self.graph.input.shape)

    @property
    def output_len(self) -> int:
        """Means, and as many variances, that it gives."""
        return prod(self.graph.values[self.graph.output].shape)

    @property
    def work_len(self) -> int:
        """Elements of work memory, of a stream also for a whole window of samples; C has no arrays of length zero."""
        if self.graph.head is not None and not self.dtype.is_integer:
            length = classify_len(self.graph.head, self.plan.size, self.output_len)
        else:
            length = max(1, self.plan.size)
        return length if self.push is None else max(length, self.push.replay_len)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all constant arrays."""
        return sum(int(array.values.nbytes) for array in self.weights)

    @property
    def weight_len(self) -> int:
        """Numbers in all constant arrays."""
        return sum(int(array.values.size) for array in self.weights)

    @property
    def largest_int(self) -> int:
        """No int of the generated code passes it: offsets end with the arrays, loops a step behind them."""
        lengths = (self.input_len, self.output_len, self.work_len, *(int(array.values.size) for array in self.weights))
        return max(*lengths, *(geometry.largest for geometry in self.geometries)) + LONGEST_STEP

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernel of each call, in order; those of the head last."""
        layers = tuple(
            call.kernel for calls in (*(layer.calls for layer in self.layers), self.closing) for call in calls
        )
        pushed = () if self.push is None else self.push.kernels
        return (*layers, *head_kernels(self.graph.head), *pushed)

    def in_folder(self, folder: Path) -> GeneratedModel:
        """The program as it was written into a folder, for the devices that compile and run it."""
        lengths = (self.input_len, self.output_len, self.work_len)
        return GeneratedModel(folder.resolve(), self.name, *lengths, self.graph.input.random, self.dtype.element)


class Emission:
    """A program in the making: emitters ask it for pointers and note the constants that their calls refer to.

    `small` are the layers to be computed by lbnn_conv2d_small, and their shapes; `facts` what an integer arithmetic
    found out about the graph; `bases` what C calls memory that is no constant of the model.
    """

    geometry_suffix = "_shape"
    bases: Mapping[str, str] = {WORK: WORK, INPUT: INPUT, f"{INPUT}_variance": f"{INPUT}_variance"}

    def __init__(
        self,
        name: str,
        graph: Graph,
        plan: Plan,
        dtype: DType,
        small: Mapping[str, SmallConvShape],
        facts: Any = None,
    ) -> None:
        self.name, self.graph, self.plan, self.dtype, self.small, self.facts = name, graph, plan, dtype, small, facts
        self.layers = names.identifiers((node.name for node in graph.nodes), "layer", TAKEN)
        self.weights: list[Weights] = []
        self.geometries: list[Geometry] = []
        self.headers = [dtype.base_header, *([] if graph.head is None else [HEAD_HEADER])]

    def finish(self) -> Program:
        """Emits every node."""
        layers = tuple(self._layer(node) for node in self.graph.nodes)
        closing = tuple(self.dtype.close(self))
        data = (tuple(self.weights), tuple(self.geometries), tuple(self.headers))
        return Program(self.name, self.graph, self.plan, self.dtype, layers, *data, self.dtype.result(self), closing)

    @property
    def output_arrays(self) -> tuple[str, str]:
        """Pointers to mean and variance of the result."""
        return self.at(self.graph.output, MEAN), self.at(self.graph.output, VAR)

    def _layer(self, node: Node) -> LayerCalls:
        row = self.dtype.small_sums if node.name in self.small else find_row(self.dtype, node)
        self.include(row.header)
        shape = " -> ".join("x".join(map(str, shape)) for shape in self._shapes(node))
        return LayerCalls(self.layers[node.name], node, shape, tuple(row.emit(node, self)))

    def include(self, header: str) -> None:
        """Notes a header with kernels."""
        if header not in self.headers:
            self.headers.append(header)

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

    def gap(self, name: str) -> int:
        """Elements between the planes of what a call computes of a value."""
        return 0

    def parts(self, name: str) -> tuple[str, ...]:
        """The arrays of a value."""
        return (MEAN, VAR) if self.graph.values[name].random else (MEAN,)

    def at(self, name: str, part: str = MEAN, ahead: int = 0) -> str:
        """A pointer to an array, `ahead` elements behind its start."""
        return self._pointer(self.plan.places[name, part], ahead)

    def scratch(self, name: str, ahead: int = 0) -> str:
        """A pointer to the memory that a node has beside its values, `ahead` elements behind its start."""
        return self._pointer(self.plan.scratch[name], ahead)

    def arrays(self, name: str) -> list[str]:
        """Pointers to all arrays of a value."""
        return [self.at(name, part) for part in self.parts(name)]

    def constant(
        self, node: Node, values: Any, suffix: str = "", lines: Lines | None = None, is_value: bool = False
    ) -> str:
        """Notes an array of numbers and gives its identifier."""
        name = self._symbol(node.name) + suffix
        stored = self.dtype.store(values, f"layer {self.layers[node.name]}").reshape(-1)
        self.weights.append(Weights(name, self.layers[node.name], stored, lines or ((stored.size, 8),), is_value))
        return name

    def geometry(self, node: Node, kind: str, shape: Any, suffix: str = "") -> str:
        """Notes a constant struct, given as a dataclass of integers, and gives a pointer to it; equal ones are one, for
        where all calls of a kernel have the same, compilers put its numbers into the code."""
        members = astuple(shape)
        for known in self.geometries:
            if (known.kind, known.members) == (kind, members):
                return f"&{known.name}"
        name = f"{self._symbol(node.name)}{suffix or self.geometry_suffix}"
        self.geometries.append(Geometry(kind, name, members, shape.largest))
        return f"&{name}"

    def copies(self, source: str, target: str) -> list[Call]:
        """Calls that bring a value to where an operator overwrites it, none if it is there."""
        pairs = [(self.at(source, part), self.at(target, part)) for part in self.parts(target)]
        return [call("lbnn_copy", a, b, self.size(target)) for a, b in pairs if a != b]

    def _pointer(self, place: Place, ahead: int = 0) -> str:
        base = self.bases.get(place.base) or self._symbol(place.base)
        return f"{base} + {place.offset + ahead}" if place.offset + ahead else base

    def _symbol(self, name: str) -> str:
        return f"{self.name}_{self.layers[name]}"


Emitter = Callable[[Node, Emission], list[Call]]


@dataclass(frozen=True)
class Row:
    """What C needs of an operator: the header with its kernels, those that it may call, and what makes the calls."""

    header: str
    kernels: tuple[str, ...]
    emit: Emitter


def call(kernel: str, *arguments: Any, times: int = 1) -> Call:
    """A call with its arguments as text."""
    return Call(kernel, tuple(map(str, arguments)), times)


def has_factors(node: Node) -> bool:
    """Whether sums are shared by outputs; groups of one output each have nothing to share and take the full form."""
    weight = node.params.get("weight")
    return isinstance(weight, Factored) and (weight.groups == 1 or len(weight.row) > weight.groups)


def find_row(dtype: DType, node: Node) -> Row:
    """The row of a node's operator."""
    general = ops.find(node.op).general
    if has_factors(node) and f"{general}_rank1" in dtype.rows:
        return dtype.rows[f"{general}_rank1"]
    if general not in dtype.rows:
        known = ", ".join(sorted(dtype.rows))
        other = "--dtype float32" if dtype.is_integer else "--target onnx"
        raise LbnnError(f"op {general!r} has no C kernel in {dtype.name}; export with {other}, or use {known}")
    return dtype.rows[general]
