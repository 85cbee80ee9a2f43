"""From a module to its graph: `forward` runs once, in eval mode, on a stand-in that writes down what is done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

import lbnn.nn as bnn
from lbnn.base.advice import instead_of
from lbnn.base.arrays import Array
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments, instead
from lbnn.graph import INPUT, Graph, GraphBuilder
from lbnn.model.params import parameters
from lbnn.model.sums import Form, MovedValue, SharedSums, least, told_of
from lbnn.nn.base import Layer, Recording
from lbnn.nn.wrapped import unwrap
from lbnn.ops import Shape
from lbnn.ops.heads import find_head

HINTS = {
    "mean": "the moments are not known while tracing, and an average over pixels is lbnn.nn.AdaptiveAvgPool2d(1)",
    "var": "the moments are not known while tracing",
    "std": "the moments are not known while tracing",
}
"""What to do instead of reading these attributes."""

TRACED = "forward may use lbnn layers, +, -, * and / by numbers, flatten(1) and lbnn.cat"


@dataclass(frozen=True)
class Trace:
    """A graph, the layer behind each node that has one, and sums that the module itself takes for independent."""

    graph: Graph
    layers: Mapping[str, Layer]
    folded: tuple[str, ...] = ()


def trace(model: nn.Module, input_shape: Sequence[int], name: str = "model") -> Graph:
    """The graph of `model` for a random input of `input_shape` (without the batch axis)."""
    return record(model, input_shape, name).graph


def record(model: nn.Module, input_shape: Sequence[int], name: str = "model") -> Trace:
    """The graph of `model` with the layers that it was made from."""
    model = unwrap(model)
    tracer = Tracer(model, check_shape(input_shape), name)
    with tracer.watching(), evaluating(model), torch.no_grad():
        output = _run(model, tracer)
    head = output.head if isinstance(output, Headed) else None
    output = output.source if isinstance(output, Headed) else output
    if not isinstance(output, Proxy):
        count = f"{len(output)} values" if isinstance(output, (tuple, list, dict)) else f"a {type(output).__name__}"
        raise LbnnError(f"the model's forward returns {count}; return the result of one lbnn layer")
    return Trace(tracer.builder.finish(output.name, head), tracer.layers, told_of(tracer.folded))


def _run(model: nn.Module, tracer: Tracer) -> Any:
    try:
        return model(Proxy(tracer, INPUT))
    except LbnnError:
        raise
    except Exception as error:  # whatever a user's own forward raises when it meets the stand-in
        tracer.refuse(f"forward failed while being traced ({type(error).__name__}: {error})", error)


def check_shape(shape: Any) -> Shape:
    """An input shape as a tuple of positive integers."""
    entries = tuple(shape) if isinstance(shape, (tuple, list)) else ()
    if not entries or not all(type(extent) is int and extent > 0 for extent in entries):
        raise LbnnError(f"input_shape must be the shape of one sample, such as (16,) or (1, 28, 28); got {shape!r}")
    return entries


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in eval mode; each module's own mode comes back afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


class Tracer:
    """Collects the nodes of one trace and knows which module is running."""

    def __init__(self, model: nn.Module, shape: Shape, name: str) -> None:
        self.builder = GraphBuilder(name, shape, random=True)
        self.sums = SharedSums()
        self.folded: list[str] = []
        self.layers: dict[str, Layer] = {}
        self.paths = {module: path for path, module in model.named_modules()}
        self.running: list[nn.Module] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follows the calls of all modules, so that nodes and errors carry their paths."""
        with ExitStack() as hooks:
            for module in self.paths:
                enter = module.register_forward_pre_hook(lambda module, _: self.running.append(module))
                leave = module.register_forward_hook(self._leave)
                hooks.callback(enter.remove)
                hooks.callback(leave.remove)
            yield

    def _leave(self, *_: Any) -> None:
        self.running.pop()

    def layer(self, layer: Layer, inputs: Sequence[Any], name: str | None) -> Proxy:
        """Adds the node of a layer."""
        names, path = [self._name_of(x) for x in inputs], self._path_for(layer, name)
        if layer.op == "multiply" and names[0] == names[1] and self.builder.values[names[0]].random:
            self.refuse("a random value times itself is no product of independent values; use another layer")
        if layer.op != "add" or (form := self.sums.shared(names)) is None:
            return Proxy(self, self._node(layer, names, path))
        self.folded += [path] * (names[0] != names[1] and self.sums.meet(names))
        return Proxy(self, self._sum(form, path))

    def _node(self, layer: Layer, names: Sequence[str], path: str) -> str:
        attrs = layer.attrs(*map(self._shape_of, names))
        node = self.builder.add(path, layer.op_name(), names, attrs, parameters(layer))
        self.layers[node] = layer
        self.sums.note(self.builder.nodes[-1], self._shape_of)
        return node

    def _shape_of(self, name: str) -> Shape:
        return self.builder.values[name].shape

    def _sum(self, form: Form, path: str) -> str:
        """A sum in which each random value counts once, with all that it is multiplied by."""
        terms = [term for term, scale in form.scales.items() if scale.any()] or [*form.scales][:1]
        shifts = [form.shift, *[np.zeros(())] * (len(terms) - 1)]
        parts = [
            self._multiple(term, form.scales[term], shift, path if len(terms) == 1 else f"{path}.part")
            for term, shift in zip(terms, shifts, strict=True)
        ]
        return reduce(lambda x, y: self._node(bnn.Add(), [x, y], path), parts)

    def _multiple(self, term: MovedValue, scale: Array, shift: Array, path: str) -> str:
        place = self.sums.places.get(term, term.source)
        for mover in term.by if place == term.source else ():
            place = self._node(self.layers[mover], [place], f"{path}.{self.layers[mover].op}")
        return self._node(bnn.Affine(least(scale), least(shift)), [place], path)

    def _name_of(self, x: Any) -> str:
        if isinstance(x, Proxy):
            return x.name
        if isinstance(x, Moments):
            self.refuse("random values that do not come from the model's input can't be traced; use a known tensor")
        rank = x.ndim if isinstance(x, Tensor) else 0
        return self.layer(bnn.Constant(self.constant(x, rank)), (), None).name

    def constant(self, value: Any, rank: int) -> Tensor:
        """A known value without batch axis, to be combined with a value of `rank` axes, the batch axis included."""
        if not isinstance(value, (int, float, Tensor, np.ndarray, np.generic)):
            self.refuse(f"can't combine a random value with a {type(value).__name__}")
        tensor = torch.as_tensor(value, dtype=torch.get_default_dtype(), device="cpu").detach()
        if tensor.ndim < max(rank, 1):
            return tensor
        if tensor.ndim > rank or tensor.shape[0] != 1:
            self.refuse(f"a constant of shape {tuple(tensor.shape)} must have a batch axis of 1")
        return tensor[0]

    def _path_for(self, layer: Layer, name: str | None) -> str:
        """The layer's own path, or a place under the module that is running."""
        parent = self.paths[self.running[-1]] if self.running else ""
        if name is None and self.running and isinstance(self.running[-1], nn.Flatten):
            return parent
        own = self.paths.get(layer) if name is None else None
        return own or ".".join(part for part in (parent, name or layer.op) if part)

    def refuse(self, what: str, cause: Exception | None = None) -> NoReturn:
        """Raises an error that names the running module."""
        module = self.running[-1] if self.running else None
        path, kind = self.paths.get(module, "") if module else "", type(module)
        if kind.__module__.startswith("torch.nn."):
            raise LbnnError(f"module {path!r} is a torch.nn.{kind.__name__}, which has no moments; {_instead(kind)}")
        raise LbnnError(f"module {path!r} ({kind.__name__}): {what}") from cause


