"""LBNN_STRICT: the same bits on this host and on every emulated core, kernel by kernel and for whole models.

Every build by clang and zig asks for fused multiply-add (-ffp-contract=on, which gcc in ISO C takes for off), at
different levels of optimisation and widths of a block: the option has to hold whatever the compiler would like.
A NaN counts as equal to any other, since its sign and payload are the processor's own; a prediction never returns one.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from c_models import generated
from lbnn import nn as bnn
from lbnn.device.boards import BOARDS
from lbnn.device.compilers import TOOLCHAINS, CompileError
from lbnn.device.cores import CORES
from lbnn.device.devices import run_model
from lbnn.device.firmware import link_for_core
from lbnn.device.generated import GeneratedModel
from lbnn.device.unicorn import UnicornMachine
from lbnn.exporters.c.footprint import KERNELS
from lbnn.exporters.c.heads import HEAD_KERNELS
from lbnn.exporters.c.pack import pack_weights
from lbnn.exporters.c.pieces import pack_pieces
from lbnn.exporters.c.rank1 import pack_rank1
from lbnn.exporters.c.shapes import ConvShape, MaxPoolShape, PoolShape, SmallConvShape, small_shape
from lbnn.exporters.c.tabulated import pack_function
from lbnn.model.file import read_model
from lbnn.ops.pieces import make_pieces
from lbnn.ops.piecewise import PIECEWISE_EXAMPLES
from lbnn.ops.smooth import stored_table
from lbnn.ops.smooth_functions import FUNCTIONS
from lbnn.ops.stored_function import stored_function
from lbnn.ops.tabulated import TABLE_EXAMPLES
from places import ROOT, need
from rooms import Room, conv_room, shared_room
from thorough import THOROUGH, built_once, chosen, of_run

SOURCE = ROOT / "tests/c/all_kernels.c"
INPUTS = 100_000 if THOROUGH else 10_000  # numbers that a kernel reads as its input: means, variances, points
FUSING = ("-DLBNN_STRICT", "-std=c99", "-ffp-contract=on")

HOSTS = {
    "gcc-O3-native": ("gcc", "-O3", "-march=native"),
    "gcc-Os-scalar": ("gcc", "-Os", "-march=native", "-DLBNN_NO_SIMD"),
    "clang-O3-native": ("clang", "-O3", "-march=native"),
    "zig-O2": ("zig", "-O2"),
}
ARM_CORES = [name for name, core in CORES.items() if core.unicorn and core.family.name == "arm"]
REFERENCE = "gcc-O3-native"
OTHERS = chosen([name for name in HOSTS if name != REFERENCE], "gcc-Os-scalar", "zig-O2")
BUILDS = [(core, compiler) for core in ARM_CORES for compiler in ("zig", "gcc")]
TRIED = chosen(BUILDS, *(build for at, build in enumerate(BUILDS) if at % 8 in (0, 7)))
"""By turns zig and gcc, on every other core or so."""
MODEL_INPUTS = 1000
MODEL_DEVICES = [
    *("c-clang", "c-zig", "c-sanitized", "c-s390x"),
    *ARM_CORES,
    *(f"{core}-gcc" for core in ARM_CORES),
    *(name for name, board in BOARDS.items() if board.core.family.name == "arm"),
    *(name for name, core in CORES.items() if core.unicorn and core.family.name == "riscv"),
]
TOOLS = {
    "c-clang": ("clang",),
    "c-s390x": ("s390x-linux-gnu-gcc", "qemu-s390x"),
    **{f"{core}-gcc": ("arm-none-eabi-gcc",) for core in ARM_CORES},
    **dict.fromkeys(BOARDS, ("arm-none-eabi-gcc", "qemu-system-arm")),
}


# ---- inputs ----------------------------------------------------------------------------------------

Array = np.ndarray[Any, np.dtype[np.float32]]


def mixed(rng: np.random.Generator, *shape: int) -> Array:
    """Ordinary numbers, 30 orders of magnitude, denormals, huge ones, and zeros of both signs, side by side."""
    kinds = rng.integers(0, 5, shape)
    sizes = [rng.normal(size=shape), 10.0 ** rng.uniform(-20, 10, shape), 10.0 ** rng.uniform(-45, -38, shape)]
    sizes += [10.0 ** rng.uniform(14, 18, shape), np.zeros(shape)]
    return np.copysign(np.choose(kinds, sizes), rng.normal(size=shape)).astype(np.float32)


def tame(rng: np.random.Generator, *shape: int) -> Array:
    """One scale for the whole array, so that every term of a sum matters."""
    return (rng.normal(size=shape) * 10.0 ** rng.choice([-42, -18, -3, 0, 0, 0, 3, 9])).astype(np.float32)


def values(rng: np.random.Generator, *shape: int) -> Array:
    return (mixed if rng.random() < 0.3 else tame)(rng, *shape)


def spread(rng: np.random.Generator, *shape: int) -> Array:
    """Variances: any size, often that of ordinary values."""
    return np.abs(values(rng, *shape))


# ---- calls of kernels: arrays, structures and numbers in the order of the C arguments ---------------

Arguments = list[Any]


def pointwise(*arguments: Any) -> Callable[[np.random.Generator], Iterator[Arguments]]:
    """One call; a function of the generator and the count stands for an array."""

    def calls(rng: np.random.Generator) -> Iterator[Arguments]:
        yield [argument(rng, INPUTS) if callable(argument) else argument for argument in arguments]

    return calls


def positive(rng: np.random.Generator, count: int) -> Array:
    """Variances beside `mixed` means: a third of the ratios E / sigma within 15 of zero."""
    return np.abs(mixed(rng, count))


def near(rng: np.random.Generator, count: int) -> Array:
    return (rng.normal(size=count) * 4.0).astype(np.float32)


def unit(rng: np.random.Generator, count: int) -> Array:
    return rng.exponential(size=count).astype(np.float32)


def nothing(_: np.random.Generator, count: int) -> Array:
    return np.zeros(count, np.float32)


def activation(*numbers: float) -> Callable[[np.random.Generator], Iterator[Arguments]]:
    def calls(rng: np.random.Generator) -> Iterator[Arguments]:
        n = INPUTS // 4 + 1  # an odd number, so that a vector is left incomplete
        yield [near(rng, n), unit(rng, n), n, *numbers]
        yield [mixed(rng, n), positive(rng, n), n, *numbers]

    return calls


def piecewise(point: bool, *functions: dict[str, Any]) -> Callable[[np.random.Generator], Iterator[Arguments]]:
    """Each function on ordinary values, on values of any size, and on its own kinks."""

    def calls(rng: np.random.Generator) -> Iterator[Arguments]:
        n = INPUTS // ((3 if point else 6) * len(functions)) + 1
        for function in functions:
            pieces, on = make_pieces(**function), rng.choice(function["kinks"], n).astype(np.float32)
            for mean, var in ((near(rng, n), unit), (mixed(rng, n), positive), (on, positive)):
                arrays = [mean] if point else [mean, var(rng, n)]
                yield [*arrays, n, pack_pieces(pieces), len(pieces.kinks)]

    return calls


def smooth(rng: np.random.Generator) -> Iterator[Arguments]:
    for number, function in enumerate(FUNCTIONS):
        n, table = INPUTS // 20 + 1, stored_table(function).astype(np.float32)
        yield [near(rng, n), unit(rng, n), n, table, number, 1.0]
        yield [mixed(rng, n), positive(rng, n), n, table, number, 2.5]


def smooth_point(rng: np.random.Generator) -> Iterator[Arguments]:
    for number in range(len(FUNCTIONS)):
        yield [near(rng, INPUTS // 10), INPUTS // 10, number, 2.5]
        yield [mixed(rng, INPUTS // 10), INPUTS // 10, number, 1.0]


def tabulated(point: bool) -> Callable[[np.random.Generator], Iterator[Arguments]]:
    """Within the table and anywhere, with variances below and above a cell."""

    def calls(rng: np.random.Generator) -> Iterator[Arguments]:
        n = INPUTS // (6 if point else 24) + 1
        for function in (stored_function(**attrs) for attrs in TABLE_EXAMPLES):
            for mean, var in ((near(rng, n), unit), (near(rng, n), positive), (mixed(rng, n), positive)):
                arrays = [mean] if point else [mean, var(rng, n)]
                yield [*arrays, n, pack_function(function).astype(np.float32), function.count]

    return calls


def linear(point: bool, rank1: bool = False) -> Callable[[np.random.Generator], Iterator[Arguments]]:
    def calls(rng: np.random.Generator) -> Iterator[Arguments]:
        for number in range(INPUTS // 500 + 1):
            inputs, outputs = 500, (1, 2, 3, 11)[number % 4]
            means = [values(rng, inputs)] if point else [values(rng, inputs), spread(rng, inputs)]
            yield [*means, *weights(rng, outputs, inputs, rank1=rank1), *results(outputs), inputs, outputs]

    return calls


def weights(rng: np.random.Generator, outputs: int, *inputs: int, groups: int = 1, rank1: bool = False) -> list[Array]:
    """Means and variances, or means and the factors of variances."""
    shape = (outputs, *inputs)
    mean, var = rng.normal(size=shape).astype(np.float32), rng.exponential(size=shape).astype(np.float32)
    bias, bias_var = values(rng, outputs), spread(rng, outputs)
    if rank1:
        factors = rng.exponential(size=outputs + groups * prod(inputs)).astype(np.float32)
        return [pack_rank1(mean, bias, bias_var, groups), np.concatenate([factors, np.zeros(7, np.float32)])]
    return [pack_weights(mean, var, bias, bias_var, groups)]


def results(size: int) -> list[Array]:
    return [np.full(size, -7.0, np.float32) for _ in range(2)]


def conv(
    point: bool, *shapes: ConvShape, rank1: bool = False, fast: str = ""
) -> Callable[[np.random.Generator], Iterator[Arguments]]:
    """Calls of a convolution; `fast` is the kernel of a form that takes scratch."""

    def calls(rng: np.random.Generator) -> Iterator[Arguments]:
        given = 0
        while given < INPUTS:
            s = shapes[int(rng.integers(len(shapes)))]
            size = s.in_channels * s.in_height * s.in_width
            means = [values(rng, size)] if point else [values(rng, size), spread(rng, size)]
            given += size * len(means)
            kernel = (s.in_channels // s.groups, s.kernel_height, s.kernel_width)
            packed = weights(rng, s.out_channels, *kernel, groups=s.groups, rank1=rank1)
            shared = [shared_room((fast or "lbnn_conv2d") + "_rank1" + "_point" * point, s)] if rank1 else []
            more = [prod(kernel)] if rank1 else conv_room(fast + "_point" * point, s) if fast else []
            yield [*means, *packed, *results(s.out_channels * s.out_height * s.out_width), *shared, s, *more]

    return calls


def small(*shapes: ConvShape) -> Callable[[np.random.Generator], Iterator[Arguments]]:
    """The calls of lbnn_conv2d with the shape in its small form."""

    def calls(rng: np.random.Generator) -> Iterator[Arguments]:
        yield from ([*arguments, small_shape(s)] for *arguments, s in conv(False, *shapes)(rng))

    return calls


def pool(point: bool, *shapes: PoolShape | MaxPoolShape) -> Callable[[np.random.Generator], Iterator[Arguments]]:
    def calls(rng: np.random.Generator) -> Iterator[Arguments]:
        for shape in shapes:
            size = shape.channels * shape.in_height * shape.in_width
            outputs = results(shape.channels * shape.out_height * shape.out_width)
            moments = (
                [tame(rng, size), spread(rng, size)] if shape is GLOBAL else [mixed(rng, size), positive(rng, size)]
            )
            yield [moments[0], outputs[0], shape] if point else [*moments, *outputs, shape]

    return calls


def same(channels: int, height: int, width: int, out: int, kernel: int, groups: int = 1) -> ConvShape:
    pad = kernel // 2
    return ConvShape(channels, height, width, out, height, width, kernel, kernel, 1, 1, pad, pad, 1, 1, groups)


def halved(channels: int, height: int, width: int, out: int, kernel: int, groups: int = 1) -> ConvShape:
    """Stride 2; kernels of more than one tap have a row and a column of padding behind the input alone."""
    sizes = [(size + (kernel > 1) - kernel) // 2 + 1 for size in (height, width)]
    return ConvShape(channels, height, width, out, *sizes, kernel, kernel, 2, 2, 0, 0, 1, 1, groups)


HEAD_SHARES = {
    "lbnn_softmax": 50,
    "lbnn_softmax_fast": 4,
    "lbnn_sigmoid": 10,
    "lbnn_max_pool": 2,
    "lbnn_max_pool_2x2": 2,
    "lbnn_tabulated": 2,
}
"""Such a kernel takes as long for a number as an activation for so many (docs/classification.md, docs/layers.md)."""


def head(name: str, count: int) -> Callable[[np.random.Generator], Iterator[Arguments]]:
    """Logits of every size in rows of up to 19, as `_predict` lets them pass: finite, with variances."""

    def calls(rng: np.random.Generator) -> Iterator[Arguments]:
        for number in range(count):
            k = int(rng.integers(2, 20))
            mean, var = (near(rng, k), unit(rng, k)) if number % 2 else (values(rng, k), spread(rng, k))
            scratch = np.full(HEAD_KERNELS[name].scratch * k, -7.0, np.float32)
            yield [mean, var, np.full(k, -7.0, np.float32), np.full(2, -7.0, np.float32), scratch, k]

    return calls


def ring(floats: int, slots: int, *after: Any) -> Callable[[np.random.Generator], Iterator[Arguments]]:
    """A ring at positions of its own and at one that is none, and the other arguments."""

    def calls(rng: np.random.Generator) -> Iterator[Arguments]:
        for position in sorted({0, 1, slots // 2, slots - 2, slots - 1, slots}):
            memory = values(rng, 1 + floats)
            memory[:1] = np.array([position], np.uint32).view(np.float32)
            yield [memory, *(argument(rng, 10_000) if callable(argument) else argument for argument in after)]

    return calls


ODD = ConvShape(2, 9, 10, 3, 5, 12, 2, 3, 2, 1, 1, 3, 1, 2, 1)
GROUPED = ConvShape(4, 6, 5, 10, 6, 5, 3, 3, 1, 1, 1, 1, 1, 1, 2)
DEEP = ConvShape(7, 4, 5, 9, 4, 5, 5, 5, 1, 1, 2, 2, 1, 1, 1)  # sums of several parts
SPREAD = ConvShape(3, 7, 9, 9, 15, 26, 4, 3, 2, 3, 1, 1, 1, 1, 1)  # transposed: a result that is larger
SPREAD_GROUPS = ConvShape(4, 6, 5, 10, 21, 9, 3, 2, 4, 2, 1, 1, 1, 1, 2)
SPREAD_DEEP = ConvShape(40, 3, 4, 5, 6, 8, 4, 4, 2, 2, 1, 1, 1, 1, 1)
POOLED = PoolShape(10, 100, 100, 34, 34, 3, 3, 3, 3, 1, 1, 0)
GLOBAL = PoolShape(10, 100, 100, 1, 1, 100, 100, 1, 1, 0, 0, 1)
HALVED = PoolShape(10, 100, 100, 50, 50, 2, 2, 2, 2, 0, 0, 1)
LARGEST = MaxPoolShape(3, 100, 100, 34, 34, 3, 3, 3, 3, 1, 1, 1, 1)
LARGEST_APART = MaxPoolShape(1, 40, 30, 20, 16, 4, 5, 2, 2, 2, 2, 1, 2)
LARGEST_HALVED = MaxPoolShape(3, 100, 100, 50, 50, 2, 2, 2, 2, 0, 0, 1, 1)
CHANNELS = 100


def per_channel(rng: np.random.Generator, _: int) -> Array:
    return values(rng, CHANNELS)


SAMES = (same(4, 8, 9, 2, 3), same(1, 5, 4, 10, 3), same(17, 3, 6, 5, 3))
SINGLES = (same(8, 7, 6, 2, 1), same(4, 1, 5, 11, 1), same(150, 1, 6, 2, 1))
PATCHES = (ODD, DEEP, halved(9, 8, 6, 12, 3))
APART = tuple(shape(6, 7, width, 6, 3, groups=6) for shape in (same, halved) for width in (7, 9, 12))

CALLS: dict[str, Callable[[np.random.Generator], Iterator[Arguments]]] = {
    "lbnn_linear": linear(point=False),
    "lbnn_linear_point": linear(point=True),
    "lbnn_linear_rank1": linear(point=False, rank1=True),
    "lbnn_linear_rank1_point": linear(point=True, rank1=True),
    "lbnn_conv2d_rank1": conv(False, ODD, GROUPED, DEEP, rank1=True),
    "lbnn_conv2d_rank1_point": conv(True, ODD, GROUPED, DEEP, rank1=True),
    "lbnn_conv2d_3x3_rank1": conv(False, *SAMES, rank1=True, fast="lbnn_conv2d_3x3"),
    "lbnn_conv2d_3x3_rank1_point": conv(True, *SAMES, rank1=True, fast="lbnn_conv2d_3x3"),
    "lbnn_conv2d_1x1_rank1": conv(False, *SINGLES, rank1=True, fast="lbnn_conv2d_1x1"),
    "lbnn_conv2d_1x1_rank1_point": conv(True, *SINGLES, rank1=True, fast="lbnn_conv2d_1x1"),
    "lbnn_conv2d_patch_rank1": conv(False, *PATCHES, rank1=True, fast="lbnn_conv2d_patch"),
    "lbnn_conv2d_patch_rank1_point": conv(True, *PATCHES, rank1=True, fast="lbnn_conv2d_patch"),
    "lbnn_conv2d": conv(False, ODD, GROUPED, DEEP),
    "lbnn_conv2d_point": conv(True, ODD, GROUPED, DEEP),
    "lbnn_conv2d_3x3": conv(False, *SAMES, fast="lbnn_conv2d_3x3"),
    "lbnn_conv2d_3x3_point": conv(True, *SAMES, fast="lbnn_conv2d_3x3"),
    "lbnn_conv2d_1x1": conv(False, *SINGLES, fast="lbnn_conv2d_1x1"),
    "lbnn_conv2d_1x1_point": conv(True, *SINGLES, fast="lbnn_conv2d_1x1"),
    "lbnn_conv2d_patch": conv(False, *PATCHES, fast="lbnn_conv2d_patch"),
    "lbnn_conv2d_patch_point": conv(True, *PATCHES, fast="lbnn_conv2d_patch"),
    "lbnn_conv2d_small": small(ODD, GROUPED, DEEP),
    "lbnn_conv_transposed": conv(False, SPREAD, SPREAD_GROUPS, SPREAD_DEEP),
    "lbnn_conv_transposed_point": conv(True, SPREAD, SPREAD_GROUPS, SPREAD_DEEP),
    "lbnn_depthwise_3x3": conv(False, *APART, fast="lbnn_depthwise_3x3"),
    "lbnn_depthwise_3x3_point": conv(True, *APART, fast="lbnn_depthwise_3x3"),
    "lbnn_avg_pool": pool(False, POOLED, GLOBAL),
    "lbnn_avg_pool_point": pool(True, POOLED, GLOBAL),
    "lbnn_avg_pool_correlated": pool(False, POOLED, GLOBAL),
    "lbnn_avg_pool_2x2": pool(False, HALVED),
    "lbnn_avg_pool_2x2_point": pool(True, HALVED),
    "lbnn_max_pool": pool(False, LARGEST, LARGEST_APART),
    "lbnn_max_pool_point": pool(True, replace(LARGEST, channels=10), LARGEST_APART),
    "lbnn_max_pool_2x2": pool(False, LARGEST_HALVED),
    "lbnn_max_pool_2x2_point": pool(True, replace(LARGEST_HALVED, channels=10)),
    "lbnn_leaky_relu": activation(0.01),
    "lbnn_leaky_relu_clamped": activation(0.01, 3.0),
    "lbnn_leaky_relu_point": pointwise(mixed, INPUTS, 0.1),
    "lbnn_abs": activation(),
    "lbnn_elu": activation(1.5, 0.75, 1.05),
    "lbnn_elu_point": pointwise(mixed, INPUTS, 1.5, 0.75, 1.05),
    "lbnn_smooth": smooth,
    "lbnn_smooth_point": smooth_point,
    "lbnn_tabulated": tabulated(False),
    "lbnn_tabulated_point": tabulated(True),
    "lbnn_abs_point": pointwise(mixed, INPUTS),
    "lbnn_hardswish": activation(),
    "lbnn_hardswish_point": pointwise(mixed, INPUTS),
    "lbnn_piecewise": piecewise(False, *PIECEWISE_EXAMPLES),
    "lbnn_piecewise_point": piecewise(True, *PIECEWISE_EXAMPLES),
    "lbnn_affine": pointwise(mixed, positive, per_channel, per_channel, CHANNELS, INPUTS // CHANNELS),
    "lbnn_affine_point": pointwise(mixed, per_channel, per_channel, CHANNELS, INPUTS // CHANNELS),
    "lbnn_add": pointwise(mixed, positive, mixed, positive, nothing, nothing, INPUTS),
    "lbnn_add_points": pointwise(mixed, mixed, nothing, INPUTS),
    "lbnn_shift": pointwise(mixed, positive, mixed, nothing, nothing, INPUTS),
    "lbnn_multiply": pointwise(mixed, positive, mixed, positive, nothing, nothing, 10, INPUTS // 10, INPUTS // 10, 1),
    "lbnn_multiply_known": pointwise(mixed, positive, mixed, nothing, nothing, 10, INPUTS // 10, 1, INPUTS // 10),
    "lbnn_multiply_point": pointwise(mixed, mixed, nothing, INPUTS, 1, 1, 1),
    "lbnn_copy": pointwise(mixed, nothing, INPUTS),
    "lbnn_concat": pointwise(mixed, nothing, 10, INPUTS // 20, INPUTS // 10),
    "lbnn_pad": pointwise(mixed, lambda rng, n: nothing(rng, 2 * n), 10, 100, INPUTS // 1000, 1, 2, 0, 3),
    "lbnn_upsample": pointwise(mixed, lambda rng, n: nothing(rng, 6 * n), 10, 100, INPUTS // 1000, 2, 3),
    "lbnn_dropout": pointwise(mixed, positive, INPUTS, 1.25, 0.25),
    "lbnn_dropout_point": pointwise(mixed, nothing, nothing, INPUTS, 0.25),
    "lbnn_lift": pointwise(mixed, INPUTS),
    "lbnn_softmax": head("softmax", 30),
    "lbnn_softmax_fast": head("softmax_fast", 800),
    "lbnn_sigmoid": head("sigmoid", 350),
    "lbnn_largest": pointwise(mixed, INPUTS),
    "lbnn_variance_head": pointwise(mixed, positive, nothing, nothing, INPUTS // 4),
    "lbnn_variance_head_point": pointwise(near, nothing, nothing, INPUTS // 2),
    "lbnn_due": ring(INPUTS // 5, 9, 7, 3),
    "lbnn_ring_take": ring(600 * 12, 12, values, nothing, 600, 5, 3),
    "lbnn_ring_read": ring(1000 * 9, 9, nothing, 1000, 9, 7),
    "lbnn_ring_put": ring(1000 * 9, 9, values, 1000, 9),
    "lbnn_ring_sum": ring(2 * 10_000, 290, spread, 10_000, 289, 290, 1),
    "lbnn_ring_mean": ring(2 * 10_000, 9, nothing, 10_000, 289, 2),
    "lbnn_is_finite": pointwise(mixed, INPUTS),
    "lbnn_is_variance": pointwise(positive, INPUTS),
    "lbnn_emit": pointwise(mixed, positive, nothing, nothing, INPUTS),
}


# ---- machines: what all arrays hold after a call ----------------------------------------------------


@dataclass(frozen=True)
class Host:
    """The kernels in this process."""

    library: ctypes.CDLL

    def call(self, name: str, arguments: Arguments) -> list[Array]:
        arrays = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        getattr(self.library, name)(*map(_c_argument, arrays))
        return [array for array in arrays if isinstance(array, np.ndarray)]


def _c_argument(value: Any) -> Any:
    if isinstance(value, Room):
        value = value.array()
    if isinstance(value, np.ndarray):
        return value.ctypes.data_as(ctypes.c_void_p)
    if isinstance(value, ConvShape | PoolShape | MaxPoolShape):
        members, kind = astuple(value), ctypes.c_uint16 if isinstance(value, SmallConvShape) else ctypes.c_int
        return ctypes.byref((kind * len(members))(*members))
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int(value)


@dataclass(frozen=True)
class Emulated:
    """The kernels on a core."""

    machine: UnicornMachine

    def call(self, name: str, arguments: Arguments) -> list[Array]:
        self.machine.free_buffers()
        placed = [self._place(argument) for argument in arguments]
        self.machine.call(name, *placed)
        pairs = zip(placed, arguments, strict=True)
        return [self.machine.read(at, array.size) for at, array in pairs if isinstance(array, np.ndarray)]

    def _place(self, value: Any) -> Any:
        if isinstance(value, Room):
            value = value.array()
        if isinstance(value, ConvShape | PoolShape | MaxPoolShape):
            value = np.array(astuple(value), np.uint16 if isinstance(value, SmallConvShape) else np.int32)
        if not isinstance(value, np.ndarray):
            return value
        address = self.machine.alloc(value.size)
        self.machine.write(address, value)
        return address


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_run(tmp_path_factory, "strict")


@lru_cache(maxsize=8)
def host(name: str, folder: Path) -> Host:
    compiler, *flags = HOSTS[name]
    if compiler != "zig":
        need(compiler)
    given = (*FUSING, *flags, "-DLBNN_KERNEL=")
    path = built_once(
        folder / f"{name}.so",
        lambda out: TOOLCHAINS[compiler].compile_shared([SOURCE], out, given, [ROOT / "c_runtime"]),
    )
    return Host(ctypes.CDLL(str(path)))


@lru_cache(maxsize=16)
def emulated(core: str, compiler: str, folder: Path) -> Emulated:
    if compiler == "gcc":
        need("arm-none-eabi-gcc")
    given = (*FUSING, "-DLBNN_KERNEL=")
    out, include = folder / f"{core}-{compiler}.elf", [ROOT / "c_runtime"]
    return Emulated(
        UnicornMachine(link_for_core(CORES[core], [SOURCE], out, sorted(CALLS), given, include, compiler), CORES[core])
    )


@lru_cache(maxsize=64)
def calls(name: str, folder: Path) -> list[tuple[Arguments, list[Array]]]:
    """The arguments of each call and what its arrays hold afterwards."""
    reference = host(REFERENCE, folder)
    return [(arguments, reference.call(name, arguments)) for arguments in CALLS[name](np.random.default_rng(1))]


def bits(array: Array) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.where(np.isnan(array), np.uint32(0x7FC00000), array.view(np.uint32))


def assert_same_bits(machine: Host | Emulated, name: str, folder: Path, every: int = 1) -> None:
    for arguments, wanted in calls(name, folder)[::every]:
        for got, want in zip(machine.call(name, arguments), wanted, strict=True):
            different = np.flatnonzero(bits(got) != bits(want))
            assert not different.size, (name, different.size, got[different[:4]], want[different[:4]])


def test_every_kernel_is_here() -> None:
    assert set(CALLS) == set(KERNELS) - {"lbnn_status_message"}


@pytest.mark.parametrize("name", CALLS)
def test_each_kernel_gets_as_many_inputs_as_it_should(name: str, folder: Path) -> None:
    given = [a for arguments, _ in calls(name, folder) for a in arguments if isinstance(a, np.ndarray)]
    assert sum(array.size for array in given) >= INPUTS // HEAD_SHARES.get(name, 1)


@pytest.mark.parametrize("build", OTHERS)
def test_compilers_of_the_host_agree(build: str, folder: Path) -> None:
    for name in CALLS:
        assert_same_bits(host(build, folder), name, folder)


@pytest.mark.parametrize(("core", "compiler"), TRIED)
def test_cores_compute_the_bits_of_the_host(core: str, compiler: str, folder: Path) -> None:
    """Soft float takes a hundred instructions an operation: linear layers and convolutions get every tenth call."""
    machine = emulated(core, compiler, folder)
    for name in CALLS:
        sums = name.startswith(("lbnn_linear", "lbnn_conv", "lbnn_depthwise"))
        assert_same_bits(machine, name, folder, every=10 if sums and not CORES[core].hard_float else 1)


# ---- whole models ----------------------------------------------------------------------------------


def mlp() -> tuple[Any, tuple[int, ...]]:
    return bnn.Sequential(
        bnn.Linear(4, 9), bnn.LeakyReLU(0.01), bnn.Linear(9, 5), bnn.ReLU(), bnn.Linear(5, 4), bnn.VarianceHead()
    ), (4,)


def cnn() -> tuple[Any, tuple[int, ...]]:
    return bnn.Sequential(
        bnn.Conv2d(1, 2, 3, padding=1),
        bnn.LeakyReLU(0.1),
        bnn.AvgPool2d(2),
        bnn.Conv2d(2, 3, 3),
        bnn.LeakyReLU(0.1, clamp=3.0),
        bnn.Flatten(),
        bnn.Linear(3, 2),
    ), (1, 6, 6)


Answers = tuple[GeneratedModel, Array, Any]


def predictions(device: str, net: GeneratedModel, inputs: Array, *flags: str) -> np.ndarray[Any, np.dtype[np.uint32]]:
    result = run_model(device, net, inputs, flags=(*FUSING, *flags))
    assert not result.status.any() and np.isfinite(result.mean).all() and np.isfinite(result.variance).all()
    return np.concatenate([result.mean, result.variance], axis=1).view(np.uint32)


@pytest.fixture(scope="module", params=[mlp, cnn], ids=["mlp", "cnn"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """A folder of generated C, a thousand inputs, and what gcc computes for them here."""
    torch.manual_seed(5)
    network, shape = request.param()
    net = generated(read_model(network, shape), tmp_path_factory.mktemp("model") / "c", name="net")
    rng = np.random.default_rng(2)
    inputs = np.stack([values(rng, int(np.prod(shape))) for _ in range(MODEL_INPUTS)])
    need("gcc")
    return net, inputs, predictions("c-gcc", net, inputs, "-O3", "-march=native")


def test_a_thousand_inputs_give_a_thousand_answers(model: Answers) -> None:
    assert len(np.unique(model[2], axis=0)) > 0.7 * MODEL_INPUTS  # tiny inputs give the answer for zero


@pytest.mark.parametrize("device", MODEL_DEVICES)
def test_a_model_gives_the_same_bits_on_every_device(device: str, model: Answers) -> None:
    net, inputs, wanted = model
    for tool in TOOLS.get(device, ()):
        need(tool)
    assert np.array_equal(predictions(device, net, inputs), wanted)


def test_fast_math_is_refused(tmp_path: Path) -> None:
    """The option cannot be kept there, so it does not compile."""
    for compiler in ("gcc", "clang"):
        need(compiler)
        with pytest.raises(CompileError, match="without -ffast-math"):
            flags = ("-DLBNN_STRICT", "-ffast-math")
            TOOLCHAINS[compiler].compile_shared([SOURCE], tmp_path / "no.so", flags, [ROOT / "c_runtime"])


@pytest.mark.parametrize("language", ["-std=gnu99", "-xc++ -std=c++11"])
def test_gcc_that_would_fuse_is_refused_and_told_how_to_go_on(language: str, tmp_path: Path) -> None:
    """It fuses unless told otherwise in GNU C and in C++, wherever the processor can."""
    with pytest.raises(CompileError, match="-ffp-contract=off -DLBNN_NO_CONTRACTION"):
        compile_headers("gcc", f"{language} -mfma", tmp_path)
    compile_headers("gcc", f"{language} -mfma -ffp-contract=off -DLBNN_NO_CONTRACTION", tmp_path)
    compile_headers("gcc", f"{language} -mno-fma", tmp_path)
    compile_headers("gcc", "-std=c99 -mfma", tmp_path)


def compile_headers(compiler: str, flags: str, folder: Path) -> None:
    need(compiler)
    given = ("-O0", "-DLBNN_STRICT", "-DLBNN_KERNEL=", *flags.split())
    TOOLCHAINS[compiler].compile_shared([SOURCE], folder / "headers.so", given, [ROOT / "c_runtime"])


# A user who lies about contraction shows best that the headers leave it alone.
FUSED_BY_THE_USER = {
    "gcc": "-std=gnu99 -ffp-contract=fast -DLBNN_NO_CONTRACTION",
    "clang": "-std=gnu99 -ffp-contract=on",
}


@pytest.mark.parametrize("compiler", FUSED_BY_THE_USER)
def test_code_behind_the_headers_is_compiled_as_without_them(compiler: str, tmp_path: Path) -> None:
    """The user's own function, fused as the flags say, is the same with and without the runtime in front of it."""
    function = "float user(float a, float b, float c);\nfloat user(float a, float b, float c) { return a * b + c; }\n"
    flags = f"-O2 -mfma -DLBNN_STRICT {FUSED_BY_THE_USER[compiler]}"
    bare, behind = (instructions(compiler, flags, text + function, tmp_path) for text in ("", SOURCE.read_text()))
    assert bare == behind and any("fmadd" in line for line in bare)


def instructions(compiler: str, flags: str, text: str, folder: Path) -> list[str]:
    """Those of the function `user`."""
    source = folder / "user.c"
    source.write_text(text)
    command = [need(compiler), *flags.split(), f"-I{ROOT / 'c_runtime'}", "-S", "-o", "-", str(source)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    body = listing.partition("\nuser:")[2].partition(".size\tuser")[0]
    return [line for line in body.splitlines() if line.startswith("\t") and not line.startswith("\t.")]


def test_without_the_option_the_bits_may_differ(folder: Path) -> None:
    """Which is why there is one: this build fuses multiply and add."""
    machine = plain_m4(folder)
    with pytest.raises(AssertionError):
        assert_same_bits(machine, "lbnn_linear", folder)


def plain_m4(folder: Path) -> Emulated:
    need("arm-none-eabi-gcc")
    core, given = CORES["cortex-m4"], ("-std=gnu99", "-DLBNN_KERNEL=")
    elf = link_for_core(core, [SOURCE], folder / "plain.elf", ["lbnn_linear"], given, [ROOT / "c_runtime"], "gcc")
    return Emulated(UnicornMachine(elf, core))
