"""The self-test passes where the arithmetic is right, and nowhere else."""

import re
import subprocess

import numpy as np
import pytest

from c_models import STRICT, read, run, sources
from lbnn.base.moments import Moments
from lbnn.exporters.c import COptions, export_c, generate, lower
from lbnn.exporters.c.selftest import MOST_NUMBERS, SCALES, golden
from lbnn.graph import GraphBuilder
from lbnn.model.file import Model
from places import need


def test_a_self_test_fails_where_the_arithmetic_is_wrong(folders, tmp_path):
    need("gcc")
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in folders["gas_sensor", False].iterdir():
        text = path.read_text()
        (broken / path.name).write_text(text.replace("9, 0.01f)", "9, 0.0101f)"))
    run("gcc", *STRICT, *(path.name for path in sources(broken, "gas_sensor")), "-o", "a.out", "-lm", cwd=broken)
    with pytest.raises(AssertionError, match="self-test: FAILED"):
        run(broken / "a.out")


WRONG = {
    "a mean too small": (1, "mean[0] -= 1e-4f * (fabsf(mean[0]) + sqrtf(variance[0]));"),
    "a mean too large": (1, "mean[0] += 1e-4f * (fabsf(mean[0]) + sqrtf(variance[0]));"),
    "a variance too small": (1, "variance[0] *= 0.9999f;"),
    "a variance too large": (1, "variance[0] *= 1.0001f;"),
    "a small variance too large": (1, "if (call == 1) variance[0] *= 1.0001f;"),
    "the last output": (1, "mean[SERIES_OUTPUT_LEN - 1] *= 2.0f;"),
    "a later vector": (2, "if (call > 1) variance[0] *= 1.0001f;"),
    "the last vector": (5, "if (call == 5) variance[0] *= 1.0001f;"),
    "a prediction that fails": (2, "if (call > 1) return LBNN_ERROR_OUTPUT;"),
    "the first prediction": (1, "return LBNN_ERROR_OUTPUT;"),
    "nothing": (0, ""),
}
"""What goes wrong -> the number of the first vector that shows it, which is what the self-test returns."""


WRAPPED = """#include "series.h"
#include <math.h>
lbnn_status right(const float *input, float *mean, float *variance, float *work);
lbnn_status series_predict(const float *input, float *mean, float *variance, float *work)
{
    static int call = 0;
    const lbnn_status status = right(input, mean, variance, work);
    call++;
    CHANGE
    return status;
}
static float work[SERIES_WORK_LEN];
int main(void) { return series_selftest(work); }
"""


def test_a_self_test_fails_if_one_moment_of_one_output_of_one_vector_is_wrong(folders, tmp_path):
    need("gcc")
    folder = folders["series", False]
    for what, (number, change) in WRONG.items():
        assert selftest_with(folder, tmp_path, change) == number, what


def selftest_with(folder, tmp_path, change):
    """What the self-test returns if C text changes the moments of each prediction."""
    if not (tmp_path / "model.o").exists():
        run("gcc", *STRICT, "-O1", "-Dseries_predict=right", "-c", folder / "series.c", "-o", tmp_path / "model.o")
    (tmp_path / "main.c").write_text(WRAPPED.replace("CHANGE", change))
    files = (tmp_path / "main.c", folder / "series_selftest.c", tmp_path / "model.o")
    run("gcc", "-std=c99", f"-I{folder}", *files, "-o", tmp_path / "a.out", "-lm")
    return subprocess.run([tmp_path / "a.out"], check=False).returncode


LOST = {
    "nothing": (0, ""),
    "a variance": (0, "variance[0] = 0.0f;"),
    "a mean": (0, "if (call == 1) mean[1] = 0.0f;"),
    "more than a denormal in the variance": (1, "variance[0] += 1e-37f;"),
    "more than a denormal in the mean": (1, "if (call == 1) mean[1] += 1e-37f;"),
}


def test_a_machine_that_has_no_denormals_passes_the_self_test(tmp_path):
    """Variance 1e-39 in one output, mean 1e-39 at input zero in the other, for which a machine may give 0."""
    need("gcc")
    builder = GraphBuilder("series", (1,), random=True)
    weight, bias = (np.ones((2, 1)), np.zeros((2, 1))), (np.array([0.0, 1e-39]), np.array([1e-39, 0.0]))
    graph = builder.finish(
        builder.add("layer", "linear", ["input"], params=dict(weight=Moments(*weight), bias=Moments(*bias)))
    )
    folder = export_c(Model(graph, "0" * 64, "series", {}), tmp_path / "out")
    for what, (number, change) in LOST.items():
        assert selftest_with(folder, tmp_path, change) == number, what


