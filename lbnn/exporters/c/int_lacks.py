"""What integer kernels can leave out of a model's code: LBNN_INT_NO_... in c_runtime/lbnn_int.h."""

from __future__ import annotations

from lbnn.graph import Graph
from lbnn.graph.ints.study import Study

FEW_WEIGHTS = 8192
"""Up to so many, less code matters more than loops that are written out, and pairs of rows on a Cortex-M0."""


def lacking(graph: Graph, facts: Study) -> tuple[str, ...]:
    """The macros of what no layer of the model needs."""
    convs = facts.conv.values()
    layers = (*facts.linear.values(), *(conv.layer for conv in convs))
    needs = {
        "FREE": any(layer.form == "free" for layer in layers),
        "FACTORS": any(layer.form != "free" for layer in layers),
        "WORDS": not any(layer.form == "free" for layer in layers),
        "MAPS": bool(facts.maps),
        "PAIRS": sum(layer.weight.size for layer in layers) > FEW_WEIGHTS,
        "ODD_ROWS": any(rows % 2 for rows in _rows(facts)),
        "ODD_PIXELS": any(channels % 2 for channels in facts.maps.values()),
        "GROUPS": any(conv.groups > 1 for conv in convs),
        "DILATION": any(max(conv.window.dilation) > 1 for conv in convs),
        "CORRELATED": any(node.op == "avg_pool_correlated" for node in graph.nodes),
    }
    return tuple(f"LBNN_INT_NO_{what}" for what, needed in needs.items() if not needed)


def _rows(facts: Study) -> tuple[int, ...]:
    """Rows of weights that are computed together."""
    return (*(len(layer.weight) for layer in facts.linear.values()), *(conv.outputs for conv in facts.conv.values()))
