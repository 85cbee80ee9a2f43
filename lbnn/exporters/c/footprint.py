"""What a model takes on a device, before anything is compiled: flash, RAM, stack and multiplications."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod

from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.device.generated import DECISION_WORDS
from lbnn.exporters.c.avr_footprint import avr_code
from lbnn.exporters.c.bands import loops_of
from lbnn.exporters.c.half_footprint import HALF_KERNELS
from lbnn.exporters.c.heads import head_kernels, stack_len
from lbnn.exporters.c.int_footprint import (
    INTEGER_CALLEES,
    INTEGER_CHECKS,
    INTEGER_INLINED,
    INTEGER_KERNELS,
    MATCH_BYTES,
    ROOT_BYTES,
    SOFT_BYTES,
    integer_kernels,
    unlinked,
)
from lbnn.exporters.c.limits import machine_limits
from lbnn.exporters.c.program import Program
from lbnn.exporters.c.streams import PushProgram
from lbnn.graph import Graph, Node
from lbnn.ops import find

# Bytes of code and of stack of each kernel: the most over Cortex-M0, M3, M4, M7 and M33 with gcc -O2 and -Os, with and
# without LBNN_OPTIMIZE_SIZE, but without the compiler's routines for float on cores that have no floating-point unit.
# tools/bench/measure_kernels.py prints it.
KERNELS: dict[str, tuple[int, int]] = {
    "lbnn_abs": (712, 88),
    "lbnn_abs_point": (46, 24),
    "lbnn_add": (94, 64),
    "lbnn_add_points": (172, 40),
    "lbnn_affine": (154, 64),
    "lbnn_affine_point": (130, 56),
    "lbnn_avg_pool": (652, 184),
    "lbnn_avg_pool_2x2": (228, 80),
    "lbnn_avg_pool_2x2_point": (198, 72),
    "lbnn_avg_pool_correlated": (1294, 184),
    "lbnn_avg_pool_point": (628, 168),
    "lbnn_concat": (64, 48),
    "lbnn_conv2d": (2732, 408),
    "lbnn_conv2d_1x1": (8088, 424),
    "lbnn_conv2d_1x1_point": (6896, 408),
    "lbnn_conv2d_1x1_rank1": (7860, 424),
    "lbnn_conv2d_1x1_rank1_point": (6588, 408),
    "lbnn_conv2d_3x3": (5268, 408),
    "lbnn_conv2d_3x3_point": (4126, 376),
    "lbnn_conv2d_3x3_rank1": (4812, 400),
    "lbnn_conv2d_3x3_rank1_point": (3816, 400),
    "lbnn_conv2d_patch": (8580, 424),
    "lbnn_conv2d_patch_point": (7424, 392),
    "lbnn_conv2d_patch_rank1": (8562, 432),
    "lbnn_conv2d_patch_rank1_point": (7088, 448),
    "lbnn_conv2d_point": (2328, 408),
    "lbnn_conv2d_rank1": (3470, 456),
    "lbnn_conv2d_rank1_point": (3120, 456),
    "lbnn_conv2d_small": (1352, 328),
    "lbnn_conv_transposed": (3092, 504),
    "lbnn_conv_transposed_point": (2820, 504),
    "lbnn_copy": (138, 16),
    "lbnn_depthwise_3x3": (7310, 288),
    "lbnn_depthwise_3x3_point": (5058, 240),
    "lbnn_dropout": (88, 40),
    "lbnn_dropout_point": (60, 32),
    "lbnn_due": (54, 32),
    "lbnn_elu": (3904, 128),
    "lbnn_elu_point": (396, 64),
    "lbnn_emit": (116, 40),
    "lbnn_hardswish": (3864, 136),
    "lbnn_hardswish_point": (112, 40),
    "lbnn_is_finite": (144, 4),
    "lbnn_is_variance": (126, 12),
    "lbnn_largest": (56, 24),
    "lbnn_leaky_relu": (792, 104),
    "lbnn_leaky_relu_clamped": (986, 112),
    "lbnn_leaky_relu_point": (56, 32),
    "lbnn_lift": (18, 8),
    "lbnn_linear": (2888, 216),
    "lbnn_linear_point": (1964, 168),
    "lbnn_linear_rank1": (1676, 176),
    "lbnn_linear_rank1_point": (1300, 168),
    "lbnn_max_pool": (1524, 496),
    "lbnn_max_pool_2x2": (2352, 512),
    "lbnn_max_pool_2x2_point": (358, 112),
    "lbnn_max_pool_point": (420, 128),
    "lbnn_multiply": (228, 152),
    "lbnn_multiply_known": (180, 152),
    "lbnn_multiply_point": (144, 72),
    "lbnn_pad": (156, 48),
    "lbnn_piecewise": (3300, 336),
    "lbnn_piecewise_point": (100, 40),
    "lbnn_ring_mean": (154, 48),
    "lbnn_ring_put": (92, 40),
    "lbnn_ring_read": (126, 48),
    "lbnn_ring_sum": (356, 72),
    "lbnn_ring_take": (192, 64),
    "lbnn_shift": (90, 56),
    "lbnn_sigmoid": (1472, 128),
    "lbnn_smooth": (4276, 248),
    "lbnn_smooth_point": (1228, 80),
    "lbnn_softmax": (4192, 248),
    "lbnn_softmax_fast": (1496, 80),
    "lbnn_status_message": (28, 0),
    "lbnn_tabulated": (3876, 208),
    "lbnn_tabulated_point": (404, 80),
    "lbnn_upsample": (216, 64),
    "lbnn_variance_head": (420, 64),
    "lbnn_variance_head_point": (400, 64),
}
# _predict itself, or _classify, which calls it, and what each call in it adds.
PREDICT_CODE, PREDICT_STACK, CALL_CODE = 96, 64, 32
# What a loop over bands of rows adds to it: the shape of a band.
BAND_CODE, BAND_STACK = 96, 80
MEASURED = KERNELS | INTEGER_KERNELS
TABLE_BYTES = {"lbnn_int_narrowing_of": ROOT_BYTES, "lbnn_int_softplus": SOFT_BYTES, "lbnn_int_match": MATCH_BYTES}
CHECKS = ("lbnn_is_finite", "lbnn_is_variance", "lbnn_emit", "lbnn_copy")
GEOMETRY_BYTES = {"lbnn_conv_shape": 60, "lbnn_conv_small_shape": 30, "lbnn_pool_shape": 52, "lbnn_max_pool_shape": 52}
GEOMETRY_BYTES |= {"lbnn_int_layer": 48, "lbnn_int_conv_shape": 92, "lbnn_int_pool_shape": 64, "lbnn_int_max_shape": 60}
SCALE_BYTES, SOURCE_BYTES = 16, 32  # lbnn_int_scale and lbnn_int_source
_OF_STREAMS = ("state_bytes", "push_work_bytes", "push_macs")


@dataclass(frozen=True)
class Footprint:
    """Bytes for gcc on Cortex-M, code and stack as upper bounds; `macs` are pairs of an input and a weight.

    `io_bytes` are the caller's arrays: the input, and what is predicted or decided.
    """

    weight_bytes: int
    code_bytes: int
    work_bytes: int
    stack_bytes: int
    macs: int
    io_bytes: int = 0
    state_bytes: int = 0  # of a stream, for each
    push_work_bytes: int = 0
    push_macs: int = 0  # of the costliest sample
    floats: bool = True  # whether anything is computed in float
    wide_int: bool = False  # whether it needs an int of 32 bits
    avr_code_bytes: int = 0  # for an AVR, libgcc included; nothing of integers, which do not compile there

    @property
    def flash_bytes(self) -> int:
        """Weights and code, an upper bound as the code is."""
        return self.weight_bytes + self.code_bytes

    @property
    def ram_bytes(self) -> int:
        """Work buffer and stack, an upper bound as the stack is; the caller's arrays are his."""
        return self.work_bytes + self.stack_bytes

    def json(self, name: str, sha256: str, version: str) -> str:
        """The file NAME_footprint.json."""
        head = {"name": name, "lbnn": version, "sha256": sha256}
        sums = {"flash_bytes": self.flash_bytes, "ram_bytes": self.ram_bytes}
        return json.dumps({**head, **sums, **self.numbers}, indent=2) + "\n"

    @property
    def numbers(self) -> dict[str, int]:
        """Everything by name; what is of streams alone where there is one."""
        left_out = ("floats", "wide_int", "avr_code_bytes", *(() if self.state_bytes else _OF_STREAMS))
        return {key: value for key, value in asdict(self).items() if key not in left_out}

    @property
    def of_stream(self) -> dict[str, int]:
        """What is of streams alone."""
        return {key: getattr(self, key) for key in _OF_STREAMS}


