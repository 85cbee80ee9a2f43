"""The moment graph: frozen values, nodes and graphs, their validation, their text form and a builder.

A value is `random` (a mean and a variance for each element) or a `point` (known numbers). Shapes leave out the batch
axis. Parameters are numpy float64 arrays, or Moments of them for Gaussian weights; passes compute in float64 and each
backend rounds once, at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Array
from lbnn.base.errors import LbnnError
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.ops import Op, Shape, Use
from lbnn.ops.heads import find_head
from lbnn.ops.limits import check_held, check_numbers, check_size

Param = Moments[Array] | Factored[Array] | Array

INPUT = "input"
"""The name of a graph's one input."""


@dataclass(frozen=True)
class Value:
    """What a node gives: shape without the batch axis, and whether it carries a variance."""

    shape: Shape
    random: bool

    def __str__(self) -> str:
        return f"{'random' if self.random else 'point'}[{'x'.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Node:
    """One operator applied to named values; the node's name is the name of its result."""

    name: str
    op: str
    inputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Param] = field(default_factory=dict)

    def __str__(self) -> str:
        shapes = (f"{key}[{'x'.join(map(str, value.shape))}]" for key, value in self.params.items())
        attrs = (f"{key}={_attr_text(value)}" for key, value in self.attrs.items())
        return f"{self.op}({', '.join([*self.inputs, *shapes, *attrs])})"


@dataclass(frozen=True)
class Graph:
    """A network in the order of its computation. Building one checks it."""

    name: str
    input: Value
    nodes: tuple[Node, ...]
    output: str
    head: str | None = None  # what makes classes of the output, in lbnn.ops.heads

    def __post_init__(self) -> None:
        if self.output not in self.values:
            raise LbnnError(f"graph {self.name!r}: its output {self.output!r} is not one of its values")
        if self.head is not None:
            find_head(self.head).check(self.values[self.output].shape)

    @cached_property
    def values(self) -> dict[str, Value]:
        """Every value by name, its shape inferred and its node checked."""
        values = {INPUT: self.input}
        for node in self.nodes:
            if node.name in values:
                raise LbnnError(f"node {node.name!r}: the name is used twice")
            values[node.name] = check_node(node, values)
        return values

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """Every node by name."""
        return {node.name: node for node in self.nodes}

    def use(self, node: Node) -> Use:
        """What an operator's facts are asked about: the node with the shapes of its values."""
        inputs = tuple(self.values[name].shape for name in node.inputs)
        return Use(inputs, self.values[node.name].shape, node.params, node.attrs)

    @cached_property
    def users(self) -> dict[str, tuple[Node, ...]]:
        """The nodes that read each value."""
        users: dict[str, list[Node]] = {name: [] for name in self.values}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                users[name].append(node)
        return {name: tuple(nodes) for name, nodes in users.items()}

    def __str__(self) -> str:
        """A listing: one line a node."""
        width = max((len(name) for name in self.values), default=0)
        lines = [f"{node.name:{width}} = {node} : {self.values[node.name]}" for node in self.nodes]
        result = self.output if self.head is None else f"{self.head}({self.output})"
        head = f"{self.name}(input: {self.input}) -> {result}"
        return "\n".join([head, *(f"  {line}" for line in lines)])


def check_node(node: Node, values: Mapping[str, Value]) -> Value:
    """The value that a node gives, or an error that names the node."""
    try:
        op = ops.find(node.op)
        inputs = [_lookup(name, values) for name in node.inputs]
        _check_inputs(op, inputs)
        _check_params(op, node.params)
        shape = _checked_shape(op, node, tuple(value.shape for value in inputs))
    except LbnnError as error:
        raise LbnnError(f"node {node.name!r}: {error}") from None
    except (TypeError, ValueError, IndexError, ArithmeticError) as error:
        raise LbnnError(f"node {node.name!r}: {node.op} does not take these attributes ({error})") from None
    return Value(shape, random=not op.point_output)


def _checked_shape(op: Op, node: Node, inputs: tuple[Shape, ...]) -> Shape:
    """The shape of the result, where neither it nor what is held on the way to it is too large."""
    check_numbers(node.attrs)
    shapes = {key: tuple(param.shape) for key, param in node.params.items()}
    for key in op.factored:
        if isinstance(param := node.params[key], Factored) and param.groups != node.attrs.get("groups", 1):
            raise LbnnError(f"{op.name}: the factors of {key!r} are for {param.groups} groups")
    shape = op.shape(*inputs, **shapes, **node.attrs)
    check_size("its result", shape)
    check_held(op.held(Use(inputs, shape, node.params, node.attrs)))
    return shape


def _lookup(name: str, values: Mapping[str, Value]) -> Value:
    if name not in values:
        raise LbnnError(f"its input {name!r} is not computed before it")
    return values[name]


def _check_inputs(op: Op, inputs: list[Value]) -> None:
    if (op.arity is None and len(inputs) < 1) or (op.arity is not None and len(inputs) != op.arity):
        raise LbnnError(f"{op.name} takes {op.arity or 'at least one'} input(s), got {len(inputs)}")
    if [value.random for value in inputs] != op.takes_random(len(inputs)):
        raise LbnnError(f"{op.name} does not take {' and '.join(map(str, inputs))}")


