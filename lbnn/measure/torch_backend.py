"""The graph's formulas in torch float32, as the layers run them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lbnn import ops
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.graph import INPUT, rebuild
from lbnn.measure.parity import Answers, Outcome
from lbnn.measure.samples import Samples
from lbnn.model.file import Model
from lbnn.nn.heads import class_moments
from lbnn.ops.torch import compute


def run_torch(model: Model, samples: Samples) -> Outcome:
    """The formulas in torch float32, as the layers run them."""

    def tensor(value: Any) -> Any:
        if isinstance(value, (Moments, Factored)):
            return type(value)(*map(tensor, value))
        return torch.as_tensor(np.asarray(value), dtype=torch.float32)

    graph = rebuild(model.graph, model.graph.nodes, random=samples.var is not None)
    values: dict[str, Any] = {
        INPUT: tensor(samples.mean if samples.var is None else Moments(samples.mean, samples.var))
    }
    with torch.no_grad():
        for node in graph.nodes:
            inputs = [values[name] for name in node.inputs]
            params = {key: tensor(param) for key, param in node.params.items()}
            result = compute(ops.find(node.op), *inputs, **params, **node.attrs)
            values[node.name] = result if node.inputs else result.expand(len(samples), *result.shape)
    out = values[graph.output]
    mean, var = out if isinstance(out, Moments) else (out, torch.zeros_like(out))
    return Outcome(mean.numpy(), var.numpy(), classes=_answers(graph.head, Moments(mean, var)))


@torch.no_grad()
def _answers(head: str | None, logits: Moments[torch.Tensor]) -> Answers | None:
    if head is None:
        return None
    found = class_moments(logits, head)
    return Answers(found.probability.numpy(), found.entropy.numpy(), found.epistemic.numpy())
