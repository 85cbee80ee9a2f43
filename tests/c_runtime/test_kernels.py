"""The C kernels against float64 and 50-digit mathematics, in every build that a user may choose."""

from __future__ import annotations

import ctypes
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from elu_oracle import elu_moments
from gumbel import all_rows, quadrature
from hardswish_oracle import hardswish_moments, hardswish_places
from largest import pooled_moments
from lbnn import ops
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.exporters.c.heads import HEAD_KERNELS
from lbnn.exporters.c.pack import least_pad, pack_weights, packed_length
from lbnn.exporters.c.pieces import pack_pieces
from lbnn.exporters.c.rank1 import pack_rank1
from lbnn.exporters.c.shapes import (
    ConvShape,
    MaxPoolShape,
    PoolShape,
    SmallConvShape,
    conv_kernel,
    factored_kernel,
    in_place,
    max_pool_kernel,
    pool_kernel,
    small_shape,
)
from lbnn.exporters.c.tabulated import pack_function
from lbnn.graph.reference import NUMPY
from lbnn.ops import OPS
from lbnn.ops.elu import ELU_EXAMPLES
from lbnn.ops.heads import find_head
from lbnn.ops.pieces import make_pieces
from lbnn.ops.piecewise import PIECEWISE_EXAMPLES
from lbnn.ops.smooth import stored_table
from lbnn.ops.smooth_functions import FUNCTIONS
from lbnn.ops.stored_function import stored_function
from lbnn.ops.tabulated import TABLE_EXAMPLES
from oracles import piecewise_moments
from places import ROOT, need
from rooms import Room, conv_room, shared_room
from smooth_errors import true_moments
from thorough import built_once, chosen, of_run
from transposed import TRANSPOSED, Transposed, transposed_case

SOURCE, PLAIN = ROOT / "tests/c/all_kernels.c", ROOT / "tests/c/plain_kernels.c"
WARNINGS = (
    "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wdouble-promotion -Wfloat-conversion -Wshadow -Werror"
)

BUILDS = {
    "gcc-O0": "gcc -std=c99 -O0",
    "gcc-O2": "gcc -std=gnu99 -O2 -fno-math-errno",
    "gcc-O3-native": "gcc -std=gnu99 -O3 -march=native -fno-math-errno",
    "gcc-Os-size": "gcc -std=c99 -Os -DLBNN_OPTIMIZE_SIZE",
    "gcc-Os-size-scalar": "gcc -std=c99 -Os -DLBNN_OPTIMIZE_SIZE -DLBNN_NO_SIMD",
    "gcc-fast-math": "gcc -std=c99 -O3 -march=native -ffast-math",
    "gcc-scalar": "gcc -std=c99 -O2 -DLBNN_NO_SIMD",
    "gcc-scalar-4": "gcc -std=c99 -O2 -DLBNN_NO_SIMD -DLBNN_BLOCK=4",
    "gcc-scalar-fast-math": "gcc -std=c99 -O3 -ffast-math -DLBNN_NO_SIMD",
    "gcc-libm": "gcc -std=c99 -O2 -DLBNN_USE_LIBM",
    "gcc-sanitized": "gcc -std=c99 -O1 -DLBNN_NO_SIMD -fsanitize=undefined,float-cast-overflow -fno-sanitize-recover",
    "clang-O2": "clang -std=c99 -O2",
    "clang-fast-math": "clang -std=c99 -O3 -march=native -ffast-math",
    "g++": "g++ -x c++ -std=c++11 -O2 -fpermissive",
}
TRIED = chosen(
    BUILDS,
    *(
        "gcc-O3-native",
        "gcc-Os-size",
        "gcc-scalar",
        "gcc-scalar-4",
        "gcc-scalar-fast-math",
        "gcc-sanitized",
        "clang-O2",
    ),
)
STRICT_BUILDS = {
    "gcc-O0": "gcc -std=gnu99 -O0",
    "gcc-O3-native": "gcc -std=c99 -O3 -march=native",
    "gcc-scalar-Os": "gcc -std=c99 -Os -march=native -DLBNN_NO_SIMD",
    "gcc-size": "gcc -std=gnu99 -O2 -march=native -ffp-contract=off -DLBNN_NO_CONTRACTION -DLBNN_OPTIMIZE_SIZE",
    "gcc-fma": "gcc -std=c99 -O2 -mfma",
    "clang-O3-native": "clang -std=gnu99 -O3 -march=native",
}


