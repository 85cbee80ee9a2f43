"""The helpers beside `_predict`: training range, calibrated interval, unsure limit, if the model has them."""

import ctypes
import subprocess

import numpy as np
import pytest
import torch

import lbnn
from c_models import STRICT, run
from lbnn import nn as bnn
from lbnn.device.compilers import TOOLCHAINS
from lbnn.exporters.c.lower import lower
from lbnn.exporters.c.selftest import golden
from lbnn.exporters.options import COptions
from lbnn.model.file import read_model
from places import need

FLOATS = ctypes.POINTER(ctypes.c_float)
RANGE = [[-1.25, 0.0, 5.0], [2.5, 2.0**-10, 5.0]]
CALIBRATION = dict(
    level=0.9, false_alarms=0.05, rows=123, factor=[1.5, 0.25], variance_scale=[1.0, 1.0], unsure_sd=[0.3, 7.0]
)
WRAPPERS = """
#include "m.h"
int out_of_range(const float *x) { return m_out_of_range(x); }
void interval(const float *m, const float *v, float *low, float *high) { m_interval(m, v, low, high); }
int is_unsure(const float *v) { return m_is_unsure(v); }
"""


def saved(tmp_path, metadata, shape=(3,)):
    torch.manual_seed(0)
    layers = (bnn.Linear(3, 2),) if shape == (3,) else (bnn.Flatten(), bnn.Linear(int(np.prod(shape)), 2))
    return lbnn.save(bnn.Sequential(*layers), tmp_path / "m.pt", shape, metadata=metadata)


def library(tmp_path, metadata, shape=(3,), **options):
    folder = lbnn.export(saved(tmp_path, metadata, shape), "c", tmp_path / "c", **options)
    (tmp_path / "w.c").write_text(WRAPPERS)
    sources = [folder / "m.c", tmp_path / "w.c"]
    built = TOOLCHAINS["host"].compile_shared(sources, tmp_path / "w.so", ("-O1", "-Wall", "-Werror"), [folder])
    return ctypes.CDLL(str(built))


def floats(values):
    return np.array(values, np.float32).ctypes.data_as(FLOATS)


@pytest.mark.parametrize("single_file", [False, True])
def test_range_interval_and_limit_are_those_of_the_model_file(tmp_path, single_file):
    built = library(tmp_path, {"input_range": RANGE, "calibration": CALIBRATION}, single_file=single_file)
    low, high = np.array(RANGE, np.float32)
    assert built.out_of_range(floats(low)) == built.out_of_range(floats(high)) == 0
    above, below = np.nextafter(high, np.float32(np.inf)), np.nextafter(low, np.float32(-np.inf))
    assert [built.out_of_range(floats(np.where(np.arange(3) < k, above, low))) for k in range(4)] == [0, 1, 2, 3]
    assert built.out_of_range(floats(below)) == 3 and built.out_of_range(floats([np.nan, 0.0, 5.0])) == 1
    ends = np.zeros((2, 2), np.float32)
    built.interval(floats([1.0, -2.0]), floats([4.0, 0.25]), *(end.ctypes.data_as(FLOATS) for end in ends))
    assert ends.tolist() == [[-2.0, -2.125], [4.0, -1.875]]
    assert [built.is_unsure(floats(v)) for v in ([0.0899, 48.9], [0.0901, 1], [0.01, 49.1], [np.nan, 1])] == [
        0,
        1,
        1,
        1,
    ]


def test_windows_have_one_range_a_channel(tmp_path):
    about = {"input_range": [[0.0, 10.0], [1.0, 20.0]], "calibration": CALIBRATION}
    built = library(tmp_path, about, shape=(2, 3))
    assert built.out_of_range(floats([0, 1, 0.5, 10, 20, 15])) == 0
    assert built.out_of_range(floats([0, 1, 1.5, 9, 20, 21])) == 3


def test_a_value_that_training_saw_is_never_outside_by_rounding(tmp_path):
    """The file may hold decimals that float32 rounds, as it rounds what is asked."""
    seen = [0.1, 1.1, 2.7]
    built = library(tmp_path, {"input_range": [seen, seen], "calibration": CALIBRATION})
    assert built.out_of_range(floats(seen)) == 0


def test_a_model_that_knows_nothing_of_it_has_none_of_it(tmp_path):
    header = (lbnn.export(saved(tmp_path, {}), "c", tmp_path / "c") / "m.h").read_text()
    assert not any(word in header for word in ("out_of_range", "interval", "unsure", "math.h"))


