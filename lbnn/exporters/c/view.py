"""What the templates see of a model: names, lengths and finished lines of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lbnn.base import resources
from lbnn.base.version import __version__
from lbnn.exporters.c import literals, names
from lbnn.exporters.c.around import (
    CalibrationView,
    HeadView,
    RangeView,
    SetView,
    calibration_view,
    example_text,
    head_view,
    range_view,
)
from lbnn.exporters.c.binary import binary_len, padding_behind
from lbnn.exporters.c.dtype import DType
from lbnn.exporters.c.limits import Limit, machine_limits
from lbnn.exporters.c.program import Geometry, LayerCalls, Program, Weights
from lbnn.exporters.c.selftest import Golden, golden, golden_integers
from lbnn.exporters.c.stream_view import StreamView, stream_view
from lbnn.exporters.options import COptions
from lbnn.graph import INPUT
from lbnn.graph.ints.known import root_of
from lbnn.model.file import Model

_WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
C_TYPES = {"float32": "float"} | {name: f"{name}_t" for name in _WHOLE}
"""What C calls the numbers of an array."""

MEMBERS = {
    "lbnn_int_layer": "weights of 8 or 16 bits, sigmas, columns, rows; inputs, outputs; bits of free; "
    "exponents of columns, scale, spread, bias, noise",
    "lbnn_int_conv_shape": "tables of a leaky-ReLU; channels, height, width; out height, width; kernel, stride, start, "
    "dilation (height, width each); groups, channels that each takes and gives; pool (height, width), "
    "1/n, whether correlated; bits",
    "lbnn_int_pool_shape": "1/n; channels, height, width; out height, width; "
    "kernel, stride, start (height, width each); count_include_pad, whether correlated; bits",
    "lbnn_int_max_shape": "channels, height, width; out height, width; "
    "kernel, stride, start, dilation (height, width each); bits",
    "lbnn_conv_shape": "in channels, height, width; out channels, height, width; "
    "kernel, stride, padding, dilation (height, width each); groups",
    "lbnn_conv_small_shape": "in channels of a group, height, width; out channels of a group, height, width; "
    "kernel, stride, padding, dilation (height, width each); groups",
    "lbnn_pool_shape": "channels; in height, width; out height, width; "
    "kernel, stride, padding (height, width each); count_include_pad; gap between planes of the output",
    "lbnn_max_pool_shape": "channels; in height, width; out height, width; "
    "kernel, stride, padding, dilation (height, width each)",
}


_OVERLAPS = {
    False: "mean or variance may be the very array of input",
    True: "mean may be the very array of input, variance that of input_variance",
}
"""Outputs are written when no input is needed any more, one behind the other; by whether the input has a variance."""


@dataclass(frozen=True)
class ConstantView:
    """An array of weights as text; `offset` is its place in the binary file, `padding` the bytes behind it there."""

    name: str
    type: str
    length: int
    offset: int
    padding: int
    comment: str
    text: str
    in_flash: bool


@dataclass(frozen=True)
class GeometryView:
    """A constant struct as text."""

    kind: str
    name: str
    members: str
    numbers: str


@dataclass(frozen=True)
class GoldenView:
    """The vectors of the self-test as text."""

    count: int
    description: str
    tolerance: str
    input: str
    input_variance: str
    mean: str
    variance: str


@dataclass(frozen=True)
class ModelView:
    """Everything the templates may say."""

    name: str
    upper: str
    title: str
    version: str
    sha256: str
    command: str
    abi: int
    element: str
    integer: bool
    scales: int
    result_scale: str
    units: str
    input_variance: bool
    variance_argument: str
    may_overlap: str
    binary: bool
    half: bool
    lacks: tuple[str, ...]
    optimize_size: bool
    selftest_file: str
    input_shape: str
    output_shape: str
    named_elements: tuple[str, ...]
    input_len: int
    output_len: int
    work_len: int
    weight_len: int
    weight_bytes: int
    binary_bytes: int
    limits: tuple[Limit, ...]
    headers: tuple[str, ...]
    runtime: tuple[str, ...]
    sources: tuple[str, ...]
    inlined_base: str
    inlined_kernels: str
    constants: tuple[ConstantView, ...]
    geometries: tuple[GeometryView, ...]
    lines: tuple[str, ...]
    result_mean: str
    result_var: str
    golden: GoldenView
    example: str
    range: RangeView | None
    calibration: CalibrationView | None
    head: HeadView | None
    stream: StreamView | None

    @property
    def mixed(self) -> bool:
        """Whether constant arrays are of several types."""
        return self.half or self.integer

    @property
    def class_names(self) -> tuple[str, ...]:
        """As C strings, where the model file has them."""
        return self.head.names if self.head else ()

    @property
    def class_count(self) -> int:
        """Of those that have a name."""
        return len(self.class_names)

    @property
    def class_set(self) -> SetView | None:
        """The calibrated set of classes."""
        return self.head.set if self.head else None


def view(program: Program, model: Model, options: COptions) -> ModelView:
    """The view of a program."""
    name, single, vectors = program.name, options.single_file, _vectors(program, model)
    runtime = resources.with_dependencies(list(program.headers))
    return ModelView(
        name=name,
        upper=name.upper(),
        title=name.replace("_", " "),
        version=__version__,
        sha256=names.comment(model.sha256),
        command=names.comment(options.command),
        abi=resources.abi_version(),
        **_integers(program),
        input_variance=options.input_variance,
        variance_argument="input_variance, " if options.input_variance else "",
        may_overlap=_OVERLAPS[options.input_variance],
        binary=options.binary,
        half=program.dtype.half,
        lacks=program.lacks,
        optimize_size=options.optimize == "size",
        selftest_file=f"{name}.c" if single else f"{name}_selftest.c",
        **_lengths(program),
        named_elements=_named_elements(program, model),
        headers=program.headers,
        runtime=tuple(runtime),
        sources=tuple(f"{stem}.c" for stem in ((name,) if single else (name, f"{name}_selftest"))),
        inlined_base=resources.without_includes(resources.header("lbnn.h")).rstrip() if single else "",
        inlined_kernels=_inlined(runtime) if single else "",
        constants=_constants(program, as_text=not options.binary),
        geometries=_geometries(program.geometries),
        lines=(*call_lines(program), *closing_lines(program)),
        result_mean=program.result[0],
        result_var=program.result[1],
        golden=_golden(vectors, program),
        head=head_view(vectors, program, model),
        example=example_text(program, model),
        range=range_view(program, model),
        calibration=calibration_view(program, model),
        stream=stream_view(program),
    )


def _vectors(program: Program, model: Model) -> Golden:
    dtype = program.dtype
    if dtype.is_integer:
        return golden_integers(program.graph, model, dtype.mean_bits)
    return golden(program.graph, model, dtype.tolerance)


def _lengths(program: Program) -> dict[str, Any]:
    graph = program.graph
    return dict(
        input_shape="x".join(map(str, graph.input.shape)),
        output_shape="x".join(map(str, graph.values[graph.output].shape)),
        input_len=program.input_len,
        output_len=program.output_len,
        work_len=program.work_len,
        weight_len=program.weight_len,
        weight_bytes=program.weight_bytes,
        binary_bytes=binary_len(program),
        limits=machine_limits(program),
    )


def _integers(program: Program) -> dict[str, Any]:
    """The type of work memory; of integers how many exponents there are, where those of the result stand, and units."""
    values = [INPUT, *(node.name for node in program.graph.nodes)]
    return dict(
        element=C_TYPES[program.dtype.element.name],
        integer=program.dtype.is_integer,
        scales=len(values),
        units=next((array.name for array in program.weights if array.name.endswith("_units")), "0"),
        result_scale=f"scale[{values.index(root_of(program.graph, program.graph.output))}]",
    )


def _named_elements(program: Program, model: Model) -> tuple[str, ...]:
    return (
        *_elements("input", model.metadata.get("inputs"), program.input_len),
        *_elements("mean", model.metadata.get("targets"), program.output_len if program.graph.head is None else -1),
    )


def _elements(array: str, columns: Any, length: int) -> list[str]:
    """A line for each element of an array, where the model's file names the columns of its data."""
    if not isinstance(columns, list) or len(columns) != length:
        return []
    width = len(f"{array}[{length - 1}]")
    return [f"{f'{array}[{i}]':{width}}  {names.comment(str(column))}" for i, column in enumerate(columns)]