class Kernels:
    """A compiled library of all kernels, called with numpy arrays and Python numbers."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))

    def __call__(self, name: str, *arguments: Any) -> int:
        return int(getattr(self.library, name)(*map(_c_argument, arguments)))


def _c_argument(value: Any) -> Any:
    if isinstance(value, Room):
        value = value.array()
    if isinstance(value, np.ndarray):
        assert value.dtype == np.float32 and value.flags.c_contiguous
        return value.ctypes.data_as(ctypes.c_void_p)
    if isinstance(value, ConvShape | PoolShape | MaxPoolShape):
        members, kind = astuple(value), ctypes.c_uint16 if isinstance(value, SmallConvShape) else ctypes.c_int
        return ctypes.byref((kind * len(members))(*members))
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int(value)


@lru_cache(maxsize=64)
def compile_kernels(command: str, folder: Path, source: Path = SOURCE) -> Kernels:
    name = f"{source.stem}_{sha256(command.encode()).hexdigest()[:16]}.so"
    return Kernels(built_once(folder / name, lambda path: build_kernels(command, source, path)))


def build_kernels(command: str, source: Path, path: Path) -> None:
    compiler, *flags = shlex.split(command)
    need(compiler)
    exported = "-DLBNN_KERNEL=" if compiler != "g++" else '-DLBNN_KERNEL=extern "C"'
    compiled = path.with_suffix(".o")
    fixed = [*WARNINGS.split(), "-fPIC", f"-I{ROOT / 'c_runtime'}", exported]
    subprocess.run([compiler, *flags, *fixed, "-c", str(source), "-o", str(compiled)], check=True)
    # Linked without -ffast-math, which would make the whole process flush denormals to zero.
    linked = [flag for flag in flags if flag.startswith("-fsanitize")]
    subprocess.run([compiler, *linked, "-shared", str(compiled), "-o", str(path), "-lm"], check=True)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kernels_folder(tmp_path_factory)


def kernels_folder(temporary: pytest.TempPathFactory) -> Path:
    """One for all modules and processes, so that none compiles again what another has."""
    return of_run(temporary, "kernels")


@pytest.fixture(params=TRIED, scope="session")
def kernels(request: pytest.FixtureRequest, folder: Path) -> Kernels:
    return compile_kernels(BUILDS[request.param], folder)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def positive(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).exponential(size=shape).astype(np.float32)


def empty(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float32)


def assert_moments(mean: Any, var: Any, true_mean: Any, true_var: Any, tolerance: float = 3e-6) -> None:
    """The parity metric: errors of the mean in units of |E| + sigma, of the variance relative."""
    true_mean, true_var = np.asarray(true_mean, np.float64), np.asarray(true_var, np.float64)
    assert mean.shape == true_mean.shape and np.isfinite(mean).all() and np.isfinite(var).all()
    assert np.max(np.abs(mean - true_mean) / (np.abs(true_mean) + np.sqrt(true_var))) <= tolerance
    assert np.max(np.abs(var - true_var) / true_var) <= tolerance


def double(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(x).double()


# ---- weights -------------------------------------------------------------------------------------


def test_packing_puts_bias_and_inputs_in_rows_of_eight_outputs() -> None:
    mean = np.arange(20, dtype=np.float32).reshape(10, 2)
    packed = pack_weights(mean, mean + 100, np.arange(10, dtype=np.float32) + 200)
    assert packed.dtype == np.float32 and len(packed) == packed_length(10, 2)
    assert packed[:16].tolist() == [*range(200, 208), *[0] * 8]
    assert packed[16:32].tolist() == [*range(0, 16, 2), *range(100, 116, 2)]
    assert packed[48:60].tolist() == [208, 209, 0, 0, 16, 18, 116, 118, 17, 19, 117, 119]
    assert packed[60:].tolist() == [0] * 7


def test_blocks_never_cross_groups() -> None:
    weight = np.arange(6, dtype=np.float32).reshape(6, 1, 1, 1)
    first, second, third = pack_weights(weight, -weight, groups=3)[:-7].reshape(3, 8).tolist()
    assert first == [0, 0, 0, 0, 0, 1, 0, -1]
    assert second == [0, 0, 0, 0, 2, 3, -2, -3]
    assert third == [0, 0, 0, 0, 4, 5, -4, -5]


def test_the_least_padding_completes_the_last_block() -> None:
    assert [least_pad(outputs) for outputs in (1, 7, 8, 10, 16)] == [7, 1, 0, 6, 0]
    assert least_pad(12, groups=2) == 2
    weight = np.ones((10, 2), np.float32)
    assert len(pack_weights(weight, weight, pad=least_pad(10))) == packed_length(10, 2) - 1


# ---- linear --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (1, 128), (5, 3), (16, 64), (64, 1), (13, 7), (9, 12), (256, 10), (784, 33)])
def test_linear(kernels: Kernels, shape: tuple[int, int]) -> None:
    inputs, outputs = shape
    e, v, mu, var = random(inputs), positive(inputs), random(outputs, inputs, seed=2), positive(outputs, inputs)
    bias, bias_var = random(outputs, seed=3), positive(outputs, seed=4)
    packed = pack_weights(mu, var, bias, bias_var)
    e64, v64, mu64, var64 = (a.astype(np.float64) for a in (e, v, mu, var))

    mean, spread = empty(outputs)
    kernels("lbnn_linear", e, v, packed, mean, spread, inputs, outputs)
    assert_moments(mean, spread, bias + mu64 @ e64, bias_var + var64 @ (v64 + e64**2) + mu64**2 @ v64)

    kernels("lbnn_linear_point", e, packed, mean, spread, inputs, outputs)
    assert_moments(mean, spread, bias + mu64 @ e64, bias_var + var64 @ e64**2)


# ---- convolution ---------------------------------------------------------------------------------

# in channels, height, width, out channels, kernel, stride, padding (or before and behind), dilation, groups
CONVOLUTIONS = [
    (1, 16, 16, 8, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (8, 8, 8, 16, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (3, 5, 7, 6, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 1, 4, 2, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 6, 9, 10, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 6, 3, 4, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 6, 9, 5, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (4, 7, 6, 4, (3, 3), (1, 1), (1, 1), (1, 1), 4),
    (5, 4, 4, 5, (3, 3), (1, 1), (1, 1), (1, 1), 5),
    (4, 7, 6, 8, (3, 3), (1, 1), (1, 1), (1, 1), 4),
    (6, 5, 5, 6, (3, 3), (2, 2), (1, 1), (1, 1), 6),
    (7, 4, 5, 12, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (3, 1, 5, 2, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (3, 1, 3, 2, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (3, 6, 5, 9, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (3, 6, 5, 8, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    (4, 6, 6, 6, (2, 3), (2, 1), (1, 2), (1, 1), 2),
    (3, 9, 8, 11, (3, 2), (1, 2), (2, 1), (2, 3), 1),
    (2, 1, 20, 4, (1, 5), (1, 3), (0, 4), (1, 2), 1),
    (1, 2, 2, 3, (5, 5), (1, 1), (4, 4), (1, 1), 1),
    (2, 3, 3, 9, (3, 3), (1, 1), (0, 0), (1, 1), 1),
    (3, 12, 13, 17, (5, 4), (1, 1), (2, 2), (1, 1), 1),
    (3, 9, 24, 1, (3, 2), (1, 1), (2, 1), (2, 3), 1),
    (4, 8, 21, 4, (2, 3), (1, 1), (1, 2), (3, 2), 4),
    (3, 7, 8, 7, (3, 3), (2, 2), ((0, 1), (0, 1)), (1, 1), 1),
    (5, 8, 6, 9, (3, 3), (2, 2), ((0, 1), (0, 1)), (1, 1), 1),
    (2, 9, 10, 8, (5, 4), (2, 2), ((1, 3), (0, 2)), (1, 1), 1),
    (3, 6, 5, 13, (1, 1), (2, 3), (0, 0), (1, 1), 1),
    *((3, 5, width, 3, (3, 3), (1, 1), (1, 1), (1, 1), 3) for width in (3, 5, 6, 7, 11)),
    *((3, 4, width, 3, (3, 3), (1, 1), ((1, 0), (0, 1)), (1, 1), 3) for width in (4, 9)),
    *((3, 5, width, 3, (3, 3), (1, 1), (0, 0), (1, 1), 3) for width in (5, 7, 8, 13)),
    *((3, 4, width, 3, (3, 3), (1, 1), ((0, 1), (0, 0)), (1, 1), 3) for width in (6, 9)),
    (3, 5, 6, 3, (3, 3), (1, 1), ((0, 0), (0, 1)), (1, 1), 3),
    *((2, 7, width, 2, (3, 3), (2, 2), ((0, 1), (0, 1)), (1, 1), 2) for width in (6, 8, 10, 12, 14, 20)),
    *((2, 6, width, 2, (3, 3), (2, 2), ((1, 0), (1, 1)), (1, 1), 2) for width in (5, 12)),
    *((19, 5, 6, outputs, (3, 3), (1, 1), (1, 1), (1, 1), 1) for outputs in (3, 11)),
    *((75, 3, 3, outputs, (1, 1), (1, 1), (0, 0), (1, 1), 1) for outputs in (3, 13)),
    (150, 2, 3, 5, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (1, 4, 6, 1, (3, 3), (1, 1), (1, 1), (1, 1), 1),
]  # fmt: skip


def conv_shape(case: tuple[Any, ...]) -> ConvShape:
    in_channels, height, width, out_channels, kernel, stride, padding, dilation, groups = case
    pads = ends(padding)
    sizes = [
        (size + sum(p) - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip((height, width), kernel, stride, pads, dilation, strict=True)
    ]
    before = [first for first, _ in pads]
    return ConvShape(in_channels, height, width, out_channels, *sizes, *kernel, *stride, *before, *dilation, groups)


def ends(padding: tuple[Any, ...]) -> list[tuple[int, int]]:
    """Padding before and behind, along each axis."""
    return [pad if isinstance(pad, tuple) else (pad, pad) for pad in padding]


@dataclass(frozen=True)
class Convolution:
    """Inputs and packed weights of a case, and what float64 gives for moments and for points."""

    mean: np.ndarray
    var: np.ndarray
    packed: np.ndarray
    true_mean: np.ndarray
    true_var: np.ndarray
    point_var: np.ndarray


def convolution(case: tuple[Any, ...]) -> Convolution:
    in_channels, height, width, out_channels, kernel, stride, padding, dilation, groups = case
    e, v = random(in_channels, height, width), positive(in_channels, height, width)
    mu, var = (f(out_channels, in_channels // groups, *kernel, seed=5) for f in (random, positive))
    bias, bias_var = random(out_channels, seed=6), positive(out_channels, seed=7)

    (top, bottom), (left, right) = ends(padding)

    def conv(x: torch.Tensor, w: torch.Tensor, b: np.ndarray) -> np.ndarray:
        padded = F.pad(x[None], (left, right, top, bottom))
        return F.conv2d(padded, w, double(b), stride, 0, dilation, groups)[0].numpy()

    spread = conv(double(v) + double(e) ** 2, double(var), bias_var)
    return Convolution(
        e,
        v,
        pack_weights(mu, var, bias, bias_var, groups),
        conv(double(e), double(mu), bias),
        spread + conv(double(v), double(mu) ** 2, np.zeros_like(bias)),
        conv(double(e) ** 2, double(var), bias_var),
    )


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution_in_its_general_and_its_fast_form(kernels: Kernels, case: tuple[Any, ...]) -> None:
    s, true = conv_shape(case), convolution(case)
    for name in {"lbnn_conv2d", conv_kernel(s)}:
        mean, spread = empty(*true.true_mean.shape)
        kernels(name, true.mean, true.var, true.packed, mean, spread, s, *conv_room(name, s))
        assert_moments(mean, spread, true.true_mean, true.true_var)
        mean, spread = empty(*true.true_mean.shape)
        kernels(f"{name}_point", true.mean, true.packed, mean, spread, s, *conv_room(f"{name}_point", s))
        assert_moments(mean, spread, true.true_mean, true.point_var)


def overlapping(choose: Callable[[Any], str], cases: list[Any]) -> list[Any]:
    """The cases that the kernel chosen for them may compute in place."""
    return [case for case in cases if in_place(choose(conv_shape(case)), conv_shape(case))]


def over_input(kernel: str, s: Any, values: list[np.ndarray], size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each array of an input a copy of it and memory for a result, which overlap as they may."""
    room = max(size, values[0].size)
    start = room - values[0].size if in_place(kernel, s) == "ends" and size > values[0].size else 0
    arrays = [np.full(room, np.nan, np.float32) for _ in values]
    for array, given in zip(arrays, values, strict=True):
        array[start : start + given.size] = given.reshape(-1)
    return [(array[start:], array) for array in arrays]


@pytest.mark.parametrize("case", overlapping(conv_kernel, CONVOLUTIONS), ids=str)
def test_a_convolution_over_its_own_input_gives_the_same_bits(kernels: Kernels, case: tuple[Any, ...]) -> None:
    """Mean over mean and variance over variance: from one start, or to one end if channels are added."""
    s, true = conv_shape(case), convolution(case)
    name, size = conv_kernel(s), true.true_mean.size
    mean, spread = empty(size)
    kernels(name, true.mean, true.var, true.packed, mean, spread, s, *conv_room(name, s))
    (e, own_mean), (v, own_spread) = over_input(name, s, [true.mean, true.var], size)
    kernels(name, e, v, true.packed, own_mean, own_spread, s, *conv_room(name, s))
    assert own_mean[:size].tobytes() == mean.tobytes() and own_spread[:size].tobytes() == spread.tobytes()
    ((x, own_mean),) = over_input(name, s, [true.mean], size)
    kernels(f"{name}_point", x, true.packed, own_mean, spread, s, *conv_room(f"{name}_point", s))
    assert_moments(own_mean[:size], spread, true.true_mean.reshape(-1), true.point_var.reshape(-1))


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_a_convolution_writes_nothing_beyond_its_scratch(kernels: Kernels, case: tuple[Any, ...]) -> None:
    s, true = conv_shape(case), convolution(case)
    for ending, inputs in (("", [true.mean, true.var]), ("_point", [true.mean])):
        name = conv_kernel(s) + ending
        for room in conv_room(name, s):
            scratch = fenced(room.floats)
            kernels(name, *inputs, true.packed, *empty(*true.true_mean.shape), s, scratch)
            assert (scratch[room.floats :] == UNTOUCHED).all()


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_the_small_convolution_takes_any_shape_and_points_with_variances_of_zero(
    kernels: Kernels, case: tuple[Any, ...]
) -> None:
    s, true = small_shape(conv_shape(case)), convolution(case)
    for var, true_var in ((true.var, true.true_var), (np.zeros_like(true.var), true.point_var)):
        mean, spread = empty(*true.true_mean.shape)
        kernels("lbnn_conv2d_small", true.mean, var, true.packed, mean, spread, s)
        assert_moments(mean, spread, true.true_mean, true_var)


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (16, 64), (256, 10)])
def test_a_linear_layer_is_a_convolution_with_a_kernel_as_wide_as_its_input(
    kernels: Kernels, shape: tuple[int, int]
) -> None:
    inputs, outputs = shape
    e, v, mu, var = random(inputs), positive(inputs), random(outputs, inputs, seed=2), positive(outputs, inputs)
    e64, v64, mu64, var64 = (a.astype(np.float64) for a in (e, v, mu, var))
    row = SmallConvShape(1, 1, inputs, outputs, 1, 1, 1, inputs, 1, 1, 0, 0, 1, 1, 1)
    mean, spread = empty(outputs)
    kernels("lbnn_conv2d_small", e, v, pack_weights(mu, var), mean, spread, row)
    assert_moments(mean, spread, mu64 @ e64, var64 @ (v64 + e64**2) + mu64**2 @ v64)


