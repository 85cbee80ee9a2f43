"""Half floats in C: every one of them decoded to the bits of IEEE, by every compiler, instruction and vector."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lbnn.device.cores import CORES
from lbnn.device.firmware import link_for_core
from lbnn.device.unicorn import UnicornMachine
from places import ROOT, need

SOURCE = ROOT / "tests/c/half.c"
FUNCTIONS = ("decode_used", "decode_plain", "decode_lanes")
BUILDS = {
    "gcc": "gcc -std=c99 -O2",
    "gcc-O0": "gcc -std=c99 -O0",
    "gcc-native": "gcc -std=gnu99 -O3 -march=native -ffast-math",
    "gcc-scalar": "gcc -std=c99 -O2 -DLBNN_NO_SIMD -ffast-math",
    "clang": "clang -std=c99 -O2",
    "g++": "g++ -x c++ -std=c++11 -O2",
}
CORES_AND_COMPILERS = [("cortex-m0", "gcc"), ("cortex-m4", "gcc"), ("cortex-m4", "zig"), ("cortex-m33", "gcc")]

PATTERNS = np.arange(65536, dtype=np.uint32)
FINITE = (PATTERNS & 0x7C00) != 0x7C00
"""Infinities and NaN are never stored."""
WORDS = PATTERNS | (PATTERNS[::-1] << np.uint32(16))


def ieee(patterns):
    with np.errstate(invalid="ignore"):
        return patterns.astype(np.uint16).view(np.float16).astype(np.float32)


WANTED = ieee(PATTERNS), ieee(PATTERNS[::-1])


def check(function, low, high):
    want_low, want_high = WANTED
    if function == "decode_lanes":
        with np.errstate(invalid="ignore", over="ignore"):
            want_high = want_high * want_high
    for got, want, finite in ((low, want_low, FINITE), (high, want_high, FINITE[::-1])):
        assert finite.sum() == 63488
        assert np.array_equal(got.view(np.uint32)[finite], want.view(np.uint32)[finite])


@pytest.mark.parametrize("build", BUILDS)
def test_every_half_float_has_its_bits_on_the_host(tmp_path: Path, build: str) -> None:
    compiler, *flags = BUILDS[build].split()
    need(compiler)
    exported = '-DLBNN_KERNEL=extern "C"' if compiler == "g++" else "-DLBNN_KERNEL="
    warnings = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Werror")
    compiled, library = tmp_path / "half.o", tmp_path / "half.so"
    given = (*warnings, exported, "-fPIC", f"-I{ROOT / 'c_runtime'}", "-c", SOURCE, "-o", compiled)
    subprocess.run((compiler, *flags, *given), check=True)
    subprocess.run((compiler, "-shared", compiled, "-o", library), check=True)  # without flags that flush denormals
    loaded = ctypes.CDLL(str(library))
    for function in FUNCTIONS:
        low, high = np.empty(65536, np.float32), np.empty(65536, np.float32)
        getattr(loaded, function)(*(array.ctypes.data_as(ctypes.c_void_p) for array in (WORDS, low, high)), 65536)
        check(function, low, high)


@pytest.mark.parametrize(("core", "compiler"), CORES_AND_COMPILERS)
def test_every_half_float_has_its_bits_on_a_core(tmp_path: Path, core: str, compiler: str) -> None:
    if compiler == "gcc":
        need("arm-none-eabi-gcc")
    flags = ("-O2", "-std=c99", "-DLBNN_KERNEL=")
    image = link_for_core(
        CORES[core], [SOURCE], tmp_path / "half.elf", list(FUNCTIONS), flags, [ROOT / "c_runtime"], compiler
    )
    machine = UnicornMachine(image, CORES[core])
    for function in FUNCTIONS[: 1 if core == "cortex-m0" else 2]:
        machine.free_buffers()
        words, low, high = (machine.alloc(65536) for _ in range(3))
        machine.write(words, WORDS)
        machine.call(function, words, low, high, 65536)
        check(function, machine.read(low, 65536), machine.read(high, 65536))


def test_a_cortex_m4_decodes_with_its_own_instructions(tmp_path: Path) -> None:
    need("arm-none-eabi-gcc")
    text = tmp_path / "half.s"
    flags = ("-O2", "-DLBNN_KERNEL=", f"-I{ROOT / 'c_runtime'}", *CORES["cortex-m4"].gcc)
    subprocess.run(("arm-none-eabi-gcc", *flags, "-S", SOURCE, "-o", text), check=True)
    used = text.read_text().partition("decode_used:")[2].partition("decode_plain:")[0]
    assert "vcvtb.f32.f16" in used and "vcvtt.f32.f16" in used
