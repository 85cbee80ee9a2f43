"""Generated C under every compiler, language and level a user may choose: no warning, self-test 0, parity kept."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from c_models import WARNINGS, export, read, run
from lbnn.base.resources import targets_folder
from lbnn.graph.reference import predict
from lbnn.measure.parity import FLOAT32_TOLERANCE, Outcome, errors
from lbnn.measure.samples import draw_samples
from places import ROOT, need

MODELS = ("gas_sensor", "zoo")  # an MLP, and a CNN with every operator that has a kernel
SAMPLES = 28

CPLUSPLUS = "-x c++ -Wold-style-cast"
LANGUAGES = {
    "c99": "-std=c99",
    "c11": "-std=c11",
    "c++11": f"{CPLUSPLUS} -std=c++11",
    "c++17": f"{CPLUSPLUS} -std=c++17",
}
LEVELS = {"O0": "-O0", "O2": "-O2", "O3": "-O3", "Os": "-Os", "fast-math": "-O2 -ffast-math"}
# -m32 without a 32-bit C library: our own start, our own system calls. x87 computes in 80 bits.
FREESTANDING = "-DFREESTANDING32 -ffreestanding -nostdlib -static -fno-pic -fno-stack-protector"
MACHINES = {
    "64 bits": "",
    "64 bits, native": "-march=native",
    "32 bits, x87": f"{FREESTANDING} -m32 -march=i686 -mno-sse",
    "32 bits, sse": f"{FREESTANDING} -m32 -march=pentium4 -mfpmath=sse",
}
FORMS: dict[str, dict[str, Any]] = {
    "folder": {},
    "single": {"single_file": True},  # where a compiler takes the kernels for the model's own code
    "small": {"single_file": True, "optimize": "size"},
}
COMPILERS = ("gcc", "clang")
# Every compiler with every language, level and machine, but not every combination: `make matrix` builds them all.
CHOSEN = {
    "64 bits": ["c99 O0 folder", "c99 O2 folder", "c99 O3 folder", "c99 Os folder", "c99 fast-math folder"]
    + ["c11 O2 folder", "c++11 O2 folder", "c++11 fast-math folder", "c++17 O3 folder", "c++17 Os folder"]
    + ["c99 O2 single", "c++11 O0 single", "c99 Os small", "c++11 O0 small"],
    "64 bits, native": ["c99 O3 single", "c11 fast-math folder"],
    "32 bits, x87": ["c99 O0 single", "c99 O2 folder", "c++11 Os small"],
    "32 bits, sse": ["c99 O2 folder", "c11 fast-math folder", "c++17 O3 single"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_forms(tmp_path_factory.mktemp("compilers"))


def export_forms(base: Path) -> Path:
    """Every model in every form: base/FORM/MODEL."""
    for form, options in FORMS.items():
        for name in MODELS:
            export(name, base / form / name, **options)
    return base


def sources(folder: Path) -> list[Path]:
    models = [folder / name / f"{name}{part}.c" for name in MODELS for part in ("", "_selftest")]
    return [ROOT / "tests/c/predict_samples.c", *(path for path in models if path.exists())]


def build(folder: Path, compiler: str, flags: str, libraries: str = "-lm") -> Path:
    need(compiler)
    out = folder / "program"
    include = [f"-I{folder / name}" for name in MODELS]
    run(
        compiler,
        *shlex.split(flags),
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
    assert mismatch(program) <= FLOAT32_TOLERANCE


def mismatch(program: Path, *arguments: str) -> float:
    """The largest error of its predictions; its self-tests must pass."""
    models = [read(name) for name in MODELS]
    drawn = [draw_samples(model, SAMPLES, seed=3) for model in models]
    inputs = b"".join(samples.mean.tobytes() for samples in drawn)
    done = subprocess.run([str(program), *arguments], input=inputs, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, f"status {done.returncode}"
    numbers, largest = np.frombuffer(done.stdout, np.float32), 0.0
    for model, samples in zip(models, drawn, strict=True):
        wanted = predict(model.graph, samples.mean)
        size = wanted.mean[0].size
        answers, numbers = np.split(numbers, [2 * size * SAMPLES])
        mean, var = answers.reshape(SAMPLES, 2, size).transpose(1, 0, 2)
        found = errors(Outcome(mean, var), wanted)
        largest = max(largest, *(float(part.max()) for part in found))
    assert not numbers.size
    return largest


def try_out(base: Path, compiler: str, machine: str, language: str, level: str, form: str) -> None:
    """Builds and checks one combination."""
    flags = f"{LANGUAGES[language]} {LEVELS[level]} {MACHINES[machine]}"
    alone = FREESTANDING in flags
    headers = f" -isystem {shlex.quote(str(targets_folder() / 'freestanding'))}" if alone else ""
    check(build(base / form, compiler, flags + headers, "" if alone else "-lm"))


@pytest.mark.parametrize("machine, choice", [(machine, choice) for machine in CHOSEN for choice in CHOSEN[machine]])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_generated_c_keeps_its_promise(compiler: str, machine: str, choice: str, folder: Path) -> None:
    try_out(folder, compiler, machine, *choice.split())


def test_every_language_level_form_and_machine_is_among_the_chosen() -> None:
    words = {word for choices in CHOSEN.values() for choice in choices for word in choice.split()}
    assert words == {*LANGUAGES, *LEVELS, *FORMS} and set(CHOSEN) == set(MACHINES)