@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_transposed_convolution_of_any_shape(kernels: Kernels, case: Transposed) -> None:
    true, count = transposed_case(case), case.outputs * case.sizes[0] * case.sizes[1]
    for name, inputs, true_var in (
        ("lbnn_conv_transposed", [true.mean, true.var], true.true_var),
        ("lbnn_conv_transposed_point", [true.mean], true.point_var),
    ):
        mean, spread = fenced(count), fenced(count)
        kernels(name, *inputs, true.packed, mean, spread, case.shape)
        assert_fence(count, mean, spread)
        got_mean, got_var = (array[:count].reshape(true_var.shape) for array in (mean, spread))
        assert_moments(got_mean, got_var, true.true_mean, true_var)


def test_a_shape_beyond_16_bits_has_no_small_form() -> None:
    assert small_shape(ConvShape(1, 1, 65535, 1, 1, 65535, 1, 1, 1, 1, 0, 0, 1, 1, 1))
    assert small_shape(ConvShape(1, 1, 65536, 1, 1, 65536, 1, 1, 1, 1, 0, 0, 1, 1, 1)) is None


def test_the_fast_convolutions_are_all_among_the_cases() -> None:
    chosen = {conv_kernel(conv_shape(case)) for case in CONVOLUTIONS}
    assert chosen == {
        *("lbnn_conv2d", "lbnn_conv2d_3x3", "lbnn_depthwise_3x3", "lbnn_conv2d_1x1", "lbnn_conv2d_patch"),
    }


# ---- weights whose variances are products of factors -----------------------------------------------


@dataclass(frozen=True)
class FactoredWeights:
    """Packed means and factors, and the same weights with a variance each."""

    w: np.ndarray
    factors: np.ndarray
    full: np.ndarray
    step: int


def factored_weights(groups: int, alike: bool, *shape: int) -> FactoredWeights:
    """Random ones; with `alike` all groups have the same factors of their inputs."""
    mean, row, column = random(*shape, seed=5), positive(shape[0], seed=8), positive(groups, *shape[1:], seed=9)
    column = np.broadcast_to(column[:1], column.shape) if alike else column
    weight, bias = Factored(mean, row, column), (random(shape[0], seed=6), positive(shape[0], seed=7))
    columns = column[:1] if alike else column
    factors = np.concatenate([row, columns.reshape(-1), np.full(7, np.nan, np.float32)])
    full = pack_weights(mean, weight.var.astype(np.float32), *bias, groups)
    return FactoredWeights(pack_rank1(mean, *bias, groups), factors, full, 0 if alike else mean[0].size)


def test_means_are_packed_behind_a_row_of_biases() -> None:
    mean = np.arange(20, dtype=np.float32).reshape(10, 2)
    packed = pack_rank1(mean, np.arange(10, dtype=np.float32) + 100, np.arange(10, dtype=np.float32) + 200)
    assert packed[:32].tolist() == [*range(100, 108), *range(200, 208), *range(0, 16, 2), *range(1, 17, 2)]
    assert packed[32:].tolist() == [108, 109, 208, 209, 16, 18, 17, 19, *[0] * 7]


@pytest.mark.parametrize("shape", [(1, 1), (1, 128), (5, 3), (16, 64), (64, 1), (13, 7), (9, 12), (784, 33)])
def test_a_linear_layer_with_factors_is_that_with_their_products(kernels: Kernels, shape: tuple[int, int]) -> None:
    inputs, outputs = shape
    e, v, given = random(inputs), positive(inputs), factored_weights(1, True, outputs, inputs)
    for ending, moments in (("", [e, v]), ("_point", [e])):
        found, expected = empty(outputs), empty(outputs)
        kernels("lbnn_linear_rank1" + ending, *moments, given.w, given.factors, *found, inputs, outputs)
        kernels("lbnn_linear" + ending, *moments, given.full, *expected, inputs, outputs)
        assert_moments(*found, *expected)


FACTORED_CONVOLUTIONS = [(case, alike) for case in CONVOLUTIONS for alike in (True, False) if alike or case[-1] > 1]


