"""The module that a model file becomes: ordinary layers and the wiring between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from lbnn.graph import INPUT
from lbnn.nn.base import Layer, Recording, Signal
from lbnn.nn.heads import build_head
from lbnn.nn.spread import RHOS
from lbnn.ops import Shape


@dataclass(frozen=True)
class Step:
    """One call: the layer's number, the values that it takes, the name of its result."""

    name: str
    layer: int
    inputs: tuple[str, ...]


class Network(nn.Module):
    """A saved model: it computes, trains, is traced and saved like the module that was saved."""

    def __init__(
        self,
        layers: Sequence[Layer],
        steps: Sequence[Step],
        output: str,
        input_shape: Shape,
        model_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        head: str | None = None,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.head = None if head is None else build_head(head)
        self.steps, self.output, self.input_shape = tuple(steps), output, input_shape
        self.model_name, self.metadata = model_name, dict(metadata or {})

    def forward(self, x: Signal) -> Signal:
        """Runs the steps in order on a tensor, Moments or a trace."""
        values = {INPUT: x}
        for step in self.steps:
            values[step.name] = self._call(step, x, [values[name] for name in step.inputs])
        return values[self.output] if self.head is None else self.head(values[self.output])

    def _call(self, step: Step, x: Signal, inputs: list[Signal]) -> Signal:
        """One step; a layer without inputs (a constant) is told the batch by `x`."""
        layer = self.layers[step.layer]
        if isinstance(x, Recording):
            return x.record_layer(layer, inputs, step.name)  # type: ignore[arg-type]
        return layer(*(inputs or [x]))

    def __getitem__(self, name: str) -> Layer:
        """The layer behind the node called `name`."""
        return {step.name: self.layers[step.layer] for step in self.steps}[name]  # type: ignore[return-value]


TRAINED = {f"{name}_{part}" for name in ("weight", "bias") for part in ("mu", *RHOS)} | {"weight", "bias"}
"""The tensors of a layer that are parameters; the others are buffers."""


def _layer_classes(kind: type[Layer]) -> Iterator[type[Layer]]:
    """Our own classes of layers; a user's are not looked for in files."""
    for each in kind.__subclasses__():
        if each.__module__.startswith("lbnn.nn."):
            yield each
            yield from _layer_classes(each)


LAYERS: dict[str, type[Layer]] = {op: kind for kind in _layer_classes(Layer) for op in kind.loads}
"""The layer that each operator of a file becomes again."""


def build_layer(op: str, attrs: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
    """The layer of an operator; `tensors` become its parameters and buffers, not copies of them."""
    layer = LAYERS[op].from_file(dict(attrs), tensors)
    for name, tensor in tensors.items():
        setattr(layer, name, tensor)
    return layer
