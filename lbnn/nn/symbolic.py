"""Layers under `torch.fx.symbolic_trace`: each call is one node, because moments need shapes and it has none."""

from __future__ import annotations

from typing import Any

from torch import fx, nn

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments

ALONE = "torch.fx traces networks, not a single layer of lbnn.nn; put it into a Sequential"


def fx_tracer(inputs: Any) -> Any | None:
    """The tracer of torch.fx whose stand-ins are among these values, or None where they are numbers."""
    if isinstance(inputs, fx.Proxy):  # stands for all arguments of what is traced
        raise LbnnError(ALONE)
    for x in inputs:
        part = x.mean if isinstance(x, Moments) else x
        if isinstance(part, fx.Proxy):
            return part.tracer
    return None


def fx_call(tracer: Any, module: nn.Module, inputs: tuple[Any, ...]) -> fx.Proxy:
    """The call of a module of the traced network, as a node."""
    path = tracer.path_of_module(module)
    if not path:
        raise LbnnError(ALONE)
    node: fx.Proxy = tracer.create_proxy("call_module", path, inputs, {})
    return node