def _check_params(op: Op, params: Mapping[str, Param]) -> None:
    if set(params) != set(op.params):
        raise LbnnError(f"{op.name} needs the parameters {list(op.params)}, got {list(params)}")
    for key, param in params.items():
        if isinstance(param, (Moments, Factored)) != (key in op.gaussian):
            raise LbnnError(f"parameter {key!r} must {'' if key in op.gaussian else 'not '}have a variance")
        if isinstance(param, Factored) and key not in op.factored:
            raise LbnnError(f"{op.name}: the variances of {key!r} can't be products of factors; use variance='full'")
        arrays = param if isinstance(param, (Moments, Factored)) else (param,)
        if not all(map(_is_finite, arrays)):
            raise LbnnError(f"parameter {key!r} holds a NaN or an infinity")
        if isinstance(param, (Moments, Factored)) and not _has_variance(param):
            raise LbnnError(f"parameter {key!r} has a variance that is negative or of another shape")
    op.check(params)


def _is_finite(array: Array) -> bool:
    """Whether all numbers are: a sum that is tells so in one pass, and one that is not may have gone beyond float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.sum(array)
    return bool(np.isfinite(whole) or np.all(np.isfinite(array)))


def _has_variance(param: Moments[Array] | Factored[Array]) -> bool:
    """Whether there is one for each mean, and none is negative."""
    if isinstance(param, Moments):
        return param.mean.shape == param.var.shape and bool(np.min(param.var, initial=0.0) >= 0.0)
    fits = param.row.shape == param.shape[:1] and param.column.shape[1:] == param.shape[1:]
    return fits and not len(param.row) % param.groups and not any(np.any(part < 0) for part in param[1:])


MOST_SHOWN = 65
"""Of an attribute with more numbers only how many they are is printed."""


def _attr_text(value: Any) -> str:
    if isinstance(value, tuple) and len(value) > MOST_SHOWN:
        return f"{len(value)} numbers"
    if isinstance(value, tuple):
        return "x".join(map(_attr_text, value)) if all(isinstance(v, int) for v in value) else str(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


class GraphBuilder:
    """Collects nodes; picks the operator's form by whether its inputs are points or random."""

    def __init__(self, name: str, shape: Shape, random: bool) -> None:
        self.name = name
        self.input = Value(shape, random)
        self.values: dict[str, Value] = {INPUT: self.input}
        self.nodes: list[Node] = []
        self._numbers: dict[str, int] = {}  # the last one tried for a name: many equal ones stay fast

    def add(
        self,
        name: str,
        op: str,
        inputs: Iterable[str],
        attrs: Mapping[str, Any] | None = None,
        params: Mapping[str, Param] | None = None,
    ) -> str:
        """Appends a node in the form its inputs ask for and returns its name, made unique."""
        form, attrs, names = self._form(ops.find(op), dict(attrs or {}), list(inputs))
        node = Node(self.unique(name), form.name, tuple(names), attrs, dict(params or {}))
        self.values[node.name] = check_node(node, self.values)
        self.nodes.append(node)
        return node.name

    def finish(self, output: str, head: str | None = None) -> Graph:
        """The graph whose result is `output`, read by `head`."""
        return Graph(self.name, self.input, tuple(self.nodes), output, head)

    def unique(self, name: str) -> str:
        """`name`, or the first of name_2, name_3, ... that is free."""
        stem = re.sub(r"[^A-Za-z0-9_.]", "_", name) or "node"
        candidate, number = stem, self._numbers.get(stem, 1)
        while candidate in self.values:
            number += 1
            candidate = f"{stem}_{number}"
        self._numbers[stem] = number
        return candidate

    def is_random(self, name: str) -> bool:
        """Whether there is such a value and it has a variance."""
        return name in self.values and self.values[name].random

    def _form(self, op: Op, attrs: dict[str, Any], names: list[str]) -> tuple[Op, dict[str, Any], list[str]]:
        random = [self.values[name].random for name in names if name in self.values]
        if op.point_inputs or random == op.takes_random(len(names)):
            return op, attrs, names
        general = ops.find(op.general)
        if not any(random):
            return *general.at_points(attrs), names
        if general.mixed_form and not all(random):
            return ops.find(general.mixed_form), attrs, names if random[0] else names[::-1]
        return general, attrs, [self._lifted(name) for name in names]

    def _lifted(self, name: str) -> str:
        """A value as moments, with variance zero if it is a point."""
        known = name in self.values and not self.values[name].random
        return self.add(f"{name}_lifted", "lift", [name]) if known else name


def rebuild(graph: Graph, nodes: Iterable[Node], output: str | None = None, random: bool | None = None) -> Graph:
    """A graph of other nodes or with another kind of input, checked, each operator in the form its inputs ask for.

    A value that was lifted to meet a random one stays known where, the input now being known, nothing random meets it;
    one that is random by now needs no lift.
    """
    builder = GraphBuilder(graph.name, graph.input.shape, graph.input.random if random is None else random)
    known_now = graph.input.random and not builder.input.random
    unlifted: dict[str, str] = {}
    for node in nodes:
        inputs = [unlifted.get(name, name) for name in node.inputs]
        if node.op == "lift" and (known_now or builder.is_random(inputs[0])):
            unlifted[node.name] = inputs[0]
        else:
            builder.add(node.name, node.op, inputs, node.attrs, node.params)
    output = graph.output if output is None else output
    return builder.finish(unlifted.get(output, output), graph.head)