def footprint(program: Program) -> Footprint:
    """Of the generated source, without the self-test."""
    kernels, push = _called(program), program.push
    measured = _measured(program)
    functions = (1 if program.graph.head is None else 2) * (1 if push is None else 2)
    bands = loops_of(program)
    geometry = sum(GEOMETRY_BYTES[shape.kind] for shape in program.geometries)
    tables = sum(TABLE_BYTES.get(name, 0) for name in set(kernels))
    code = sum(measured[name][0] for name in set(kernels)) + tables
    return Footprint(
        weight_bytes=program.weight_bytes + geometry,
        code_bytes=functions * PREDICT_CODE + CALL_CODE * len(kernels) + BAND_CODE * bands + code,
        work_bytes=program.dtype.element.itemsize * program.work_len,
        stack_bytes=_integer_stack(program, kernels, measured)
        if program.dtype.is_integer
        else functions * PREDICT_STACK + BAND_STACK * (bands > 0) + max(measured[name][1] for name in kernels),
        macs=sum(macs(node, program.graph) for node in program.graph.nodes),
        io_bytes=_io_bytes(program),
        floats=not program.dtype.is_integer or program.graph.head is not None,
        wide_int=program.dtype.is_integer or bool(machine_limits(program)),
        avr_code_bytes=0 if program.dtype.is_integer else avr_code(kernels, functions, bands, program.dtype.half),
        **({} if push is None else _of_push(push)),
    )


