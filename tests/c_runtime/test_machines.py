"""Generated C on machines that differ from this one: byte order, size of int, rounding, denormals."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_every_compiler import build, export_forms, mismatch

from c_models import MODELS, Library, export, generated, mlp, read, run
from int_models import branches
from lbnn import nn as bnn
from lbnn.base.resources import header
from lbnn.device.avr import AVR_BOARDS, AvrImage
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.program import LONGEST_STEP
from lbnn.graph.reference import predict
from lbnn.measure.parity import FLOAT32_TOLERANCE, Outcome, errors
from lbnn.measure.samples import draw_samples
from lbnn.measure.stored import as_stored
from lbnn.model.file import Model, read_model
from places import need
from tiny_net import need_device


def small_cnn() -> Model:
    """The kernels for images in two kilobytes of weights."""
    torch.manual_seed(3)
    layers = [bnn.Conv2d(1, 4, 3, padding=1), bnn.LeakyReLU(0.1), bnn.Conv2d(4, 4, 3, padding=1, groups=4)]
    layers += [bnn.Conv2d(4, 2, 1), bnn.ReLU(), bnn.AvgPool2d(2, padding=1), bnn.Flatten(), bnn.Linear(32, 4)]
    return read_model(bnn.Sequential(*layers, bnn.VarianceHead()), (1, 6, 6))


def worst(model: Model, samples: Any, mean: Any, var: Any) -> float:
    found = errors(Outcome(mean, var), predict(model.graph, samples))
    return float(max(part.max() for part in found))


# ---- another byte order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_big_endian_machine_keeps_the_contract(name: str, tmp_path: Path) -> None:
    model = read(name)
    samples = draw_samples(model, 28, seed=5).mean
    result = run_model(need_device("c-s390x"), generated(model, tmp_path / "c"), samples.reshape(len(samples), -1))
    assert not result.status.any()
    assert worst(model, samples, result.mean, result.variance) <= FLOAT32_TOLERANCE


def compile_only(compiler: str, source: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [need(compiler), *flags, "-c", source.name, "-o", "/dev/null"]
    return subprocess.run(command, cwd=source.parent, capture_output=True, text=True, check=False)


BIG_ENDIAN = "little-endian and this machine is not: export with --weights source"


@pytest.mark.parametrize("source", ["gas_sensor.c", "gas_sensor_weights.S"])
def test_binary_weights_refuse_a_big_endian_machine(source: str, tmp_path: Path) -> None:
    folder = export("gas_sensor", tmp_path / "out", weights="binary")
    done = compile_only("s390x-linux-gnu-gcc", folder / source)
    assert done.returncode != 0 and BIG_ENDIAN in done.stderr
    assert compile_only("gcc", folder / source).returncode == 0


@pytest.mark.parametrize(
    "flags", [("-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__"), ("-D__BIG_ENDIAN__",)]
)
def test_either_way_of_a_compiler_to_say_so_is_heeded(flags: tuple[str, ...], tmp_path: Path) -> None:
    folder = export("gas_sensor", tmp_path / "out", weights="binary")
    assert BIG_ENDIAN in compile_only("gcc", folder / "gas_sensor.c", *flags).stderr


def test_tcc_is_told_what_to_do_with_binary_weights_and_compiles_the_others(tmp_path: Path) -> None:
    folder = export("gas_sensor", tmp_path / "binary", weights="binary")
    done = compile_only("tcc", folder / "gas_sensor_weights.S")
    assert done.returncode != 0 and "export with --weights source" in done.stderr
    run("gcc", "-c", "gas_sensor_weights.S", "-o", "weights.o", cwd=folder)
    program = [folder / name for name in ("gas_sensor.c", "gas_sensor_selftest.c", "example_main.c", "weights.o")]
    assert "self-test: ok" in run_after("tcc", program, folder / "run")
    source = export("gas_sensor", tmp_path / "source")
    assert "self-test: ok" in run_after("tcc", sorted(source.glob("*.c")), source / "run")


def run_after(compiler: str, sources: list[Path], program: Path) -> str:
    run(compiler, *sources, "-lm", "-o", program)
    return run(program)


# ---- an int of 16 bits -----------------------------------------------------------------------------------------

AVR = ("-mmcu=atmega2560", "-std=c99", "-Os", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def small_classifier() -> Model:
    torch.manual_seed(4)
    layers = [bnn.Linear(3, 6), bnn.ReLU(), bnn.Linear(6, 3), bnn.SoftmaxHead()]
    return read_model(bnn.Sequential(*layers), (3,))


def shared_factors() -> Model:
    torch.manual_seed(5)
    layers = [bnn.Conv2d(1, 4, 3, variance="rank1"), bnn.ReLU(), bnn.Flatten(), bnn.Linear(64, 3, variance="rank1")]
    return read_model(bnn.Sequential(*layers), (1, 6, 6))


def tables() -> Model:
    """Every kernel that reads a table: piecewise, smooth, tabulated, affine."""
    torch.manual_seed(6)
    layers = [
        bnn.Linear(4, 6),
        bnn.Hardtanh(),
        bnn.Standardize([0.5] * 6, [2.0] * 6),
        bnn.Linear(6, 5),
        bnn.GELU(),
        bnn.Linear(5, 4),
    ]
    return read_model(bnn.Sequential(*layers, bnn.Pointwise(torch.sin, (-3.0, 3.0), 16)), (4,))


SHAPES = {"series": 128, "cnn": 192, "small cnn": 160, "factors": 32, "long sums": 32}
"""Bytes of the numbers that describe convolutions and pools: they are data."""


AVR_MODELS: dict[str, tuple[Callable[[], Model], dict[str, Any], str]] = {
    "mlp": (lambda: read("gas_sensor"), {}, "uno"),
    "half floats": (lambda: read("gas_sensor"), {"weights": "half"}, "uno"),
    "series": (lambda: read("series"), {}, "mega2560"),
    "cnn": (small_cnn, {}, "mega2560"),
    "small cnn": (small_cnn, {"optimize": "size"}, "mega2560"),
    "long sums": (lambda: read_model(bnn.Conv2d(9, 2, 3), (9, 4, 4)), {"optimize": "size"}, "mega2560"),
    "factors": (shared_factors, {}, "mega2560"),
    "tables": (tables, {}, "mega2560"),
    "classes": (small_classifier, {}, "uno"),
}


@pytest.mark.parametrize("name", AVR_MODELS)
def test_an_avr_keeps_the_contract_with_its_constants_in_flash(name: str, tmp_path: Path) -> None:
    make, options, board = AVR_MODELS[name]
    need_device(board)
    model = as_stored(make(), options.get("weights", "source"), False)
    samples = draw_samples(model, 7, seed=2).mean
    image = AvrImage(AVR_BOARDS[board], generated(model, tmp_path / "c", name="net", **options), ("-Os",))
    result = image.run([np.ascontiguousarray(samples.reshape(len(samples), -1), np.float32)], False)
    assert not result.status.any() and worst(model, samples, result.mean, result.variance) <= FLOAT32_TOLERANCE
    assert result.sizes is not None and result.sizes.ram <= SHAPES.get(name, 0), "constants are in flash alone"
    assert image.selftest(tmp_path) == 0


def test_integers_refuse_an_int_of_16_bits(tmp_path: Path) -> None:
    net = generated(branches(), tmp_path / "c", name="net", dtype="int8")
    refused = compile_only("avr-gcc", net.source, *AVR)
    assert refused.returncode != 0 and "needs an int of 32 bits: export with --dtype float32" in refused.stderr
    assert compile_only("gcc", net.source, "-Werror", "-fsyntax-only").returncode == 0


SIXTEEN_BITS = "which is more than an int of this machine holds"
TOO_LARGE = {
    "weights": lambda: read_model(mlp(64, 255, 1), (64,)),
    "work memory": lambda: read_model(bnn.Sequential(bnn.Conv2d(1, 2, 1), bnn.ReLU()), (1, 100, 100)),
    "padding": lambda: read_model(bnn.Conv1d(1, 1, 1, padding=20_000, stride=20_000), (1, 4)),
    "stride": lambda: read_model(bnn.Conv1d(1, 1, 1, stride=40_000), (1, 4)),
    "window": lambda: read_model(bnn.AvgPool2d(256, padding=128), (1, 4, 4)),
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_a_model_that_counts_beyond_16_bits_does_not_compile_there(what: str, tmp_path: Path) -> None:
    net = generated(TOO_LARGE[what](), tmp_path / "c", name="net")
    assert SIXTEEN_BITS in compile_only("avr-gcc", net.source, *AVR).stderr
    assert compile_only("gcc", net.source, "-Werror", "-fsyntax-only").returncode == 0


def test_the_limit_is_the_largest_int_of_the_machine_itself(tmp_path: Path) -> None:
    """At the export's own number a compiler agrees, one below it does not."""
    model = read_model(mlp(64, 255, 1), (64,))
    largest = lower(model, COptions()).largest_int
    net = generated(model, tmp_path / "c", name="net")
    for most, agrees in ((largest, True), (largest - 1, False)):
        (tmp_path / "limits.h").write_text(f"#define INT_MAX {most}\n")
        done = compile_only("gcc", net.source, f"-I{tmp_path}", "-fsyntax-only")
        assert (done.returncode == 0) is agrees and (SIXTEEN_BITS in done.stderr) is not agrees


