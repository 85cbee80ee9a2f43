"""The fuzzer: every kernel has a target, the kept corpus and a seeded round find nothing, and faults are found.

`make fuzz` runs the same program for minutes, in more builds, optimised.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

import fuzz
from fuzz import CORPUS, HARNESS, MODELS, RUNTIME, Result
from lbnn.exporters.c.footprint import KERNELS
from places import need
from thorough import chosen

INTEGER_TARGETS = (
    *("lbnn_int8_linear", "lbnn_int16_linear", "lbnn_int_shared", "lbnn_int_moments", "lbnn_int_narrow"),
    *("lbnn_int_pack_means", "lbnn_int_pack_sigmas", "lbnn_int_emit", "lbnn_int_add", "lbnn_int_affine"),
    *("lbnn_int_variance_head", "lbnn_int_level", "lbnn_int_settle", "lbnn_int_unfold", "lbnn_int_map_means"),
    *("lbnn_int_pad", "lbnn_int_known"),
    *("lbnn_int_map_sigmas", "lbnn_int_map_leaky", "lbnn_int_map_add", "lbnn_int_map_affine"),
    *("lbnn_int_pool", "lbnn_int_pool_window", "lbnn_int8_conv", "lbnn_int16_conv", "lbnn_int_roots_map"),
    "lbnn_int_max_pool",
)
"""The others are parts of these, or copy numbers from one place to another."""
TARGETS = sorted([*KERNELS, *INTEGER_TARGETS, *(f"predict_{name}" for name in MODELS)])
SHORT = ("lanes", "memory")
ROUND = ("-seed=1", "-runs=100")
LEVEL = "-O0"  # compiles in a fifth of the time
MOST_FILES, MOST_BYTES = 25, 500_000


@dataclass(frozen=True)
class Fault:
    """A small change of a header, the target that must notice it in a build, and what that says."""

    header: str
    right: str
    wrong: str
    target: str
    variant: str
    finding: str


FAULTS = (
    Fault("lbnn_pointwise.h", "column < width + right;", "column <= width + right;", "lbnn_pad", "lanes", "overflow"),
    Fault("lbnn_pointwise.h", "s2 = s * s;", "s2 = s;", "lbnn_affine", "lanes", "a variance is negative"),
    Fault("lbnn_pointwise.h", "lbnn_add_points(const float *a, const float *b, float *out, int n)\n{",
          "lbnn_add_points(const float *a, const float *b, float *out, int n)\n{"
          "for (int i = 0; i < n; i++) { if (a[i] == 0.0f) { ((float *)a)[i] = -a[i]; } }",
          "lbnn_add_points", "lanes", "an input was changed"),
    Fault("lbnn_pointwise.h", "LBNN_VARIANCE && n > 0; n--", "LBNN_VARIANCE && n > 1; n--",
          "lbnn_lift", "memory", "use-of-uninitialized-value"),
    Fault("lbnn_pointwise.h", "return LBNN_ERROR_OUTPUT;", "(void)0;",
          "predict_mlp", "lanes", "LBNN_OK and a result that is not finite"),
    Fault("lbnn_math.h", "lbnn_lanes_at_least(x, -87.0f)",
          "lbnn_lanes_select(lbnn_lanes_less(x, lbnn_lanes_fill(-87.0f)), lbnn_lanes_fill(-87.0f), x)",
          "lbnn_variance_head", "lanes", "outside the range of representable values"),
    Fault("lbnn_conv_small.h", "sum.var += x.s * v;", "sum.var += x.v * v;",
          "lbnn_conv2d_small", "lanes", "not what float64 gives|is hidden"),
    Fault("lbnn_int_linear.h", "        lbnn_int8_pair(w + at, mean, sigma, words, sum, square);",
          "        lbnn_int8_pair(w + at + 1, mean, sigma, words, sum, square);",
          "lbnn_int8_linear", "lanes", "overflow|not what"),
    Fault("lbnn_int.h", "return lbnn_int_larger(lbnn_int_bits(top) - mean_bits, 1);",
          "return lbnn_int_larger(lbnn_int_bits(top) - mean_bits - 1, 1);",
          "lbnn_int_narrow", "lanes", "a mantissa leaves its bits"),
    Fault("lbnn_pool.h", "*out++ = squared ? scale * scale * sum : scale * sum;",
          "*out = squared ? scale * scale * sum : scale * sum + 0.0f * *out; out++;",
          "lbnn_avg_pool_point", "memory", "use-of-uninitialized-value"),
)  # fmt: skip


def run(program: Path, target: str, *kept: Path) -> Result:
    """A seeded round; what it finds new goes into a folder that is thrown away."""
    new = program.parent / "new" / target
    new.mkdir(parents=True, exist_ok=True)
    return fuzz.fuzz(program, program.name, target, ROUND, [new, *kept])


def test_every_kernel_and_model_has_a_target() -> None:
    named = [
        name for source in HARNESS.glob("*.c") for name in re.findall(r'^ +\{"(\w+)", fuzz_', source.read_text(), re.M)
    ]
    assert sorted(named) == TARGETS


def test_the_kept_corpus_is_small_and_serves_every_target() -> None:
    assert sorted(folder.name for folder in CORPUS.iterdir()) == TARGETS
    files = {folder.name: list(folder.iterdir()) for folder in CORPUS.iterdir()}
    assert all(1 <= len(paths) <= MOST_FILES for paths in files.values())
    assert sum(path.stat().st_size for paths in files.values() for path in paths) < MOST_BYTES


@pytest.mark.parametrize("variant", chosen(SHORT, "lanes"))
def test_the_corpus_and_a_seeded_round_find_nothing(variant: str, tmp_path: Path) -> None:
    need("clang")
    program = fuzz.build(variant, fuzz.export_models(tmp_path / "models"), tmp_path / variant, LEVEL)
    assert sorted(fuzz.targets(program)) == TARGETS
    results = [run(program, target, CORPUS / target) for target in TARGETS]
    assert not [result for result in results if result.finding]
    assert all(result.executions >= 100 for result in results)


@pytest.mark.parametrize("variant", chosen(SHORT, "lanes"))
def test_faults_in_kernels_are_found(variant: str, tmp_path: Path) -> None:
    need("clang")
    faults = [fault for fault in FAULTS if fault.variant == variant]
    runtime, models = shutil.copytree(RUNTIME, tmp_path / "runtime"), fuzz.export_models(tmp_path / "models")
    for fault in faults:
        break_headers([runtime, *models.iterdir()], fault)
    program = fuzz.build(variant, models, tmp_path / variant, LEVEL, runtime)
    for fault in faults:
        assert re.search(fault.finding, run(program, fault.target).finding), fault


def break_headers(folders: list[Path], fault: Fault) -> None:
    """In the runtime and in the copies that models bring along."""
    for path in (folder / fault.header for folder in folders if (folder / fault.header).exists()):
        text = path.read_text()
        assert text.count(fault.right) == 1, fault
        path.write_text(text.replace(fault.right, fault.wrong))


def test_a_finding_is_reported_with_the_line_that_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    clean = Result("lbnn_copy", "lanes", 1000, 50, 100, "", "")
    found = Result(
        "lbnn_pad", "lanes", 7, 50, 100, "a variance is negative", "LBNN_FUZZ_TARGET=lbnn_pad out/fuzz/lanes x"
    )
    assert fuzz.report([clean], 1) == 0
    assert fuzz.report([clean, found], 1) == 1
    assert (
        "lbnn_pad, lanes: a variance is negative\n  LBNN_FUZZ_TARGET=lbnn_pad out/fuzz/lanes x\n"
        in capsys.readouterr().out
    )