@pytest.mark.parametrize(
    "given", [None, 3, "ab", [], [[0.0], [1.0]], [[2.0] * 3, [1.0] * 3], [[0.0] * 3, [float("inf")] * 3], [[0] * 3]]
)
def test_a_range_that_makes_no_sense_is_left_out(tmp_path, given):
    header = (lbnn.export(saved(tmp_path, {"input_range": given}), "c", tmp_path / "c") / "m.h").read_text()
    assert "out_of_range" not in header


def standardised(tmp_path):
    """A calibrated model of two inputs and two outputs, exported."""
    model = bnn.Sequential(bnn.Standardize(torch.tensor([5.0, -3.0]), torch.tensor([2.0, 0.5])), bnn.Linear(2, 2))
    about = {"input_range": [[6.0, -4.0], [9.0, -2.5]], "calibration": CALIBRATION}
    return lbnn.export(lbnn.save(model, tmp_path / "m.pt", (2,), metadata=about), "c", tmp_path / "c")


def test_the_example_shows_a_usual_input_and_what_is_known_of_it(tmp_path):
    folder = standardised(tmp_path)
    assert "6.0f, -3.0f" in (folder / "example_main.c").read_text()
    subprocess.run(
        ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", *folder.glob("*.c"), "-lm", "-o", tmp_path / "try"],
        check=True,
    )
    said = subprocess.run([tmp_path / "try"], capture_output=True, text=True, check=True).stdout
    assert "self-test: ok" in said and "in 90 % of cases" in said and "outside" not in said


STAND_IN = """#include "m.h"
lbnn_status m_predict(const float input[M_INPUT_LEN], float mean[M_OUTPUT_LEN], float variance[M_OUTPUT_LEN],
                      float work[M_WORK_LEN])
{
    (void)input, (void)work;
    mean[0] = 1.0f, variance[0] = VARIANCE, mean[1] = -2.0f, variance[1] = 0.25f;
    return LBNN_OK;
}
int m_selftest(float work[M_WORK_LEN]) { (void)work; return 0; }
"""


@pytest.mark.parametrize(
    ("variance", "numbers", "said"),
    [
        (0.0625, "6.0f, -2.5f", "output 0: 0.625 to 1.375 in 90 % of cases\n"),
        (4.0, "5.0f, -2.5f", "output 0: -2 to 4 in 90 % of cases\n"),
    ],
    ids=["sure and inside", "unsure, one number outside"],
)
def test_the_example_prints_intervals_and_what_is_unsure_or_outside(tmp_path, variance, numbers, said):
    need("gcc")
    folder = standardised(tmp_path)
    (tmp_path / "main.c").write_text((folder / "example_main.c").read_text().replace("6.0f, -3.0f", numbers))
    (tmp_path / "model.c").write_text(STAND_IN.replace("VARIANCE", f"{variance}f"))
    files = (tmp_path / "main.c", tmp_path / "model.c")
    run("gcc", *STRICT, f"-I{folder}", *files, "-o", tmp_path / "a.out", "-lm")
    lines = f"output 0: mean 1, variance {variance:g}\noutput 1: mean -2, variance 0.25\n"
    told = "unsure\noutside of the training data\n" if variance == 4.0 else ""
    between = "output 1: -2.125 to -1.875 in 90 % of cases\n"
    assert run(tmp_path / "a.out") == f"self-test: ok\n{lines}{said}{between}{told}"


def test_the_usual_vectors_of_the_self_test_lie_in_the_range_of_training(tmp_path):
    model = bnn.Sequential(bnn.Standardize(torch.tensor([5.0, -3.0]), torch.tensor([2.0, 0.5])), bnn.Linear(2, 2))
    about = {"input_range": [[6.0, -4.0], [9.0, -2.5]]}
    read = read_model(lbnn.save(model, tmp_path / "m.pt", (2,), metadata=about))
    vectors = golden(lower(read, COptions()).graph, read, 1e-5)
    usual = vectors.mean[np.array(vectors.scales) <= 1.0]
    assert len(usual) == 3 and (usual >= [6.0, -4.0]).all() and (usual <= [9.0, -2.5]).all()
    assert (np.abs(vectors.mean[-1] - [5.0, -3.0]) > [20.0, 5.0]).all()
