"""What a model takes on a device, before anything is compiled: flash, RAM, stack and multiplications."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import prod

from lbnn.base.moments import Moments
from lbnn.exporters.c.program import Program
from lbnn.exporters.c.streams import PushProgram
from lbnn.graph import Graph, Node

# Bytes of code and of stack of each kernel: the most over Cortex-M0, M3, M4, M7 and M33 with gcc -O2 and -Os, with and
# without LBNN_OPTIMIZE_SIZE, but without the compiler's routines for float on cores that have no floating-point unit.
# tools/bench/measure_kernels.py prints it.
KERNELS: dict[str, tuple[int, int]] = {
    "lbnn_abs": (576, 72),
    "lbnn_abs_point": (46, 24),
    "lbnn_add": (92, 48),
    "lbnn_add_points": (44, 32),
    "lbnn_affine": (154, 64),
    "lbnn_affine_point": (130, 56),
    "lbnn_avg_pool": (584, 176),
    "lbnn_avg_pool_2x2": (248, 104),
    "lbnn_avg_pool_2x2_point": (224, 88),
    "lbnn_avg_pool_correlated": (1102, 184),
    "lbnn_avg_pool_point": (562, 168),
    "lbnn_concat": (72, 52),
    "lbnn_conv2d": (2708, 408),
    "lbnn_conv2d_1x1": (1428, 392),
    "lbnn_conv2d_1x1_point": (1240, 384),
    "lbnn_conv2d_3x3": (2856, 392),
    "lbnn_conv2d_3x3_point": (2212, 384),
    "lbnn_conv2d_point": (2348, 408),
    "lbnn_conv2d_small": (1352, 328),
    "lbnn_copy": (26, 12),
    "lbnn_depthwise_3x3": (1402, 392),
    "lbnn_depthwise_3x3_point": (1032, 384),
    "lbnn_dropout": (88, 40),
    "lbnn_dropout_point": (60, 32),
    "lbnn_due": (54, 32),
    "lbnn_emit": (152, 44),
    "lbnn_is_finite": (46, 20),
    "lbnn_is_variance": (50, 20),
    "lbnn_largest": (56, 24),
    "lbnn_leaky_relu": (656, 88),
    "lbnn_leaky_relu_clamped": (856, 96),
    "lbnn_leaky_relu_point": (56, 32),
    "lbnn_lift": (18, 8),
    "lbnn_linear": (1584, 184),
    "lbnn_linear_point": (1252, 168),
    "lbnn_max_pool": (1396, 488),
    "lbnn_max_pool_2x2": (2204, 496),
    "lbnn_max_pool_2x2_point": (358, 112),
    "lbnn_max_pool_point": (420, 128),
    "lbnn_multiply": (228, 152),
    "lbnn_multiply_known": (180, 152),
    "lbnn_multiply_point": (144, 72),
    "lbnn_pad": (156, 48),
    "lbnn_piecewise": (3232, 320),
    "lbnn_piecewise_point": (100, 40),
    "lbnn_ring_mean": (154, 48),
    "lbnn_ring_put": (92, 40),
    "lbnn_ring_read": (126, 48),
    "lbnn_ring_sum": (204, 56),
    "lbnn_ring_take": (192, 64),
    "lbnn_shift": (80, 40),
    "lbnn_sigmoid": (1404, 128),
    "lbnn_smooth": (4128, 240),
    "lbnn_smooth_point": (1228, 80),
    "lbnn_softmax": (3832, 248),
    "lbnn_softmax_fast": (1348, 72),
    "lbnn_status_message": (28, 0),
    "lbnn_upsample": (216, 64),
    "lbnn_variance_head": (420, 64),
    "lbnn_variance_head_point": (400, 64),
}
# _predict itself, or _classify, which calls it, and what each call in it adds.
PREDICT_CODE, PREDICT_STACK, CALL_CODE = 96, 64, 32
CHECKS = ("lbnn_is_finite", "lbnn_is_variance", "lbnn_emit", "lbnn_copy")
GEOMETRY_BYTES = {"lbnn_conv_shape": 60, "lbnn_conv_small_shape": 30, "lbnn_pool_shape": 48, "lbnn_max_pool_shape": 52}
_OF_STREAMS = ("state_bytes", "push_work_bytes", "push_macs")


@dataclass(frozen=True)
class Footprint:
    """Bytes for gcc on Cortex-M, code and stack as upper bounds; `macs` are pairs of an input and a weight."""

    weight_bytes: int
    code_bytes: int
    work_bytes: int
    stack_bytes: int
    macs: int
    state_bytes: int = 0  # of a stream, for each
    push_work_bytes: int = 0
    push_macs: int = 0  # of the costliest sample

    @property
    def flash_bytes(self) -> int:
        """Weights and code."""
        return self.weight_bytes + self.code_bytes

    def json(self, name: str, sha256: str, version: str) -> str:
        """The file NAME_footprint.json."""
        head = {"name": name, "lbnn": version, "sha256": sha256, "flash_bytes": self.flash_bytes}
        return json.dumps({**head, **self.numbers}, indent=2) + "\n"

    @property
    def numbers(self) -> dict[str, int]:
        """Everything by name; what is of streams alone where there is one."""
        return {key: value for key, value in asdict(self).items() if self.state_bytes or key not in _OF_STREAMS}

    @property
    def of_stream(self) -> dict[str, int]:
        """What is of streams alone."""
        return {key: getattr(self, key) for key in _OF_STREAMS}


def footprint(program: Program) -> Footprint:
    """Of the generated source, without the self-test."""
    kernels, push = [*CHECKS, *program.kernels], program.push
    functions = (1 if program.graph.head is None else 2) * (1 if push is None else 2)
    geometry = sum(GEOMETRY_BYTES[shape.kind] for shape in program.geometries)
    return Footprint(
        weight_bytes=program.dtype.weight.itemsize * program.weight_len + geometry,
        code_bytes=functions * PREDICT_CODE + CALL_CODE * len(kernels) + sum(KERNELS[name][0] for name in set(kernels)),
        work_bytes=program.dtype.element.itemsize * program.work_len,
        stack_bytes=functions * PREDICT_STACK + max(KERNELS[name][1] for name in kernels),
        macs=sum(macs(node, program.graph) for node in program.graph.nodes),
        **({} if push is None else _of_push(push)),
    )


def _of_push(push: PushProgram) -> dict[str, int]:
    size, graph = push.program.dtype.element.itemsize, push.stream.graph
    return {
        "state_bytes": size * push.state_len,
        "push_work_bytes": size * push.work_len,
        "push_macs": sum(macs(node, graph) for node in graph.nodes),
    }


def macs(node: Node, graph: Graph) -> int:
    """Multiplications of the plain network; the moments take three to five times as many."""
    weight = node.params.get("weight")
    if not isinstance(weight, Moments):
        return 0
    return int(prod(graph.values[node.name].shape) * prod(weight.mean.shape[1:]))