def _instead(kind: type) -> str:
    """What to use in place of a torch layer."""
    if hasattr(bnn, kind.__name__):
        return f"use lbnn.nn.{kind.__name__}, or convert the network with lbnn.from_torch"
    return instead_of(kind.__name__)


class Proxy(Recording):
    """Stands for a value of the graph while `forward` runs. It can do what Moments can."""

    def __init__(self, tracer: Tracer, name: str) -> None:
        self.tracer, self.name = tracer, name

    @property
    def shape(self) -> torch.Size:
        """The shape with a batch axis of 1."""
        return torch.Size((1, *self.tracer.builder.values[self.name].shape))

    def record_layer(self, layer: Layer, inputs: Sequence[Any], name: str | None = None) -> Proxy:
        """What a layer calls instead of computing; `name` is for a layer without a path of its own."""
        return self.tracer.layer(layer, inputs, name)

    def record_head(self, head: str) -> Headed:
        """What a head calls instead of computing."""
        find_head(head).check(self.tracer.builder.values[self.name].shape)
        return Headed(self, head)

    def flatten(self, start_dim: int = 1, end_dim: int = -1) -> Proxy:
        """All axes behind the batch axis made one."""
        rank = len(self.shape)
        if start_dim % rank != 1 or end_dim % rank != rank - 1:
            self.tracer.refuse(f"flatten({start_dim}, {end_dim}) can't be traced; use flatten(1)")
        return self.record_layer(bnn.Flatten(), (self,))

    def _affine(self, scale: Any, shift: Any, name: str) -> Proxy:
        rank = len(self.shape)
        layer = bnn.Affine(self.tracer.constant(scale, rank), self.tracer.constant(shift, rank))
        return self.record_layer(layer, (self,), name)

    def __add__(self, other: Any) -> Proxy:
        if isinstance(other, (Proxy, Moments)):
            return self.record_layer(bnn.Add(), (self, other))
        return self._affine(1.0, other, "add")

    def __sub__(self, other: Any) -> Proxy:
        return self._affine(0.0, 0.0, "sub") if other is self else self.__add__(other * -1)

    def __rsub__(self, other: Any) -> Proxy:
        return self._affine(-1.0, other, "sub")

    def __mul__(self, scale: Any) -> Proxy:
        if isinstance(scale, (Proxy, Moments)):
            return self.record_layer(bnn.Multiply(), (self, scale))
        return self._affine(scale, 0.0, "mul")

    def __truediv__(self, divisor: Any) -> Proxy:
        if isinstance(divisor, (Proxy, Moments)):
            self.__rtruediv__(divisor)
        return self._affine(1 / divisor, 0.0, "div")

    def __rtruediv__(self, other: Any) -> NoReturn:
        self.tracer.refuse("division by a random value is not supported; divide by known numbers")

    def __neg__(self) -> Proxy:
        return self._affine(-1.0, 0.0, "neg")

    __radd__ = __add__
    __rmul__ = __mul__

    def __bool__(self) -> NoReturn:
        self._branch()

    def _branch(self, *_: Any) -> NoReturn:
        self.tracer.refuse("a branch or a number that depends on the data can't be traced; use a layer of lbnn.nn")

    __lt__ = __le__ = __gt__ = __ge__ = __float__ = __int__ = __index__ = __len__ = _branch

    def __eq__(self, other: object) -> bool:
        self._branch()

    def _elements(self, *_: Any) -> NoReturn:
        self.tracer.refuse("elements of a random value can't be read or set; use lbnn.cat, flatten and layers")

    __iter__ = __getitem__ = __setitem__ = __array__ = _elements
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "dtype":  # Moments + x asks for dtype to see whether x is a known value
            raise AttributeError(name)
        hint = HINTS.get(name) or instead(name, TRACED)
        self.tracer.refuse(f"x.{name} can't be traced; {hint}")

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Torch functions that mean something for moments; every other one is refused."""
        name = getattr(function, "__name__", str(function))
        known = TORCH_FUNCTIONS.get(name)
        if known is None:
            first = next(x for x in _flat((*args, *(kwargs or {}).values())) if isinstance(x, Proxy))
            first.tracer.refuse(f"torch's {name} has no moments; {instead(name, 'use a layer of lbnn.nn')}")
        return known(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Headed(Recording):
    """Stands for the Classes of a head: the end of `forward`, which can return it and do nothing else."""

    source: Proxy
    head: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._end()

    def _end(self, *_: Any) -> NoReturn:
        self.source.tracer.refuse("a head must be the last thing that forward does; return what it gives")

    __iter__ = __getitem__ = __add__ = __mul__ = __len__ = _end
    record_layer = record_head = _end  # type: ignore[assignment]


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        yield from _flat(value) if isinstance(value, (tuple, list)) else (value,)


def _binary(own: str, reflected: str) -> Callable[[Any, Any], Any]:
    """An operator of which at least one side is a Proxy; torch calls it for `tensor + proxy` as well."""

    def apply(x: Any, y: Any) -> Any:
        return getattr(x, own)(y) if isinstance(x, Proxy) else getattr(y, reflected)(x)

    return apply


def _dropout(x: Proxy, p: float = 0.5, training: bool = True, inplace: bool = False) -> Proxy:
    """Nothing, in eval mode."""
    if training:
        x.tracer.refuse("dropout that stays active in eval mode can't be traced; the variance takes its place")
    return x


TORCH_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": _binary("__add__", "__radd__"),
    "sub": _binary("__sub__", "__rsub__"),
    "mul": _binary("__mul__", "__rmul__"),
    "div": _binary("__truediv__", "__rtruediv__"),
    "neg": lambda x: -x,
    "flatten": lambda x, start_dim=0, end_dim=-1: x.flatten(start_dim, end_dim),
    "cat": lambda tensors, dim=0: bnn.cat(tensors, dim),
    "dropout": _dropout,
    "dropout1d": _dropout,
    "dropout2d": _dropout,
}
"""By name, because `torch.add`, `Tensor.add` and `tensor + x` reach a trace as different functions."""
