"""Generated C under every compiler, language and level a user may choose: no warning, self-test 0, parity kept."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from c_models import WARNINGS, export, read, run
from conftest import need
from lbnn import parity
from lbnn.toolchains import targets_folder

ROOT = Path(__file__).parent.parent
MODELS = ("gas_sensor", "zoo")  # an MLP, and a CNN with every operator that has a kernel
SAMPLES = 28

LEVELS = {
    "c99-O0": "-std=c99 -O0",
    "c99-O2": "-std=c99 -O2",
    "c99-O3": "-std=c99 -O3",
    "c99-Os": "-std=c99 -Os",
    "c99-fast-math": "-std=c99 -O2 -ffast-math",
    "gnu99-native": "-std=gnu99 -O3 -march=native",
    "c11-O2": "-std=c11 -O2",
    "c11-fast-math": "-std=c11 -O3 -ffast-math -march=native",
    "c++11-O2": "-x c++ -std=c++11 -O2",
    "c++11-fast-math": "-x c++ -std=c++11 -O2 -ffast-math",
    "c++17-O3": "-x c++ -std=c++17 -O3",
    "c++17-Os": "-x c++ -std=c++17 -Os",
}
# -m32 without a 32-bit C library: our own start, our own system calls. x87 computes in 80 bits.
BITS32 = {
    "x87-O0": "-m32 -march=i686 -mno-sse -O0",
    "x87-O2": "-m32 -march=i686 -mno-sse -O2",
    "sse-O2": "-m32 -march=pentium4 -mfpmath=sse -O2",
    "sse-fast-math": "-m32 -march=pentium4 -mfpmath=sse -O3 -ffast-math",
}
FREESTANDING = "-std=c99 -DFREESTANDING32 -ffreestanding -nostdlib -static -fno-pic -fno-stack-protector"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("compilers")
    for name in MODELS:
        export(name, base / name)
    return base


def sources(folder: Path) -> list[Path]:
    models = [folder / name / f"{name}{part}.c" for name in MODELS for part in ("", "_selftest")]
    return [ROOT / "tests/c/predict_samples.c", *models]


def build(folder: Path, compiler: str, flags: str, libraries: str = "-lm") -> Path:
    need(compiler)
    out = folder / "program"
    include = [f"-I{folder / name}" for name in MODELS]
    run(
        compiler,
        *flags.split(),
        "-fno-math-errno",
        *WARNINGS,
        *include,
        *sources(folder),
        "-o",
        out,
        *libraries.split(),
    )
    return out


def check(program: Path) -> None:
    """Predictions within the contract, and self-tests that say so too."""
    models = [read(name) for name in MODELS]
    drawn = [parity.draw_samples(model, SAMPLES, seed=3) for model in models]
    inputs = b"".join(samples.mean.tobytes() for samples in drawn)
    done = subprocess.run([str(program)], input=inputs, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, f"status {done.returncode}"
    numbers = np.frombuffer(done.stdout, np.float32)
    for model, samples in zip(models, drawn, strict=True):
        wanted = parity.predict(model.graph, samples.mean)
        size = wanted.mean[0].size
        answers, numbers = np.split(numbers, [2 * size * SAMPLES])
        mean, var = answers.reshape(SAMPLES, 2, size).transpose(1, 0, 2)
        errors = parity.errors(parity.Outcome(mean, var), wanted)
        assert max(part.max() for part in errors) <= parity.FLOAT32_TOLERANCE, (model.name, errors)
    assert not numbers.size


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_64_bits(compiler: str, level: str, folder: Path) -> None:
    check(build(folder, compiler, LEVELS[level]))


@pytest.mark.parametrize("level", BITS32)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_32_bits(compiler: str, level: str, folder: Path) -> None:
    headers = f"-isystem {targets_folder() / 'freestanding'}"
    check(build(folder, compiler, f"{FREESTANDING} {BITS32[level]} {headers}", ""))