def test_the_longest_step_is_that_of_the_runtime() -> None:
    assert f"#define LBNN_FOLD {LONGEST_STEP}\n" in header("lbnn.h")


# ---- rounding, denormals ---------------------------------------------------------------------------------------

MODES = {"up": "-O2", "down": "-O2", "zero": "-O2 -DLBNN_NO_SIMD", "flush": "-O2"}


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_forms(tmp_path_factory.mktemp("modes"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_other_modes_of_the_processor_keep_the_contract(compiler: str, mode: str, forms: Path) -> None:
    program = build(forms / "folder", compiler, f"-std=c99 {MODES[mode]}")
    assert mismatch(program, mode) <= FLOAT32_TOLERANCE


# ---- arrays that overlap ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    out = tmp_path_factory.mktemp("overlap")
    net = generated(read("gas_sensor"), out / "c", name="net", input_variance=True)
    run("gcc", "-std=c99", "-O2", "-shared", "-fPIC", net.source, "-o", out / "net.so", "-lm")
    return Library(out / "net.so", net.name, net.input_len, net.output_len, net.work_len)


def test_mean_and_variance_in_one_array_are_refused_and_the_array_stays(library: Library) -> None:
    arrays = {key: np.full(size, 0.5, np.float32) for key, size in sizes(library).items()}
    before = arrays["mean"].copy()
    assert call(library, arrays | {"variance": arrays["mean"]}) == -4
    assert np.array_equal(arrays["mean"], before)


def test_outputs_may_lie_where_their_inputs_are(library: Library) -> None:
    arrays = {key: np.full(size, 0.5, np.float32) for key, size in sizes(library).items()}
    assert call(library, arrays) == 0
    again = {key: np.full(size, 0.5, np.float32) for key, size in sizes(library).items()}
    again |= {"mean": again["input"], "variance": again["input_variance"]}
    assert call(library, again) == 0
    for key in ("mean", "variance"):
        assert np.array_equal(again[key][: library.output_len], arrays[key])


def sizes(library: Library) -> dict[str, int]:
    inputs = dict.fromkeys(("input", "input_variance"), library.input_len)
    return inputs | dict.fromkeys(("mean", "variance"), library.output_len) | {"work": library.work_len}


def call(library: Library, arrays: dict[str, np.ndarray]) -> int:
    return int(library.function(*(arrays[key].ctypes.data_as(ctypes.c_void_p) for key in sizes(library))))