EXAMPLE = """#include "series.h"
lbnn_status series_predict(const float input[SERIES_INPUT_LEN], float mean[SERIES_OUTPUT_LEN],
                           float variance[SERIES_OUTPUT_LEN], float work[SERIES_WORK_LEN])
{
    (void)input, (void)work;
    for (int i = 0; i < SERIES_OUTPUT_LEN; i++) {
        mean[i] = 10.0f + (float)i, variance[i] = 0.5f + (float)i;
    }
    return STATUS;
}
int series_selftest(float work[SERIES_WORK_LEN]) { (void)work; return FAILED; }
"""
PRINTED = "output 0: mean 10, variance 0.5\noutput 1: mean 11, variance 1.5\noutput 2: mean 12, variance 2.5\n"


@pytest.mark.parametrize(
    ("failed", "status", "exit_status", "printed"),
    [
        (0, "LBNN_OK", 0, f"self-test: ok\n{PRINTED}"),
        (3, "LBNN_OK", 1, f"self-test: FAILED\n{PRINTED}"),
        (0, "LBNN_ERROR_OUTPUT", 1, "self-test: ok\nprediction failed: "),
    ],
)
def test_the_example_prints_every_output_or_why_there_is_none(folders, tmp_path, failed, status, exit_status, printed):
    need("gcc")
    folder = folders["series", False]
    (tmp_path / "model.c").write_text(EXAMPLE.replace("STATUS", status).replace("FAILED", str(failed)))
    files = (tmp_path / "model.c", folder / "example_main.c")
    run("gcc", *STRICT, f"-I{folder}", *files, "-o", tmp_path / "a.out")
    done = subprocess.run([tmp_path / "a.out"], check=False, capture_output=True, text=True)
    assert done.returncode == exit_status
    assert done.stdout == printed if status == "LBNN_OK" else re.fullmatch(f"{printed}.+\n", done.stdout)


def test_the_inputs_of_the_self_test_have_the_scales_that_it_states():
    model = read("gas_sensor")
    vectors = golden(lower(model, COptions(input_variance=True)).graph, model, 1e-5)
    largest = np.abs(vectors.mean).max(axis=1)
    assert vectors.scales == SCALES
    assert np.all(largest >= vectors.scales) and np.all(largest <= 2.0 * np.array(vectors.scales))
    assert [bool(var.any()) for var in vectors.var] == [scale > 0.0 for scale in vectors.scales]


def test_the_inputs_of_the_self_test_are_eighths_without_a_pattern_and_their_variances_sixteenths():
    builder = GraphBuilder("plain", (400,), random=True)
    model = Model(builder.finish(builder.add("act", "leaky_relu", ["input"], {"negative_slope": 0.5})), "", "plain", {})
    vectors = golden(lower(model, COptions(input_variance=True)).graph, model, 1e-5)
    for scale, mean, var in zip(vectors.scales[1:], vectors.mean[1:], vectors.var[1:], strict=True):
        eighths, sixteenths = 8.0 * mean / scale, 16.0 * var / scale**2
        assert {*eighths} == set(range(-16, 16)) and {*sixteenths} == set(range(16))
        assert abs(np.corrcoef(eighths, sixteenths)[0, 1]) < 0.3
    assert not vectors.mean[0].any() and not np.signbit(vectors.mean[0]).any()
    assert not np.array_equal(vectors.mean[1], vectors.mean[2])  # of one scale, and yet different


@pytest.mark.parametrize(("size", "scales"), [(MOST_NUMBERS // 5, SCALES), (MOST_NUMBERS // 5 + 1, (0.0, 1.0))])
def test_a_large_input_has_two_vectors(size, scales):
    builder = GraphBuilder("large", (size,), random=False)
    weight = Moments(np.ones((1, size)), np.ones((1, size)))
    bias = Moments(np.zeros(1), np.zeros(1))
    graph = builder.finish(builder.add("layer", "linear", ["input"], params=dict(weight=weight, bias=bias)))
    vectors = golden(graph, Model(graph, "", "large", {}), 1e-5)
    assert vectors.scales == scales and len(vectors.mean) == len(vectors.result.mean) == len(scales)


def test_a_model_that_magnifies_rounding_states_the_tolerance_it_needs():
    """1000.1 x - 999.9 x with hardly any variance: a good part of the mean is rounding."""
    builder = GraphBuilder("cancels", (1,), random=True)
    value = "input"
    for weight in ([[1000.1], [999.9]], [[1.0, -1.0]]):
        sharp = Moments(np.array(weight), np.full_like(weight, 1e-14))
        bias = Moments(np.zeros(()), np.zeros(()))
        value = builder.add("layer", "linear", [value], params=dict(weight=sharp, bias=bias))
    graph = builder.finish(value)
    files = generate(Model(graph, "", "cancels", {}))
    tolerance = re.search(r"tolerance = ([\d.e-]+)f;", files["cancels_selftest.c"])[1]
    assert float(tolerance) > 1e-5
    assert "tolerance = 1e-05f;" in generate(read("zoo"), COptions())["model_selftest.c"]