@pytest.mark.parametrize(("case", "alike"), FACTORED_CONVOLUTIONS, ids=str)
def test_a_convolution_with_factors_is_that_with_their_products(
    kernels: Kernels, case: tuple[Any, ...], alike: bool
) -> None:
    s = conv_shape(case)
    given = factored_weights(s.groups, alike, s.out_channels, s.in_channels // s.groups, *case[4])
    e, v = random(*case[:3]), positive(*case[:3])
    out = (s.out_channels, s.out_height, s.out_width)
    for name in {"lbnn_conv2d_rank1", f"{factored_kernel(s)}_rank1"}:
        for ending, moments in (("", [e, v]), ("_point", [e])):
            found, expected, room = empty(*out), empty(*out), shared_room(name + ending, s).floats
            scratch = fenced(room)
            kernels(name + ending, *moments, given.w, given.factors, *found, scratch, s, given.step)
            kernels("lbnn_conv2d" + ending, *moments, given.full, *expected, s)
            assert_moments(*found, *expected)
            assert (scratch[room:] == UNTOUCHED).all()


@pytest.mark.parametrize("case", overlapping(factored_kernel, CONVOLUTIONS), ids=str)
def test_a_convolution_with_factors_over_its_own_input_gives_the_same_bits(
    kernels: Kernels, case: tuple[Any, ...]
) -> None:
    s = conv_shape(case)
    given, name = factored_weights(1, True, s.out_channels, s.in_channels, *case[4]), f"{factored_kernel(s)}_rank1"
    values, size = [random(*case[:3]), positive(*case[:3])], s.out_channels * s.out_height * s.out_width
    for ending, moments in (("", values), ("_point", values[:1])):
        found, room = empty(size), shared_room(name + ending, s)
        kernels(name + ending, *moments, given.w, given.factors, *found, room, s, 0)
        inputs, own = zip(*over_input(factored_kernel(s), s, moments, size), strict=True)
        outputs = (*own, *empty(size)[len(own) :])
        kernels(name + ending, *inputs, given.w, given.factors, *outputs, room, s, 0)
        assert [array[:size].tobytes() for array in outputs] == [array.tobytes() for array in found]


# ---- pooling -------------------------------------------------------------------------------------

# channels, height, width, kernel, stride, padding
POOLS = [
    (2, 8, 8, (2, 2), (2, 2), (0, 0)),
    (3, 7, 9, (2, 2), (2, 2), (0, 0)),
    (2, 7, 9, (3, 2), (2, 1), (1, 1)),
    (1, 1, 11, (1, 3), (1, 2), (0, 1)),
    (2, 5, 6, (5, 6), (5, 6), (0, 0)),
    (1, 6, 7, (3, 3), (1, 2), (0, 0)),
    (1, 5, 5, (4, 4), (3, 3), (2, 2)),
    (2, 4, 6, (2, 2), (2, 2), (1, 1)),
]


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("include_pad", [False, True])
@pytest.mark.parametrize("case", POOLS, ids=str)
def test_average_pooling_divides_as_torch_does(
    kernels: Kernels, case: tuple[Any, ...], ceil_mode: bool, include_pad: bool
) -> None:
    channels, height, width, kernel, stride, padding = case

    def average(x: torch.Tensor) -> np.ndarray:
        return F.avg_pool2d(x[None], kernel, stride, padding, ceil_mode, include_pad)[0].numpy()

    e, v = random(channels, height, width), positive(channels, height, width)
    true_mean = average(double(e))
    inside = F.avg_pool2d(torch.ones(1, height, width).double(), kernel, stride, padding, ceil_mode, divisor_override=1)
    divisor = inside.numpy() / average(torch.ones(1, height, width).double())
    true_var = average(double(v)) / divisor
    shape = PoolShape(channels, height, width, *true_mean.shape[1:], *kernel, *stride, *padding, int(include_pad))
    for name in {"lbnn_avg_pool", pool_kernel(shape)}:
        mean, spread = empty(*true_mean.shape)
        kernels(name, e, v, mean, spread, shape)
        assert_moments(mean, spread, true_mean, true_var)
        point = np.empty_like(mean)
        kernels(name + "_point", e, point, shape)
        assert point.tobytes() == mean.tobytes()
        if padding == (0, 0):
            over_e, over_v = e.copy(), v.copy()
            kernels(name, over_e, over_v, over_e, over_v, shape)
            assert over_e.reshape(-1)[: mean.size].tobytes() == mean.tobytes()
            assert over_v.reshape(-1)[: mean.size].tobytes() == spread.tobytes()


@pytest.mark.parametrize("name", ["lbnn_avg_pool", "lbnn_avg_pool_2x2", "lbnn_avg_pool_correlated"])
def test_pooling_leaves_the_gap_between_planes_of_the_output_as_it_was(kernels: Kernels, name: str) -> None:
    shape, gap = PoolShape(3, 4, 7, 2, 3, 2, 2, 2, 2, 0, 0, 1), 5
    e, v = random(3, 4, 7), positive(3, 4, 7)
    want, got = empty(3, 6), [np.full((3, 6 + gap), np.nan, np.float32) for _ in range(2)]
    kernels(name, e, v, *want, shape)
    kernels(name, e, v, *got, replace(shape, out_gap=gap))
    for alone, among in zip(want, got, strict=True):
        assert among[:, :6].tobytes() == alone.tobytes() and np.isnan(among[:, 6:]).all()


# channels, height, width, kernel, stride, padding, dilation
MAX_POOLS = [
    (2, 5, 22, (2, 2), (2, 2), (0, 0), (1, 1)),
    (1, 7, 20, (3, 3), (2, 1), (1, 1), (1, 1)),
    (1, 1, 31, (1, 7), (1, 2), (0, 3), (1, 2)),
    (2, 5, 6, (5, 6), (5, 6), (0, 0), (1, 1)),
    (1, 9, 5, (4, 2), (3, 1), (2, 1), (2, 3)),
    (2, 4, 6, (1, 1), (2, 3), (0, 0), (1, 1)),
]


def max_pool_case(case: tuple[Any, ...], ceil_mode: bool) -> tuple[MaxPoolShape, dict[str, Any], Any]:
    """The struct, the attributes, and the shape of the result by torch."""
    channels, height, width, kernel, stride, padding, dilation = case
    attrs = dict(kernel_size=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    out = F.max_pool2d(torch.zeros(1, channels, height, width), kernel, stride, padding, dilation, ceil_mode)[0].shape
    return MaxPoolShape(channels, height, width, *out[1:], *kernel, *stride, *padding, *dilation), attrs, tuple(out)


@lru_cache(maxsize=64)
def max_pool_expected(case: tuple[Any, ...], ceil_mode: bool) -> tuple[Any, ...]:
    """Inputs, of which some have no variance, and what 50 digits make of them."""
    e, v = 2.0 * random(*case[:3]), positive(*case[:3]) * (random(*case[:3], seed=2) > -1.0)
    _, attrs, out = max_pool_case(case, ceil_mode)
    return e, v, *pooled_moments(e.astype(np.float64), v.astype(np.float64), out, attrs)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("case", MAX_POOLS, ids=str)
def test_max_pooling_is_the_tournament_in_50_digits(kernels: Kernels, case: tuple[Any, ...], ceil_mode: bool) -> None:
    shape, attrs, out = max_pool_case(case, ceil_mode)
    e, v, true_mean, true_var = max_pool_expected(case, ceil_mode)
    plain = F.max_pool2d(torch.tensor(e)[None], *attrs.values())[0].numpy()
    for name in {"lbnn_max_pool", max_pool_kernel(shape)}:
        mean, spread = empty(*out)
        kernels(name, e, v, mean, spread, shape)
        known = true_var == 0.0  # as at the border in ceil mode
        assert not spread[known].any()
        assert_moments(mean, np.where(known, 1.0, spread), true_mean, np.where(known, 1.0, true_var), 1e-5)
        point = np.empty_like(mean)
        kernels(name + "_point", e, point, shape)
        assert point.tobytes() == plain.tobytes()
        if shape.padding_height == shape.padding_width == 0:
            over_e, over_v = e.copy(), v.copy()
            kernels(name, over_e, over_v, over_e, over_v, shape)
            over = [part.reshape(-1)[: mean.size].reshape(mean.shape) for part in (over_e, over_v)]
            np.testing.assert_allclose(over, (mean, spread), rtol=1e-5)  # a compiler may take other instructions


def test_both_kernels_for_max_pooling_are_among_the_cases() -> None:
    chosen = {max_pool_kernel(max_pool_case(case, False)[0]) for case in MAX_POOLS}
    assert chosen == {"lbnn_max_pool", "lbnn_max_pool_2x2"}


@pytest.mark.parametrize("build", ["gcc-O3-native", "gcc-scalar"])
def test_what_is_not_finite_is_not_hidden_where_it_loses(folder: Path, build: str) -> None:
    """Plain C leaves out what vectors compute of every lane."""
    kernels = compile_kernels(BUILDS[build], folder)
    shape = MaxPoolShape(1, 2, 2, 1, 1, 2, 2, 2, 2, 0, 0, 1, 1)
    for name, place, wrong in product(("lbnn_max_pool", "lbnn_max_pool_2x2"), range(4), (np.nan, -np.inf, np.inf)):
        e, v = np.array([3.0, 1.0, 2.0, 4.0], np.float32), np.ones(4, np.float32)
        mean, var = empty(1)
        e[place] = wrong
        kernels(name, e, v, mean, var, shape)
        assert not np.isfinite(mean[0]) and not np.isfinite(kernels_point(kernels, name, e, shape))
        e[place], v[place] = 1.0, abs(wrong)
        kernels(name, e, v, mean, var, shape)
        assert not np.isfinite(var[0])


def kernels_point(kernels: Kernels, name: str, x: np.ndarray, shape: MaxPoolShape) -> float:
    out = np.zeros(1, np.float32)
    kernels(name + "_point", x, out, shape)
    return float(out[0])


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("include_pad", [False, True])
@pytest.mark.parametrize("case", POOLS, ids=str)
def test_pooling_of_elements_that_move_together_averages_their_deviations(
    kernels: Kernels, case: tuple[Any, ...], ceil_mode: bool, include_pad: bool
) -> None:
    channels, height, width, kernel, stride, padding = case
    e, v = random(channels, height, width), positive(channels, height, width) * 10.0 ** random(channels, 1, 1)
    true_mean, sigma = (
        F.avg_pool2d(x[None], kernel, stride, padding, ceil_mode, include_pad)[0].numpy()
        for x in (double(e), double(v).sqrt())
    )
    shape = PoolShape(channels, height, width, *true_mean.shape[1:], *kernel, *stride, *padding, int(include_pad))
    mean, spread = empty(*true_mean.shape)
    kernels("lbnn_avg_pool_correlated", e, v, mean, spread, shape)
    assert_moments(mean, spread, true_mean, sigma**2)
    if padding == (0, 0):
        kernels("lbnn_avg_pool_correlated", e, v, e, v, shape)
        assert e.reshape(-1)[: mean.size].tobytes() == mean.tobytes()
        assert v.reshape(-1)[: mean.size].tobytes() == spread.tobytes()


# ---- activation ----------------------------------------------------------------------------------

SLOPES = (0.0, 0.01, 0.1, 0.3, 1.0)
RATIOS = np.concatenate([
    [0.0], np.linspace(-12.5, 12.5, 501), *(s * np.logspace(-6, 6, 61) for s in (-1.0, 1.0)),
])  # fmt: skip


@lru_cache(maxsize=16)
def exact_leaky_relu(slope: float, sigma: float) -> tuple[np.ndarray, ...]:
    """E, V in float32 and the moments of max(x, l x) in 50 digits."""
    mean = (RATIOS * sigma).astype(np.float32)
    var = np.full_like(mean, np.float32(sigma) ** 2)
    with mpmath.workdps(50):
        pairs = [(mpmath.mpf(float(e)), mpmath.mpf(float(v))) for e, v in zip(mean, var, strict=True)]
        true = [_exact(e, v, float(np.float32(slope))) for e, v in pairs]
        ratio = [new / old for (_, new), (_, old) in zip(true, pairs, strict=True)]
        return mean, var, *np.array(true, np.float64).T, np.array(ratio, np.float64)


def _exact(e: Any, v: Any, slope: float) -> tuple[Any, Any]:
    """By the moments of the positive and of the negative half; 50 digits absorb the cancellation."""
    sigma = mpmath.sqrt(v)
    z = e / sigma
    phi, p = mpmath.npdf(z), mpmath.erfc(-z / mpmath.sqrt(2)) / 2
    first, second = e * p + sigma * phi, (e * e + v) * p + e * sigma * phi
    mean = first + slope * (e - first)
    return mean, second + slope**2 * (e * e + v - second) - mean**2


@pytest.mark.parametrize("sigma", [1e-6, 1.0, 3e4])
@pytest.mark.parametrize("slope", SLOPES)
def test_leaky_relu_is_exact_to_float32(kernels: Kernels, slope: float, sigma: float) -> None:
    e, v, true_mean, true_var, ratio = exact_leaky_relu(slope, sigma)
    mean, var = e.copy(), v.copy()
    kernels("lbnn_leaky_relu", mean, var, len(mean), slope)
    assert (var >= 0).all() and np.isfinite(mean).all()
    asked = (slope > 0) | (ratio > 1e-6)
    mean, var, true_mean, true_var = (a[asked] for a in (mean, var, true_mean, true_var))
    assert np.max(np.abs(mean - true_mean) / (np.abs(true_mean) + np.sqrt(true_var))) <= 2e-6
    assert np.max(np.abs(var - true_var) / true_var) <= 1e-5


@pytest.mark.parametrize("sigma", [1e-6, 1.0, 3e4])
def test_the_absolute_value_is_exact_to_float32(kernels: Kernels, sigma: float) -> None:
    e, v, true_mean, true_var, _ = exact_leaky_relu(-1.0, sigma)
    mean, var = e.copy(), v.copy()
    kernels("lbnn_abs", mean, var, len(mean))
    assert np.max(np.abs(mean - true_mean) / (np.abs(true_mean) + np.sqrt(true_var))) <= 2e-6
    assert np.max(np.abs(var - true_var) / true_var) <= 1e-5


def test_the_absolute_value_of_a_certain_value_and_of_points_is_the_plain_function(kernels: Kernels) -> None:
    x = np.array([-3.0, -1e-30, -0.0, 0.0, 1e-30, 2.0, -1e30], np.float32)
    mean, var, point = x.copy(), np.zeros_like(x), x.copy()
    kernels("lbnn_abs", mean, var, len(x))
    kernels("lbnn_abs_point", point, len(x))
    assert np.array_equal(mean, np.abs(x)) and np.array_equal(point, np.abs(x)) and not var.any()


@lru_cache(maxsize=16)
def exact_piecewise(number: int, sigma: float) -> tuple[np.ndarray, ...]:
    """E on and around every kink, V, both in float32, and the moments with 120 digits."""
    function = PIECEWISE_EXAMPLES[number]
    around = np.concatenate([[0.0], np.linspace(-6.0, 6.0, 13), [-300.0, -0.02, 1e-4, 300.0]]) * sigma
    mean = np.concatenate([around + kink for kink in function["kinks"]]).astype(np.float32)
    var = np.full_like(mean, np.float32(sigma) ** 2)
    true = [piecewise_moments(float(e), float(v), **function) for e, v in zip(mean, var, strict=True)]
    return mean, var, *np.array(true, np.float64).T


@pytest.mark.parametrize("sigma", [1e-15, 1e-3, 0.9, 3.0, 40.0, 1e3, 1e15])
@pytest.mark.parametrize("number", range(len(PIECEWISE_EXAMPLES)))
def test_piecewise_linear_functions_are_exact_to_float32(kernels: Kernels, number: int, sigma: float) -> None:
    e, v, true_mean, true_var = exact_piecewise(number, sigma)
    pieces, mean, var = make_pieces(**PIECEWISE_EXAMPLES[number]), e.copy(), v.copy()
    kernels("lbnn_piecewise", mean, var, len(mean), pack_pieces(pieces), len(pieces.kinks))
    assert (var >= 0).all() and np.isfinite(mean).all()
    assert np.all(np.abs(mean - true_mean) <= 1e-6 * (np.abs(true_mean) + np.sqrt(true_var)))
    asked = true_var > 1e-37  # where float32 has all its digits
    assert np.max(np.abs(var - true_var)[asked] / true_var[asked]) <= 1e-5
    assert np.all(var[~asked] <= 1.1e-37)


@pytest.mark.parametrize("function", PIECEWISE_EXAMPLES)
def test_a_piecewise_linear_function_of_a_certain_value_and_of_points_is_the_plain_one(
    kernels: Kernels, function: Any
) -> None:
    pieces = make_pieces(**function)
    x = np.array([-1e30, -7.0, -1e-30, 0.0, 1e-30, 0.7, 1e9, *pieces.kinks], np.float32)
    mean, var, point = x.copy(), np.zeros_like(x), x.copy()
    table, want = pack_pieces(pieces), OPS["piecewise_point"].formula(NUMPY, x.astype(float), **function)
    kernels("lbnn_piecewise", mean, var, len(x), table, len(pieces.kinks))
    kernels("lbnn_piecewise_point", point, len(x), table, len(pieces.kinks))
    assert np.array_equal(mean, point) and not var.any()
    np.testing.assert_allclose(point, want, rtol=2e-7)


def test_a_bounded_function_does_not_hide_what_overflowed(kernels: Kernels, request: pytest.FixtureRequest) -> None:
    if "fast-math" in request.node.name:
        return  # which promises nothing for them
    mean, var = np.array([1.0, np.inf, np.nan], np.float32), np.array([np.inf, 1.0, 1.0], np.float32)
    kernels("lbnn_piecewise", mean, var, 3, pack_pieces(make_pieces(**PIECEWISE_EXAMPLES[0])), 2)
    assert not np.isfinite(var[0]) and not np.isfinite(mean[1:]).any()


@lru_cache(maxsize=1)
def exact_hardswish() -> tuple[np.ndarray, ...]:
    """E and V that reach every case, on kinks too, and the moments with 120 digits."""
    mean, var = hardswish_places(1501, seed=6)
    return (
        mean,
        var,
        *np.array([hardswish_moments(float(e), float(v)) for e, v in zip(mean, var, strict=True)], float).T,
    )


def test_hardswish_is_exact_to_float32(kernels: Kernels, request: pytest.FixtureRequest) -> None:
    e, v, true_mean, true_var = exact_hardswish()
    mean, var = e.copy(), v.copy()
    kernels("lbnn_hardswish", mean, var, len(mean))
    assert (var >= 0).all() and np.isfinite(mean).all()
    assert np.all(np.abs(mean - true_mean) <= 1e-6 * (np.abs(true_mean) + np.sqrt(true_var)) + 1e-44)
    asked = true_var > 1e-36  # where float32 has all its digits
    most = 2e-5 if "fast-math" in request.node.name else 1e-5
    assert np.max(np.abs(var - true_var)[asked] / true_var[asked]) <= most
    assert np.all(var[~asked] <= 1.1e-36)


def test_hardswish_of_a_certain_value_and_of_points_is_the_plain_one(
    kernels: Kernels, request: pytest.FixtureRequest
) -> None:
    x = np.array([-1e30, -7.0, -3.0, -2.9, -1.5, -1e-30, 0.0, 1e-30, 0.7, 2.9, 3.0, 4.0, 1e30], np.float32)
    mean, var, point = x.copy(), np.zeros_like(x), x.copy()
    kernels("lbnn_hardswish", mean, var, len(x))
    kernels("lbnn_hardswish_point", point, len(x))
    same = np.array_equal(mean, point) or "fast-math" in request.node.name  # which may round products differently
    assert same and not var.any()
    for found in (mean, point):
        np.testing.assert_allclose(found, OPS["hardswish_point"].formula(NUMPY, x.astype(float)), rtol=2e-7)


def test_hardswish_is_finite_for_numbers_of_every_size(kernels: Kernels) -> None:
    """Vectors hold elements with tails beside elements whose powers would overflow."""
    sizes = np.float32([0.0, 2e-38, 1e-20, 1e-3, 1.0, 2.9, 3.1, 40.0, 1e6, 1e12, 1e19, 1e25, 1e31, 1e37])
    mean, var = (part.ravel() for part in np.meshgrid(np.concatenate([sizes, -sizes]), sizes))
    order = np.random.default_rng(0).permutation(mean.size)
    mean, var = mean[order].copy(), var[order].copy()
    kernels("lbnn_hardswish", mean, var, len(mean))
    assert np.isfinite(mean).all() and np.isfinite(var).all() and (var >= 0).all()


def test_hardswish_hides_nothing_that_overflowed(kernels: Kernels, request: pytest.FixtureRequest) -> None:
    if "fast-math" in request.node.name:
        return  # which promises nothing for them
    for mean_in, var_in in ((-9.0, np.inf), (0.5, np.inf), (9.0, np.inf), (-9.0, np.nan), (0.5, np.nan)):
        mean, var = np.full(1, mean_in, np.float32), np.full(1, var_in, np.float32)
        kernels("lbnn_hardswish", mean, var, 1)
        assert not np.isfinite(var[0])
    mean, var = np.array([-np.inf, np.inf, np.nan], np.float32), np.ones(3, np.float32)
    kernels("lbnn_hardswish", mean, var, 3)
    assert not np.isfinite(mean).any()


@pytest.mark.parametrize("slope", SLOPES)
def test_leaky_relu_of_a_certain_value_is_the_plain_function(kernels: Kernels, slope: float) -> None:
    mean = np.array([-3.0, -1e-30, 0.0, 1e-30, 2.0, -1e30, 1e30], np.float32)
    expected = np.where(mean < 0, np.float32(slope) * mean, mean)
    var = np.zeros_like(mean)
    kernels("lbnn_leaky_relu", mean, var, len(mean), slope)
    np.testing.assert_allclose(mean, expected, rtol=1e-6)
    assert (var == 0).all()


@pytest.mark.parametrize("slope", SLOPES)
def test_leaky_relu_clamped_is_the_total_of_two_truncated_normals(kernels: Kernels, slope: float) -> None:
    ratio = np.concatenate([np.linspace(-9, 9, 181), [-1e4, 1e4]])
    mean, var = (ratio * 0.7).astype(np.float32), np.full(len(ratio), 0.49, np.float32)
    true = [_clamped(float(e), float(v), float(np.float32(slope)), 3.0) for e, v in zip(mean, var, strict=True)]
    kernels("lbnn_leaky_relu_clamped", mean, var, len(mean), slope, 3.0)
    assert_moments(mean, var, [t[0] for t in true], [t[1] for t in true], 5e-6)


def _clamped(e: float, v: float, slope: float, clamp: float) -> tuple[float, float]:
    """As the paper writes it, in 30 digits."""
    with mpmath.workdps(30):
        sigma = mpmath.sqrt(v)
        alpha = max(-clamp, min(clamp, -e / sigma))
        phi, p = mpmath.npdf(alpha), mpmath.ncdf(alpha)
        m0, v0 = e - sigma * phi / p, v * (1 - alpha * phi / p - (phi / p) ** 2)
        m1, v1 = e + sigma * phi / (1 - p), v * (1 + alpha * phi / (1 - p) - (phi / (1 - p)) ** 2)
        mean = p * slope * m0 + (1 - p) * m1
        return float(mean), float(p * slope**2 * v0 + (1 - p) * v1 + p * (slope * m0) ** 2 + (1 - p) * m1**2 - mean**2)


def test_a_clamp_beyond_the_tail_changes_nothing(kernels: Kernels) -> None:
    mean, var = np.array([1.0, -30.0, -3.0, 14.0, -12.5], np.float32), np.ones(5, np.float32)
    free_mean, free_var = mean.copy(), var.copy()
    kernels("lbnn_leaky_relu_clamped", mean, var, 5, 0.01, 40.0)
    kernels("lbnn_leaky_relu", free_mean, free_var, 5, 0.01)
    np.testing.assert_allclose(mean, free_mean, rtol=2e-6)
    np.testing.assert_allclose(var, free_var, rtol=2e-6)


def test_leaky_relu_clamped_accepts_a_certain_value(kernels: Kernels) -> None:
    mean, var = np.array([0.0, 2.0, -2.0], np.float32), np.zeros(3, np.float32)
    kernels("lbnn_leaky_relu_clamped", mean, var, 3, 0.1, 3.0)
    assert np.isfinite(mean).all() and np.isfinite(var).all() and mean[0] == 0 and var[0] == 0


@pytest.mark.parametrize("sign", [1, -1])
def test_leaky_relu_point(kernels: Kernels, sign: int) -> None:
    """With both signs each element is negative once: the first and the last too."""
    x = sign * random(77)
    expected = np.where(x < 0, np.float32(0.1) * x, x)
    kernels("lbnn_leaky_relu_point", x, len(x), 0.1)
    np.testing.assert_array_equal(x, expected)


# ---- pointwise -----------------------------------------------------------------------------------


def test_affine_scales_and_shifts_channels(kernels: Kernels) -> None:
    e, v, scale, shift = random(3, 5), positive(3, 5), random(3, seed=8), random(3, seed=9)
    column = [a[:, None].astype(np.float64) for a in (scale, shift)]
    expected = column[0] * e + column[1], column[0] ** 2 * v
    point = e.copy()
    kernels("lbnn_affine", e, v, scale, shift, 3, 5)
    kernels("lbnn_affine_point", point, scale, shift, 3, 5)
    assert_moments(e, v, *expected)
    np.testing.assert_allclose(point, expected[0], rtol=2e-6, atol=1e-6)


def test_sums_also_in_place(kernels: Kernels) -> None:
    a, av, b, bv = random(19), positive(19), random(19, seed=2), positive(19, seed=3)
    mean, var = empty(19)
    kernels("lbnn_add", a, av, b, bv, mean, var, 19)
    assert mean.tolist() == (a + b).tolist() and var.tolist() == (av + bv).tolist()
    kernels("lbnn_shift", a, av, b, mean, var, 19)
    assert mean.tolist() == (a + b).tolist() and var.tolist() == av.tolist()
    kernels("lbnn_add_points", a, b, b, 19)
    assert b.tolist() == mean.tolist()
    kernels("lbnn_shift", a, av, b, a, av, 19)
    assert av.tolist() == var.tolist()


@pytest.mark.parametrize("planes", [(4, 4), (1, 4), (4, 1)])
def test_products_are_those_of_independent_values(kernels: Kernels, planes: tuple[int, int]) -> None:
    shapes = [(3, plane) for plane in planes]
    (e, d), (v, w) = ([random(*s, seed=i) for i, s in enumerate(shapes)], [positive(*s, seed=5) for s in shapes])
    x, y, p, q = (part.astype(np.float64) for part in (e, d, v, w))
    mean, var = empty(3, 4)
    kernels("lbnn_multiply", e, v, d, w, mean, var, 3, 4, *planes)
    np.testing.assert_allclose(mean, x * y, rtol=1e-6)
    np.testing.assert_allclose(var, p * q + p * y**2 + q * x**2, rtol=1e-6)
    kernels("lbnn_multiply_known", e, v, d, mean, var, 3, 4, *planes)
    np.testing.assert_allclose(mean, x * y, rtol=1e-6)
    np.testing.assert_allclose(var, p * y**2 + 0.0 * x, rtol=1e-6)
    point = np.empty_like(mean)
    kernels("lbnn_multiply_point", e, d, point, 3, 4, *planes)
    assert point.tobytes() == mean.tobytes()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concat_along_any_axis(kernels: Kernels, axis: int) -> None:
    shapes = [[2, 3, 4], [2, 3, 4]]
    shapes[1][axis] = 5
    parts = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    expected = np.concatenate(parts, axis)
    out = np.zeros_like(expected)
    step, offset, count = int(np.prod(expected.shape[axis:])), 0, int(np.prod(expected.shape[:axis]))
    for part in parts:
        length = int(np.prod(part.shape[axis:]))
        kernels("lbnn_concat", part, out.reshape(-1)[offset:], count, length, step)
        offset += length
    np.testing.assert_array_equal(out, expected)


def test_pad_copy_and_lift(kernels: Kernels) -> None:
    x = random(2, 3, 4)
    out = np.full((2, 3 + 1 + 4, 4 + 2 + 3), np.nan, np.float32)
    kernels("lbnn_pad", x, out, 2, 3, 4, 1, 4, 2, 3)
    np.testing.assert_array_equal(out, np.pad(x, ((0, 0), (1, 4), (2, 3))))
    copied, zeros = empty(24)
    kernels("lbnn_copy", x, copied, 24)
    kernels("lbnn_lift", zeros, 24)
    assert copied.tolist() == x.reshape(-1).tolist() and not zeros.any()


def test_rings_give_the_columns_that_came_before(kernels: Kernels) -> None:
    columns, taps, dilation = random(20, 3), 4, 2
    slots = dilation * (taps - 1)
    ring, line = np.zeros(1 + 3 * slots, np.float32), np.zeros(1 + 3 * 5, np.float32)
    padded = np.concatenate([np.zeros((slots, 3), np.float32), columns])
    for number, column in enumerate(columns):
        window, last, oldest = (np.full((3, n), np.nan, np.float32) for n in (taps, 5, 2))
        kernels("lbnn_ring_take", ring, column, window, 3, taps, dilation)
        kernels("lbnn_ring_put", ring, column, 3, slots)
        np.testing.assert_array_equal(window, padded[number : number + slots + 1 : dilation].T)
        kernels("lbnn_ring_put", line, column, 3, 5)
        kernels("lbnn_ring_read", line, last, 3, 5, 5)
        kernels("lbnn_ring_read", line, oldest, 3, 5, 2)
        np.testing.assert_array_equal(last, padded[number + slots - 4 : number + slots + 1].T)
        np.testing.assert_array_equal(oldest, last[:, :2])


@pytest.mark.parametrize(("kernel", "stride"), [(3, 3), (4, 6), (289, 290)])
def test_a_running_sum_is_that_of_average_pooling(kernels: Kernels, kernel: int, stride: int) -> None:
    columns = positive(2 * stride + kernel, 2)
    ring, out = np.full(1 + 2 * 2, np.nan, np.float32), np.full(2, np.nan, np.float32)
    rings = [ring.copy(), ring.copy()]
    for each in rings:
        each[0] = 0.0
    for number, column in enumerate(columns):
        for roots in (0, 1):
            kernels("lbnn_ring_sum", rings[roots], column, 2, kernel, stride, roots)
        if number % stride >= kernel - 1:  # columns between windows change nothing
            window = columns[number - number % stride :][:kernel].astype(np.float64)
            expected = (window.mean(0), window.mean(0) / kernel, np.sqrt(window).mean(0) ** 2)
            for power, want in enumerate(expected):
                kernels("lbnn_ring_mean", rings[power == 2], out, 2, kernel, power)
                np.testing.assert_allclose(out, want, rtol=1e-5)


@pytest.mark.parametrize(("first", "every"), [(1, 2), (3, 1), (5, 7), (14, 14)])
def test_due_with_the_first_sample_and_every_so_many_behind_it(kernels: Kernels, first: int, every: int) -> None:
    count = np.zeros(1, np.float32)
    found = [sample for sample in range(1, 60) if kernels("lbnn_due", count, first, every)]
    assert found == list(range(first, 60, every))


def test_variance_head_adds_softplus(kernels: Kernels) -> None:
    raw = np.concatenate([np.linspace(-80, 80, 321), [0.0, 1e-7, -1e-7, 1e5]]).astype(np.float32)
    k = len(raw)
    mu, v = random(k), positive(2 * k)
    with mpmath.workdps(50):
        noise = np.array([float(mpmath.log1p(mpmath.exp(float(s)))) for s in raw])
    features = np.concatenate([mu, raw])
    mean, var = empty(k)
    kernels("lbnn_variance_head_point", features, mean, var, k)
    assert mean.tolist() == mu.tolist()
    np.testing.assert_allclose(var, noise, rtol=6e-6)
    near = np.abs(raw) < 10
    np.testing.assert_allclose(var[near], noise[near], rtol=1e-6)
    kernels("lbnn_variance_head", features, v, features, v, k)
    assert features[:k].tolist() == mu.tolist()
    np.testing.assert_allclose(v[:k], positive(2 * k)[:k] + noise, rtol=1e-6)


# ---- checks --------------------------------------------------------------------------------------

NOT_FINITE = [np.nan, -np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_checks_find_what_is_not_finite_even_under_fast_math(kernels: Kernels, bad: float) -> None:
    good = np.array([0.0, -0.0, 1e-45, 3.4028235e38], np.float32)
    assert kernels("lbnn_is_finite", good, 4) == 1 and kernels("lbnn_is_variance", good, 4) == 1
    assert kernels("lbnn_is_finite", -good, 4) == 1
    for i in range(4):
        x = good.copy()
        x[i] = bad
        assert kernels("lbnn_is_finite", x, 4) == 0 and kernels("lbnn_is_variance", x, 4) == 0


@pytest.mark.parametrize("bad", [*NOT_FINITE, -1e-45, -1.0])
def test_a_bad_variance_leaves_the_outputs_alone(kernels: Kernels, bad: float) -> None:
    mean, var = empty(3)
    e, v = random(3), positive(3)
    v[1] = bad
    assert kernels("lbnn_emit", e, v, mean, var, 3) == -3
    assert np.isnan(mean).all() and np.isnan(var).all()
    assert kernels("lbnn_emit", e, e * e, mean, var, 3) == 0
    assert mean.tolist() == e.tolist() and var.tolist() == (e * e).tolist()


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_a_bad_mean_leaves_the_outputs_alone(kernels: Kernels, bad: float) -> None:
    mean, var = empty(3)
    e, v = random(3), positive(3)
    e[2] = bad
    assert kernels("lbnn_emit", e, v, mean, var, 3) == -3
    assert np.isnan(mean).all() and np.isnan(var).all()


def test_every_status_has_its_message(kernels: Kernels) -> None:
    message = kernels.library.lbnn_status_message
    message.restype = ctypes.c_char_p
    assert [message(code) for code in (0, -128, 77)] == [b"ok", b"unknown status", b"unknown status"]
    for code, word in ((-1, b"pointer"), (-2, b"an input is not finite"), (-3, b"an output is not finite")):
        assert word in message(code)


# ---- memory --------------------------------------------------------------------------------------

UNTOUCHED = np.float32(-77.0)


def fenced(count: int) -> np.ndarray:
    """Room for `count` floats and as much behind it that no kernel may touch."""
    return np.full(count + max(count, 16), UNTOUCHED, np.float32)


def assert_fence(count: int, *arrays: np.ndarray) -> None:
    for array in arrays:
        assert not (array[:count] == UNTOUCHED).any() and (array[count:] == UNTOUCHED).all()


@pytest.mark.parametrize("outputs", [1, 2, 3, 5, 7, 9, 15, 33])
def test_a_linear_layer_writes_nothing_beyond_its_outputs(kernels: Kernels, outputs: int) -> None:
    weight, mean, var = random(outputs, 3), fenced(outputs), fenced(outputs)
    kernels("lbnn_linear", random(3), positive(3), pack_weights(weight, weight**2), mean, var, 3, outputs)
    assert_fence(outputs, mean, var)


@pytest.mark.parametrize("case", [case for case in CONVOLUTIONS if case[3] % 4], ids=str)
def test_a_convolution_writes_nothing_beyond_its_outputs(kernels: Kernels, case: tuple[Any, ...]) -> None:
    s, true = conv_shape(case), convolution(case)
    for name, shape in (("lbnn_conv2d", s), (conv_kernel(s), s), ("lbnn_conv2d_small", small_shape(s))):
        mean, var = fenced(true.true_mean.size), fenced(true.true_mean.size)
        kernels(name, true.mean, true.var, true.packed, mean, var, shape, *conv_room(name, s))
        assert_fence(true.true_mean.size, mean, var)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 9])
def test_activations_and_head_write_nothing_beyond_their_elements(kernels: Kernels, n: int) -> None:
    for name, numbers in (("lbnn_leaky_relu", (0.1,)), ("lbnn_leaky_relu_clamped", (0.1, 3.0))):
        mean, var = fenced(n), fenced(n)
        mean[:n], var[:n] = random(n), positive(n)
        kernels(name, mean, var, n, *numbers)
        assert_fence(n, mean, var)
    mean, var = fenced(n), fenced(n)
    kernels("lbnn_variance_head", random(2 * n), positive(2 * n), mean, var, n)
    assert_fence(n, mean, var)


# ---- builds --------------------------------------------------------------------------------------


def _network(run: Callable[..., int]) -> bytes:
    """The bytes of a small network that uses every kernel with sums, an activation and the head."""
    case = (3, 6, 7, 10, (3, 3), (1, 1), (1, 1), (1, 1), 1)
    s = conv_shape(case)
    w = pack_weights(random(10, 27), positive(10, 27), random(10), positive(10))
    e, v = random(3, 6, 7), positive(3, 6, 7)
    outputs = []
    for name, shape in (("lbnn_conv2d", s), ("lbnn_conv2d_3x3", s), ("lbnn_conv2d_small", small_shape(s))):
        mean, var = empty(10, 6, 7)
        run(name, e, v, w, mean, var, shape, *conv_room(name, s))
        run("lbnn_leaky_relu", mean, var, mean.size, 0.1)
        run("lbnn_leaky_relu_clamped", mean, var, mean.size, 0.1, 3.0)
        out_mean, out_var = empty(14)
        dense = pack_weights(random(14, 420), positive(14, 420), random(14), positive(14))
        run("lbnn_linear", mean, var, dense, out_mean, out_var, 420, 14)
        run("lbnn_variance_head", out_mean, out_var, out_mean, out_var, 7)
        outputs.append(mean.tobytes() + var.tobytes() + out_mean.tobytes() + out_var.tobytes())
    assert len(set(outputs)) == 1
    return outputs[0]


def test_strict_builds_agree_in_every_bit(folder: Path) -> None:
    results = {
        name: _network(compile_kernels(command + " -DLBNN_STRICT", folder, PLAIN))
        for name, command in STRICT_BUILDS.items()
        if name in chosen(STRICT_BUILDS, "gcc-O3-native", "gcc-scalar-Os", "gcc-size")
    }
    assert len(set(results.values())) == 1, {name: hash(value) for name, value in results.items()}


def test_mean_only_gives_the_same_means_and_stores_no_variance(folder: Path) -> None:
    kernels = compile_kernels("gcc -std=c99 -O1", folder, PLAIN)
    plain = compile_kernels("gcc -std=c99 -O1 -DLBNN_MEAN_ONLY", folder, PLAIN)
    s, e, v = conv_shape(CONVOLUTIONS[2]), random(3, 5, 7), positive(3, 5, 7)
    w = pack_weights(random(6, 27), positive(6, 27), random(6), positive(6))
    pool = PoolShape(6, 5, 7, 2, 3, 2, 2, 2, 2, 0, 0, 1)
    means = []
    for run in (kernels, plain):
        mean, var = empty(6, 5, 7)
        run("lbnn_conv2d", e, v, w, mean, var, s)
        run("lbnn_add", mean, var, mean, var, mean, var, mean.size)
        run("lbnn_affine", mean, var, random(6), random(6), 6, 35)
        out_mean, out_var = empty(6, 2, 3)
        run("lbnn_avg_pool", mean, var, out_mean, out_var, pool)
        assert np.isnan(var).all() == np.isnan(out_var).all() == (run is plain)
        means.append(out_mean.tolist())
        for head in (("lbnn_variance_head", mean, positive(6)), ("lbnn_variance_head_point", mean)):
            out_mean, out_var = empty(3)
            run(*head, out_mean, out_var, 3)
            assert np.isnan(out_var).all() == (run is plain)
            means.append(out_mean.tolist())
    assert means[:3] == means[3:]


@pytest.mark.parametrize("flags", ["-DLBNN_STRICT -ffast-math", "-DLBNN_BLOCK=5", "-DLBNN_ABI_TEST"])
def test_impossible_options_are_compile_errors(flags: str, tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text('#ifdef LBNN_ABI_TEST\n#define LBNN_EXPECT_ABI 999\n#endif\n#include "lbnn.h"\n')
    command = [need("gcc"), "-std=c99", *flags.split(), f"-I{ROOT / 'c_runtime'}", "-fsyntax-only", str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode != 0 and "#error" in result.stderr


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m3", "cortex-m4"])
def test_arm_code_needs_sqrtf_alone_and_no_double(core: str, tmp_path: Path) -> None:
    compiler = need("arm-none-eabi-gcc")
    hard = ["-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"] if core == "cortex-m4" else ["-mfloat-abi=soft"]
    path = tmp_path / "kernels.o"
    flags = [f"-mcpu={core}", "-mthumb", *hard, "-std=c99", "-O2", "-fno-math-errno", "-DLBNN_KERNEL="]
    files = [f"-I{ROOT / 'c_runtime'}", "-c", str(SOURCE), "-o", str(path)]
    subprocess.run([compiler, *flags, *WARNINGS.split(), *files], check=True)
    undefined = {line.split()[-1] for line in _nm(path, "-u")}
    helpers = {name for name in undefined if name.startswith("__aeabi_")}
    assert undefined - helpers <= {"sqrtf", "memcpy", "memset", "memmove", "__gnu_thumb1_case_uqi"}
    assert not {name for name in helpers if name.startswith(("__aeabi_d", "__aeabi_l", "__aeabi_f2d"))}
    assert not [line for line in _nm(path) if line.split()[-2] in "dDbBC"]


def _nm(path: Path, *options: str) -> list[str]:
    command = [need("arm-none-eabi-nm"), *options, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


# ---- heads ---------------------------------------------------------------------------------------

HEAD_COUNTS = {2: (6, 0, 2), 3: (6, 0, 2), 10: (12, 6, 6), 33: (2, 0, 4), 100: (0, 4, 4)}
HEAD_ROWS = [row for classes, counts in HEAD_COUNTS.items() for row in all_rows(classes, counts)]
HEAD_ROWS += [(np.array([0.0, 1.0, -3.0]), np.zeros(3)), (np.array([-0.2]), np.array([1.5]))]
WIDE_ROWS = [(np.zeros(3), np.array([1e18, 1e14, 1e12])), (np.zeros(2), np.array([1e19, 1e13]))]
HEAD_TRUTH = [quadrature(*row) for row in HEAD_ROWS]


def classes_of(kernels: Kernels, kernel: str, mean: Any, sigma: Any) -> tuple[Any, Any]:
    """Probabilities and parts; what the kernel may not leave unwritten is NaN beforehand, behind its memory too."""
    k = len(mean)
    m, v = np.array(mean, np.float32), np.array(np.square(sigma), np.float32)
    lengths = (k, 2, HEAD_KERNELS[kernel[5:]].scratch * k)
    probability, parts, scratch = (np.full(n + 1, np.nan, np.float32) for n in lengths)
    kernels(kernel, m, v, probability, parts, scratch, k)
    assert np.isnan([probability[-1], parts[-1], scratch[-1]]).all()
    return probability[:-1], parts[:-1]


@pytest.mark.parametrize("kernel", ["lbnn_softmax", "lbnn_softmax_fast", "lbnn_sigmoid"])
def test_heads_compute_their_formulas(kernels: Kernels, kernel: str) -> None:
    head = find_head(kernel[5:])
    for mean, sigma in [*HEAD_ROWS, *WIDE_ROWS]:
        if len(mean) < head.fewest:
            continue
        logits = Moments(*(np.asarray(x, np.float32).astype(np.float64)[None] for x in (mean, np.square(sigma))))
        want = head.formula(NUMPY, logits)
        probability, parts = classes_of(kernels, kernel, mean, sigma)
        assert np.abs(probability - want.probability[0]).max() < 2e-6
        assert np.abs(parts - [want.entropy[0], want.epistemic[0]]).max() < 1e-5 * (1.0 + want.entropy[0])


def test_the_softmax_head_is_the_mean_of_the_softmax(kernels: Kernels) -> None:
    for (mean, sigma), truth in zip(HEAD_ROWS, HEAD_TRUTH, strict=True):
        if len(mean) > 1:
            probability, _ = classes_of(kernels, "lbnn_softmax", mean, sigma)
            assert np.abs(probability - truth.probability).max() < 1.5e-3
            assert abs(float(probability.astype(np.float64).sum()) - 1.0) < 1e-6


def test_labels_follow_the_normal_distribution_at_every_logit(kernels: Kernels) -> None:
    mean = np.linspace(-40.0, 40.0, 20_001, dtype=np.float32)
    for sigma in (0.0, 1.0, 6.0):
        probability, _ = classes_of(kernels, "lbnn_sigmoid", mean, np.full(len(mean), sigma))
        logits = Moments(mean.astype(np.float64)[None], np.full((1, len(mean)), sigma**2))
        want = find_head("sigmoid").formula(NUMPY, logits).probability[0]
        assert np.abs(probability - want).max() < 2.5e-7


def test_heads_give_probabilities_whatever_the_logits(kernels: Kernels) -> None:
    rng = np.random.default_rng(3)
    for kernel in ("lbnn_softmax", "lbnn_softmax_fast", "lbnn_sigmoid"):
        for _ in range(60):
            mean = rng.normal(size=5) * 10.0 ** rng.integers(-30, 18, 5)
            sigma = 10.0 ** rng.uniform(-19, 18, 5) * rng.integers(0, 2, 5)
            probability, parts = classes_of(kernels, kernel, mean, sigma)
            assert ((probability >= 0) & (probability <= 1.000001)).all(), (kernel, mean, sigma)
            assert (parts >= 0).all() and parts[1] <= parts[0]


def test_the_largest_is_the_first_of_equal_ones(kernels: Kernels) -> None:
    for x, index in (([3.0], 0), ([1.0, 2.0, 2.0], 1), ([5.0, 2.0, 5.0], 0), ([-3.0, -2.0, -1.0], 2)):
        assert kernels("lbnn_largest", np.array(x, np.float32), len(x)) == index


@pytest.mark.parametrize("factors", [(1, 1), (2, 3), (4, 1)], ids=str)
def test_upsampling_copies_each_element(kernels: Kernels, factors: tuple[int, int]) -> None:
    x = random(3, 4, 5)
    expected = x.repeat(factors[0], axis=1).repeat(factors[1], axis=2)
    out = np.full(expected.shape, np.nan, np.float32)
    kernels("lbnn_upsample", x, out, 3, 4, 5, *factors)
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("p", [1e-6, 0.1, 0.5, 0.999])
def test_dropout_has_the_moments_of_its_two_outcomes(kernels: Kernels, p: float) -> None:
    e, v = 10.0 * random(33), positive(33)
    mean, var, kept, noise = e.copy(), v.copy(), 1.0 / (1.0 - p), p / (1.0 - p)
    kernels("lbnn_dropout", mean, var, 33, kept, noise)
    second = (1.0 - p) * (v.astype(np.float64) + e.astype(np.float64) ** 2) / (1.0 - p) ** 2
    assert_moments(mean, var, e, second - e.astype(np.float64) ** 2)
    out_mean, out_var = empty(33)
    kernels("lbnn_dropout_point", e, out_mean, out_var, 33, noise)
    assert_moments(out_mean, out_var, e, noise * e.astype(np.float64) ** 2)


@pytest.mark.parametrize("sigma", [1e-4, 0.1, 0.6, 1.0, 1.3, 3.0, 30.0])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_smooth_activation_has_the_moments_of_the_rule_and_of_the_quadrature(
    kernels: Kernels, function: str, sigma: float
) -> None:
    """Every number of the table and every constant is in the one, the mathematics in the other."""
    mean = np.linspace(-6.0 if "gelu" not in function else -3.0, 6.0, 43).astype(np.float32)
    var, attrs = np.full_like(mean, sigma**2), {"function": function, "scale": 1.0}
    ruled = ops.find("smooth").formula(NUMPY, Moments(mean.astype(float), var.astype(float)), **attrs)
    truth = true_moments(function, mean[::6].astype(float), float(np.sqrt(var[0], dtype=float)))
    numbers = stored_table(function).astype(np.float32), list(FUNCTIONS).index(function)
    kernels("lbnn_smooth", mean, var, len(mean), *numbers, 1.0)
    assert_moments(mean, var, *ruled, 1e-5)
    assert_moments(mean[::6], var[::6], *truth, 6e-3)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_smooth_activation_of_known_values_is_the_function(kernels: Kernels, function: str) -> None:
    near, far = np.linspace(-3.0, 9.0, 401), [-1e30, -80.0, -20.0, -8.0, -1e-20, 0.0, 1e-20, 30.0, 1e30]
    x, scale = np.concatenate([near, far]).astype(np.float32), 0.5
    true = ops.find("smooth_point").formula(NUMPY, x.astype(float), function=function, scale=scale)
    torch.testing.assert_close(FUNCTIONS[function].oracle(double(x[:401]) * scale).numpy() / scale, true[:401])
    kernels("lbnn_smooth_point", x, len(x), list(FUNCTIONS).index(function), scale)
    np.testing.assert_allclose(x[:401], true[:401], rtol=1e-6, atol=0.0)
    np.testing.assert_allclose(x[401:], true[401:], rtol=8e-6, atol=1e-36)


@pytest.mark.parametrize("build", [build for build in TRIED if "fast-math" not in build])
def test_what_is_not_finite_is_not_lost_in_a_function_that_ends_in_a_constant(build: str, folder: Path) -> None:
    kernels = compile_kernels(BUILDS[build], folder)
    mean, var = np.array([np.inf, -np.inf, np.nan, 0.0], np.float32), np.array([1.0, 0.1, 1.0, np.inf], np.float32)
    point, table = mean.copy(), stored_table("tanh").astype(np.float32)
    kernels("lbnn_smooth", mean, var, 4, table, 1, 1.0)
    kernels("lbnn_smooth_point", point, 4, 1, 1.0)
    assert not np.isfinite(var).any() and not np.isfinite(mean[:3]).any() and not np.isfinite(point[:3]).any()


@lru_cache(maxsize=64)
def exact_elu(number: int, sigma: float) -> tuple[np.ndarray, ...]:
    """E around zero and far below it, V, both in float32, and the moments with 40 digits, of float32 numbers."""
    attrs = {key: float(np.float32(value)) for key, value in ELU_EXAMPLES[number].items()}
    around = np.array([-9.0, -5.5, -3.0, -2.1, -1.2, -0.4, 0.0, 1e-4, 0.3, 1.1, 2.5, 6.0, 300.0]) * sigma
    mean = (np.concatenate([around, [-1.0, -20.0]]) * attrs["beta"]).astype(np.float32)
    var = np.full_like(mean, np.float32(sigma * attrs["beta"]) ** 2)
    true = [elu_moments(float(e), float(v), **attrs) for e, v in zip(mean, var, strict=True)]
    return mean, var, *np.array(true, np.float64).T


@pytest.mark.parametrize("sigma", [1e-9, 0.03, 0.345, 0.355, 1.0, 30.0, 1e9])
@pytest.mark.parametrize("number", range(len(ELU_EXAMPLES)))
def test_elu_is_exact_to_float32(kernels: Kernels, number: int, sigma: float) -> None:
    """On both sides of where the forms change, at sigma = 0.35. In the tail the rounding of E / sigma counts x^2."""
    e, v, true_mean, true_var = exact_elu(number, sigma)
    allowed = 6e-6 + 2e-7 * np.minimum(e.astype(float) ** 2 / v, 100.0)
    mean, var = e.copy(), v.copy()
    kernels("lbnn_elu", mean, var, len(mean), *ELU_EXAMPLES[number].values())
    assert (var >= 0).all() and np.isfinite(mean).all()
    assert np.all(np.abs(mean - true_mean) <= 1e-6 * (np.abs(true_mean) + np.sqrt(true_var)))
    asked = true_var > 1e-36  # where float32 has all its digits
    assert np.all(np.abs(var - true_var)[asked] <= (allowed * true_var)[asked])
    assert np.all(var[~asked] <= 1.1e-36)


@pytest.mark.parametrize("attrs", ELU_EXAMPLES)
def test_elu_of_a_certain_value_and_of_points_is_the_plain_function(
    kernels: Kernels, attrs: Any, request: pytest.FixtureRequest
) -> None:
    x = np.array([-1e37, -88.0, -7.0, -0.7, -1e-3, -1e-30, 0.0, 1e-30, 0.7, 1e9, 1e37], np.float32)
    mean, var, point = x.copy(), np.zeros_like(x), x.copy()
    kernels("lbnn_elu", mean, var, len(x), *attrs.values())
    kernels("lbnn_elu_point", point, len(x), *attrs.values())
    np.testing.assert_allclose(mean, point, rtol=2e-7 if "fast-math" in request.node.name else 0.0)
    assert not var.any()
    np.testing.assert_allclose(point, OPS["elu_point"].formula(NUMPY, x.astype(float), **attrs), rtol=6e-7)


@pytest.mark.parametrize("build", [build for build in TRIED if "fast-math" not in build])
def test_what_is_not_finite_is_not_lost_below_zero(build: str, folder: Path) -> None:
    kernels = compile_kernels(BUILDS[build], folder)
    for spread in (0.0, 0.01, 9.0):
        mean, point = (np.array([np.inf, -np.inf, np.nan], np.float32) for _ in range(2))
        var = np.full(3, spread, np.float32)
        kernels("lbnn_elu", mean, var, 3, 1.0, 1.0, 1.0)
        kernels("lbnn_elu_point", point, 3, 1.0, 1.0, 1.0)
        assert not np.isfinite(mean).any() and not np.isfinite(point).any() and not np.isfinite(var[1:]).any()
    mean, var = np.array([-1.0, 0.0, 1.0], np.float32), np.array([np.inf, np.inf, np.nan], np.float32)
    kernels("lbnn_elu", mean, var, 3, 1.0, 1.0, 1.0)
    assert not np.isfinite(var).any()


@pytest.mark.parametrize("sigma", [1e-5, 1e-3, 0.2, 0.5, 0.6, 3.0, 30.0])
@pytest.mark.parametrize("attrs", TABLE_EXAMPLES, ids=["16 cells", "40 cells"])
def test_a_tabulated_function_has_the_moments_of_the_rule_and_of_the_quadrature(
    kernels: Kernels, attrs: dict[str, Any], sigma: float
) -> None:
    """Within the table, on its ends and knots, and beyond; the quadrature is of the function that the table stores."""
    mean = np.concatenate([np.linspace(-9.0, 9.0, 37), [-300.0, 1e4, 0.01]]).astype(np.float32)
    var, table = np.full_like(mean, sigma**2), pack_function(stored_function(**attrs)).astype(np.float32)
    ruled = ops.find("tabulated").formula(NUMPY, Moments(mean.astype(float), var.astype(float)), **attrs)
    z = np.linspace(-8.0, 8.0, 1601)
    places = mean.astype(float)[:, None] + sigma * z
    found = ops.find("tabulated").oracle(torch.tensor(places), **attrs).numpy()
    mass = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    true = found @ mass
    sd = np.sqrt((found - true[:, None]) ** 2 @ mass)
    kernels("lbnn_tabulated", mean, var, len(mean), table, len(attrs["values"]) - 1)
    assert_moments(mean, var, *ruled, 1e-5)
    promised = 1e-4 if sigma > 1.1 * attrs["step"] else 0.05
    near = np.abs(mean) < 10.0
    assert np.abs(mean - true)[near].max() <= promised * sigma + 3e-6 * np.abs(true[near]).max()
    assert np.abs(np.sqrt(var) - sd).max() <= promised * sigma


@pytest.mark.parametrize("attrs", TABLE_EXAMPLES, ids=["16 cells", "40 cells"])
def test_a_tabulated_function_of_known_values_is_the_function(kernels: Kernels, attrs: dict[str, Any]) -> None:
    x = np.concatenate([np.linspace(-9.0, 9.0, 401), [-1e30, -80.0, -1e-20, 0.0, 1e-20, 30.0, 1e30]]).astype(np.float32)
    true = ops.find("tabulated").oracle(double(x), **attrs).numpy()
    table = pack_function(stored_function(**attrs)).astype(np.float32)
    kernels("lbnn_tabulated_point", x, len(x), table, len(attrs["values"]) - 1)
    np.testing.assert_allclose(x, true, rtol=2e-6, atol=1e-6)
