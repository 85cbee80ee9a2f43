"""Sums of hundreds and thousands of terms keep the parity contract, equal terms too, which all round the same way.

Every kernel that adds up products or elements, on the host with and without vector registers, for speed and for size,
and on an emulated Cortex-M4F. An output sees `terms` inputs; each output has weights of its own.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_kernels import PLAIN, assert_moments, compile_kernels, double
from test_strict import Emulated

from lbnn.device.cores import CORES
from lbnn.device.firmware import link_for_core
from lbnn.device.unicorn import UnicornMachine
from lbnn.exporters.c.pack import pack_weights
from lbnn.exporters.c.shapes import ConvShape, PoolShape, SmallConvShape, small_shape
from lbnn.measure.parity import FLOAT32_TOLERANCE
from places import ROOT, need
from rooms import conv_room

TERMS = (784, 1024, 4096)
BUILDS = {
    "vectors": "gcc -std=c99 -O2",
    "wide-vectors": "gcc -std=gnu99 -O3 -march=native -fno-math-errno",
    "scalar": "gcc -std=c99 -O2 -DLBNN_NO_SIMD",
    "scalar-4": "gcc -std=gnu99 -O2 -march=native -DLBNN_NO_SIMD -DLBNN_BLOCK=4",
    "size": "gcc -std=c99 -Os -DLBNN_OPTIMIZE_SIZE -DLBNN_NO_SIMD",
    "clang": "clang -std=c99 -O2",
}
CORE_BUILDS = {"gcc": ("-O2", "-std=gnu99", "-fno-math-errno"), "zig": ("-O2", "-std=c99", "-fno-math-errno")}


# ---- layers: the kernels that can compute one, and its shape ----------------------------------------


def dense(terms: int, outputs: int) -> ConvShape:
    """A linear layer as a convolution of one row."""
    return ConvShape(1, 1, terms, outputs, 1, 1, 1, terms, 1, 1, 0, 0, 1, 1, 1)


def deep_3x3(terms: int) -> ConvShape:
    return ConvShape(terms // 9, 4, 5, 2, 4, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1)


def deep_1x1(terms: int) -> ConvShape:
    return ConvShape(terms, 1, 5, 10, 1, 5, 1, 1, 1, 1, 0, 0, 1, 1, 1)


def deep_5x5(terms: int) -> ConvShape:
    """Two groups; parts begin in the middle of a window, and of its rows."""
    return ConvShape(2 * (terms // 25), 5, 6, 6, 5, 6, 5, 5, 1, 1, 2, 2, 1, 1, 2)


def wide(terms: int) -> ConvShape:
    """A 1-D convolution with one output channel."""
    return ConvShape(1, 1, terms + 19, 1, 1, 22, 1, terms, 1, 1, 0, 1, 1, 1, 1)


def sparse(terms: int) -> ConvShape:
    """A 1-D convolution with stride and dilation."""
    return ConvShape(1, 1, 2 * terms + 7, 3, 1, 4, 1, terms, 1, 3, 0, 1, 1, 2, 1)


def square(terms: int) -> ConvShape:
    """A window as large as the input."""
    side = int(np.sqrt(terms))
    return ConvShape(1, side, side, 9, 3, 3, side, side, 1, 1, 1, 1, 1, 1, 1)


LAYERS: dict[str, tuple[Callable[[int], ConvShape], str]] = {
    "linear, 1 output": (lambda terms: dense(terms, 1), "lbnn_linear"),
    "linear, 13 outputs": (lambda terms: dense(terms, 13), "lbnn_linear"),
    "linear, 37 outputs": (lambda terms: dense(terms, 37), "lbnn_linear"),
    "3x3": (deep_3x3, "lbnn_conv2d_3x3"),
    "1x1": (deep_1x1, "lbnn_conv2d_1x1"),
    "5x5": (deep_5x5, "lbnn_conv2d"),
    "1-D, one channel": (wide, "lbnn_conv2d_patch"),
    "1-D, strided": (sparse, "lbnn_conv2d_patch"),
    "1-D, in its general form": (sparse, "lbnn_conv2d"),
    "a window as large as the input": (square, "lbnn_conv2d_patch"),
}


class Layer:
    """Inputs and weights of a layer, all equal for each output or random, and what float64 makes of them."""

    def __init__(self, s: ConvShape, equal: bool, level: int = 1) -> None:
        rng = np.random.default_rng(level)
        inputs = (s.in_channels, s.in_height, s.in_width)
        kernel = (s.out_channels, s.in_channels // s.groups, s.kernel_height, s.kernel_width)
        spread = (s.out_channels, 1, 1, 1) if equal else kernel

        def array(shape: tuple[int, ...], values: Any) -> np.ndarray:
            return np.ascontiguousarray(np.broadcast_to(values, shape), np.float32)

        self.shape = s
        self.mean = array(inputs, 0.07 * level if equal else rng.normal(size=inputs))
        self.var = array(inputs, 1e-2 * level if equal else rng.exponential(size=inputs))
        mu = array(kernel, 0.1 * (1.0 + rng.uniform(size=spread)) if equal else rng.normal(size=kernel))
        sigma2 = array(kernel, rng.exponential(size=spread))
        bias, bias_var = (rng.uniform(size=s.out_channels).astype(np.float32) for _ in range(2))
        self.packed = pack_weights(mu, sigma2, bias, bias_var, s.groups)

        def conv(x: torch.Tensor, w: torch.Tensor, b: Any = None) -> np.ndarray:
            stride, pad = (s.stride_height, s.stride_width), (s.padding_height, s.padding_width)
            offset = None if b is None else double(b)
            dilation = (s.dilation_height, s.dilation_width)
            return F.conv2d(x[None], w, offset, stride, pad, dilation, s.groups)[0].numpy()

        e, v, w, w2 = double(self.mean), double(self.var), double(mu), double(sigma2)
        self.true_mean = conv(e, w, bias)
        self.point_var = conv(e**2, w2, bias_var)
        self.true_var = conv(v + e**2, w2, bias_var) + conv(v, w**2)

    def check(self, call: Callable[[str, list[Any]], list[np.ndarray]], kernel: str) -> None:
        """The kernel, its form for points and the small one."""
        point = f"{kernel}_point"
        self._one(call, kernel, [self.mean, self.var], self._sizes(kernel), self.true_var)
        self._one(call, point, [self.mean], self._sizes(point), self.point_var)
        small = small_shape(self.shape)
        assert small is not None
        self._one(call, "lbnn_conv2d_small", [self.mean, self.var], [small], self.true_var)

    def _sizes(self, kernel: str) -> list[Any]:
        if kernel.startswith("lbnn_linear"):
            return [self.shape.in_width, self.shape.out_channels]
        return [self.shape, *conv_room(kernel, self.shape)]

    def _one(self, call: Any, name: str, inputs: list[np.ndarray], sizes: list[Any], true_var: np.ndarray) -> None:
        outputs = [np.full(true_var.shape, np.nan, np.float32) for _ in range(2)]
        arrays = call(name, [*inputs, self.packed, *outputs, *sizes])
        mean, var = (array.reshape(true_var.shape) for array in arrays[-2:])
        assert_moments(mean, var, self.true_mean, true_var, FLOAT32_TOLERANCE)


@cache
def layer(name: str, terms: int, equal: bool, level: int) -> Layer:
    return Layer(LAYERS[name][0](terms), equal, level)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("long")


@pytest.fixture(params=BUILDS)
def host(request: pytest.FixtureRequest, folder: Path) -> Callable[[str, list[Any]], list[np.ndarray]]:
    kernels = compile_kernels(BUILDS[request.param], folder, PLAIN)

    def call(name: str, arguments: list[Any]) -> list[np.ndarray]:
        kernels(name, *arguments)
        return [argument for argument in arguments if isinstance(argument, np.ndarray)]

    return call


@cache
def core(compiler: str, folder: Path) -> Emulated:
    if compiler == "gcc":
        need("arm-none-eabi-gcc")
    names = sorted({kernel + end for _, kernel in LAYERS.values() for end in ("", "_point")})
    names += ["lbnn_conv2d_small", "lbnn_avg_pool", "lbnn_avg_pool_correlated", "lbnn_avg_pool_point"]
    flags = (*CORE_BUILDS[compiler], "-DLBNN_KERNEL=")
    m4, image, include = CORES["cortex-m4"], folder / f"{compiler}.elf", [ROOT / "c_runtime"]
    return Emulated(UnicornMachine(link_for_core(m4, [PLAIN], image, names, flags, include, compiler), m4))


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("name", LAYERS)
def test_equal_terms_stay_within_the_contract(host: Any, name: str, terms: int) -> None:
    for level in (1, 2, 3, 4, 5):
        layer(name, terms, True, level).check(host, LAYERS[name][1])


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("name", LAYERS)
def test_random_terms_stay_within_the_contract(host: Any, name: str, terms: int) -> None:
    layer(name, terms, False, 1).check(host, LAYERS[name][1])


@pytest.mark.parametrize("name", LAYERS)
def test_sums_of_whole_parts_and_of_one_term_more_or_less_stay_within_the_contract(host: Any, name: str) -> None:
    """Parts are of 144 terms, with moments of 72: a part of none must not begin."""
    for terms in (71, 72, 73, 144, 145, 216):
        layer(name, terms, False, 1).check(host, LAYERS[name][1])


@pytest.mark.parametrize("compiler", CORE_BUILDS)
@pytest.mark.parametrize("name", LAYERS)
def test_an_emulated_core_stays_within_the_contract(folder: Path, name: str, compiler: str) -> None:
    for equal, level in ((True, 1), (True, 3), (False, 1)):
        layer(name, TERMS[-1], equal, level).check(core(compiler, folder).call, LAYERS[name][1])


# ---- pooling ----------------------------------------------------------------------------------------

WINDOWS = [(28, 28), (32, 32), (64, 64), (1, 4096), (4096, 1), (1366, 3)]


def check_pooling(call: Callable[[str, list[Any]], list[np.ndarray]], window: tuple[int, int], level: int) -> None:
    height, width = window
    shape = PoolShape(2, height, width + 1, 1, 2, height, width, 1, 1, 0, 0, 1)
    size = 2 * height * (width + 1)
    mean, var = (np.full(size, value, np.float32) for value in (0.07 * level, 0.013 * level))
    out = [np.full(4, np.nan, np.float32) for _ in range(2)]
    got_mean, got_var = call("lbnn_avg_pool", [mean, var, *out, shape])[-2:]
    true_mean, true_var = np.full(4, mean[0], np.float64), np.full(4, var[0] / np.float64(height * width))
    assert_moments(got_mean, got_var, true_mean, true_var, FLOAT32_TOLERANCE)
    assert np.abs(got_mean / true_mean - 1.0).max() <= FLOAT32_TOLERANCE
    (point,) = call("lbnn_avg_pool_point", [mean, np.full(4, np.nan, np.float32), shape])[-1:]
    assert point.tobytes() == got_mean.tobytes()
    together = call("lbnn_avg_pool_correlated", [mean, var, *(part.copy() for part in out), shape])[-2:]
    assert_moments(*together, true_mean, np.full(4, var[0], np.float64), FLOAT32_TOLERANCE)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_pooling_over_big_windows(host: Any, window: tuple[int, int]) -> None:
    for level in (1, 2, 3, 4, 5):
        check_pooling(host, window, level)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_pooling_over_big_windows_on_an_emulated_core(folder: Path, window: tuple[int, int]) -> None:
    check_pooling(core("zig", folder).call, window, 1)


# ---- what keeps it so --------------------------------------------------------------------------------


def test_every_kernel_of_a_layer_adds_in_the_same_order(folder: Path) -> None:
    """Fast, small and general forms, vectors and scalars, 8 and 4 outputs at a time: the same bits if asked for."""
    strict = "-ffp-contract=off -DLBNN_STRICT -DLBNN_NO_CONTRACTION"
    commands = [f"{command} {strict}" for command in BUILDS.values()]
    for name, (shape, kernel) in LAYERS.items():
        given, found = layer(name, TERMS[0], False, 1), set()
        small = small_shape(shape(TERMS[0]))
        for command in commands:
            run = compile_kernels(command, folder, PLAIN)
            for form, sizes in (
                (kernel, given._sizes(kernel)),
                ("lbnn_conv2d", [given.shape]),
                ("lbnn_conv2d_small", [small]),
            ):
                out = [np.full(given.true_var.shape, np.nan, np.float32) for _ in range(2)]
                run(form, given.mean, given.var, given.packed, *out, *sizes)
                found.add(out[0].tobytes() + out[1].tobytes())
        assert len(found) == 1, name


def test_one_long_chain_would_not_do(folder: Path) -> None:
    """The same kernels with parts of a million: the worst case is real."""
    runtime = folder / "chain"
    runtime.mkdir()
    for header in (ROOT / "c_runtime").glob("*.h"):
        (runtime / header.name).write_text(
            header.read_text().replace("#define LBNN_FOLD 144", "#define LBNN_FOLD 1000000")
        )
    chain = compile_kernels(f"gcc -std=c99 -O2 -I{shlex.quote(str(runtime))}", folder, PLAIN)
    given = layer("linear, 13 outputs", TERMS[-1], True, 1)

    def call(name: str, arguments: list[Any]) -> list[np.ndarray]:
        chain(name, *arguments)
        return [argument for argument in arguments if isinstance(argument, np.ndarray)]

    with pytest.raises(AssertionError):
        given.check(call, "lbnn_linear")


def test_the_rows_of_a_linear_layer_have_a_small_form() -> None:
    assert isinstance(small_shape(dense(4096, 37)), SmallConvShape)