def _inlined(headers: list[str]) -> str:
    texts = [resources.without_includes(resources.header(header)) for header in headers if header != "lbnn.h"]
    return "\n".join(text.rstrip() + "\n" for text in texts).rstrip()


def _constants(program: Program, as_text: bool) -> tuple[ConstantView, ...]:
    views, offset = [], 0
    layers = {layer.layer: layer for layer in program.layers}
    for array in program.weights:
        text = _indented(_rows(array, program.dtype)) if as_text else ""
        comment = " ".join(part for part in _columns(layers[array.layer]) if part)
        kind = C_TYPES[array.values.dtype.name]
        padding = padding_behind(array)
        views.append(
            ConstantView(array.name, kind, array.values.size, offset, padding, comment, text, not array.is_value)
        )
        offset += array.values.size
    return tuple(views)


def _rows(array: Weights, dtype: DType) -> list[str]:
    """Lines as the array asks for them; what is behind them, the padding of packed weights, on one more."""
    rows, start = [], 0
    for count, width in array.lines:
        rows += dtype.lines(array.values[start : start + count], width)
        start += count
    return rows + dtype.lines(array.values[start:], 8)


def _geometries(geometries: tuple[Geometry, ...]) -> tuple[GeometryView, ...]:
    """The names of the members stand above the first of each kind."""
    first = {geometry.kind: geometry.name for geometry in reversed(geometries)}
    return tuple(
        GeometryView(g.kind, g.name, MEMBERS[g.kind] if first[g.kind] == g.name else "", ", ".join(map(str, g.members)))
        for g in geometries
    )


