"""What a model takes on a device, before anything is compiled: flash, RAM, stack and multiplications."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from math import prod

from lbnn.backends.c.kernels import Listing
from lbnn.graph import Graph, Node
from lbnn.moments import Moments


@dataclass(frozen=True)
class Footprint:
    """Bytes, and weights multiplied for one prediction. Code and stack are upper bounds measured on Cortex-M."""

    weight_bytes: int
    code_bytes: int
    work_bytes: int
    stack_bytes: int
    macs: int

    @property
    def flash_bytes(self) -> int:
        """Weights and code."""
        return self.weight_bytes + self.code_bytes

    def json(self, name: str, sha256: str, version: str) -> str:
        """The file NAME_footprint.json."""
        head = {"name": name, "lbnn": version, "sha256": sha256, "flash_bytes": self.flash_bytes}
        return json.dumps({**head, **asdict(self)}, indent=2) + "\n"


def footprint(listing: Listing) -> Footprint:
    """Of the generated source, without the self-test."""
    return Footprint(
        weight_bytes=4 * sum(constant.values.size for constant in listing.constants) + _geometry_bytes(listing),
        code_bytes=_code_bytes(listing),
        work_bytes=4 * max(1, listing.plan.size),
        stack_bytes=_stack_bytes(listing),
        macs=sum(macs(node, listing.graph) for node in listing.graph.nodes),
    )


def macs(node: Node, graph: Graph) -> int:
    """Pairs of an input and a weight: each is a multiplication in a plain network."""
    weight = node.params.get("weight")
    if not isinstance(weight, Moments):
        return 0
    return int(prod(graph.values[node.name].shape) * prod(weight.mean.shape[1:]))


# Bytes of flash and of stack of each kernel: the most over the cores and optimisation levels of
# `python tools/measure_kernels.py`, which prints this table.
KERNELS: dict[str, tuple[int, int]] = {}
GEOMETRY_BYTES = {"lbnn_conv_shape": 60, "lbnn_pool_shape": 48}
PREDICT_CODE, PREDICT_STACK, CALL_CODE = 160, 64, 40
OTHER_KERNEL = (1024, 256)


def _geometry_bytes(listing: Listing) -> int:
    return sum(GEOMETRY_BYTES[geometry.kind] for geometry in listing.geometries)


def _kernels(listing: Listing) -> list[str]:
    calls = [call for line in listing.lines for call in line.calls]
    return [*CHECKS, *(name for call in calls for name in re.findall(r"lbnn_\w+(?=\()", call))]


CHECKS = ("lbnn_is_finite", "lbnn_is_variance", "lbnn_emit")


def _code_bytes(listing: Listing) -> int:
    kernels = _kernels(listing)
    return PREDICT_CODE + CALL_CODE * len(kernels) + sum(KERNELS.get(name, OTHER_KERNEL)[0] for name in set(kernels))


def _stack_bytes(listing: Listing) -> int:
    return PREDICT_STACK + max(KERNELS.get(name, OTHER_KERNEL)[1] for name in _kernels(listing))