def _io_bytes(program: Program) -> int:
    """Floats of the input, with its variance, and of the result; or probabilities and a decision, if that is more."""
    inputs = (2 if program.graph.input.random else 1) * program.input_len
    outputs = 2 * program.output_len
    return 4 * (inputs + max(outputs, 0 if program.graph.head is None else program.output_len + DECISION_WORDS))


def _called(program: Program) -> list[str]:
    """The kernels of every call, with those that kernels call."""
    called = [*(INTEGER_CHECKS if program.dtype.is_integer else CHECKS), *program.kernels]
    inner = [callee for name in called for callee in INTEGER_CALLEES.get(name, ())]
    unused = unlinked(program.lacks, program.graph.input.random) if program.dtype.is_integer else set()
    return [name for name in (*called, *inner) if name not in unused.union(INTEGER_INLINED)]


def _measured(program: Program) -> dict[str, tuple[int, int]]:
    """Code and stack of kernels, as the program is compiled."""
    return {
        **MEASURED,
        **(HALF_KERNELS if program.dtype.half else {}),
        **(integer_kernels(program.lacks) if program.dtype.is_integer else {}),
    }


def _integer_stack(program: Program, kernels: Sequence[str], measured: Mapping[str, tuple[int, int]]) -> int:
    """All layers with the exponents of their values; or the head, beside whose floats they were computed."""
    own = head_kernels(program.graph.head)
    layers = max(measured[name][1] for name in kernels if name not in own)
    inner = 2 * PREDICT_STACK + SCALE_BYTES * (1 + len(program.graph.nodes)) + SOURCE_BYTES + layers
    if not own:
        return inner
    outer = PREDICT_STACK + 4 * stack_len(program.graph.head, program.output_len)
    return outer + max(inner, PREDICT_STACK + max(MEASURED[name][1] for name in own))


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
    if not isinstance(weight, (Moments, Factored)):
        return 0
    if find(node.op).general == "conv_transposed":  # every element of the input meets the taps of its channel
        return int(prod(graph.values[node.inputs[0]].shape) * prod(weight.mean.shape[1:]))
    return int(prod(graph.values[node.name].shape) * prod(weight.mean.shape[1:]))