def closing_lines(program: Program) -> list[str]:
    """Calls behind all layers."""
    return [str(call) for call in program.closing]


def call_lines(program: Program) -> list[str]:
    """A table: layer, operator and shape in a comment, then the call; further calls of a layer below it."""
    widths = [
        max((len(text) for text in column), default=0) for column in zip(*map(_columns, program.layers), strict=True)
    ]
    lines = []
    for layer in program.layers:
        texts = [f"{text:{width}}" for text, width in zip(_columns(layer), widths, strict=True)]
        head = f"/* {'  '.join(texts)} */"
        lines += [
            f"{head if not number else ' ' * len(head)} {call}".rstrip()
            for number, call in enumerate(layer.calls or ("",))
        ]
    return lines


def layer_lines(program: Program, source: str) -> dict[int, str]:
    """Line of the NAME.c that was generated for a program -> the layer whose call stands there."""
    owners = [layer.layer for layer in program.layers for _ in layer.calls or ("",)]
    first = source.splitlines().index(f"    {call_lines(program)[0]}") + 1
    return dict(enumerate(owners, start=first))


def _columns(layer: LayerCalls) -> tuple[str, str, str]:
    return (layer.layer, layer.node.op, layer.shape)


def _golden(vectors: Golden, program: Program) -> GoldenView:
    scales = ", ".join(f"{scale:g}" for scale in vectors.scales)
    return GoldenView(
        count=len(vectors.scales),
        description=f"Inputs of scale {scales}, and what the {vectors.reference} reference gives for them.",
        tolerance=literals.scalar(vectors.tolerance),
        input=literals.nested(vectors.mean),
        input_variance=literals.nested(vectors.var),
        mean=literals.nested(vectors.result.mean),
        variance=literals.nested(vectors.result.var),
    )


def _indented(rows: list[str]) -> str:
    return "    " + ",\n    ".join(rows)
