"""Generated C of a network with a head: NAME_classify beside NAME_predict."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch

import lbnn
from gumbel import all_rows, quadrature
from lbnn import nn as bnn
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, generate, lower
from lbnn.exporters.c.folder import write_program
from lbnn.graph.reference import classify, predict
from lbnn.model.file import Model, read_model
from lbnn.model.inputs import KEY_OF_UNSURE
from places import need

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wdouble-promotion", "-Werror"]
HEADS = {"exact": bnn.SoftmaxHead, "fast": lambda: bnn.SoftmaxHead("fast"), "sigmoid": bnn.SigmoidHead}
X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32) * 2


def headed(head="exact", classes=3, limit=None):
    torch.manual_seed(0)
    layers = bnn.Linear(4, 6, sigma=0.4), bnn.LeakyReLU(0.1), bnn.Linear(6, classes, sigma=0.5), HEADS[head]()
    model = read_model(bnn.Sequential(*layers), (4,))
    return Model(model.graph, model.sha256, "net", {} if limit is None else {KEY_OF_UNSURE: limit})


def decisions(model, folder, options=None):
    """(status, probability, label, entropy, information, unsure), each for all samples."""
    options = options or COptions(name="net")
    program = lower(model, options)
    written = replace(write_program(program, model, options, folder / "c"), classifies=True)
    variance = np.full_like(X, 0.5) if options.input_variance else None
    result = run_model("c", written, X, variance)
    words = np.ascontiguousarray(result.variance)
    numbers = words.view(np.int32)
    assert result.work_used <= 4 * program.work_len
    return result.status, result.mean, numbers[:, 0], words[:, 1], words[:, 2], numbers[:, 3]


@pytest.mark.parametrize(
    ("head", "classes"), [("exact", 3), ("exact", 11), ("fast", 3), ("sigmoid", 1), ("sigmoid", 4)]
)
def test_classify_gives_what_the_reference_makes_of_the_logits(head, classes, tmp_path):
    model = headed(head, classes)
    want = classify(model.graph, predict(model.graph, X))
    status, probability, label, entropy, information, unsure = decisions(model, tmp_path)
    assert not status.any() and not unsure.any()
    np.testing.assert_allclose(probability, want.probability, atol=2e-6)
    np.testing.assert_allclose(entropy, want.entropy, atol=1e-5)
    np.testing.assert_allclose(information, want.epistemic, atol=1e-5)
    expected = want.probability[:, 0] >= 0.5 if classes == 1 else want.probability.argmax(1)
    assert label.tolist() == expected.astype(int).tolist()


def test_unsure_is_an_entropy_above_the_limit_of_the_model_file(tmp_path):
    entropy = classify(headed().graph, predict(headed().graph, X)).entropy
    limit = float(np.median(entropy))
    *_, found, _, unsure = decisions(headed(limit=limit), tmp_path)
    assert unsure.tolist() == (found > np.float32(limit)).astype(int).tolist()
    assert 0 < unsure.sum() < len(unsure)


@pytest.mark.parametrize("options", [dict(input_variance=True), dict(optimize="size")])
def test_classify_follows_the_options_of_predict(options, tmp_path):
    model, variance = headed(), np.full_like(X, 0.5) if "input_variance" in options else None
    want = classify(model.graph, predict(model.graph, X, variance))
    _, probability, *_ = decisions(model, tmp_path, COptions(name="net", **options))
    np.testing.assert_allclose(probability, want.probability, atol=2e-6)


def test_an_input_that_predict_refuses_leaves_the_results_as_they_were(tmp_path):
    model, options = headed(), COptions(name="net")
    written = replace(write_program(lower(model, options), model, options, tmp_path / "c"), classifies=True)
    result = run_model("c", written, np.full((1, 4), np.nan, np.float32))
    assert result.status.tolist() == [-2]
    assert not result.mean.any() and not result.variance.any()


MAIN = """
#include "net.h"
int main(void)
{
    static float work[NET_WORK_LEN];
    float input[NET_INPUT_LEN] = {0}, probability[NET_OUTPUT_LEN];
    net_decision decision;
    if (net_classify(input, 0, &decision, work) != LBNN_ERROR_NULL) return 1;
    if (net_classify(input, probability, 0, work) != LBNN_ERROR_NULL) return 2;
    if (net_classify(input, probability, &decision, 0) != LBNN_ERROR_NULL) return 3;
    if (net_classify(0, probability, &decision, work) != LBNN_ERROR_NULL) return 4;
    if (net_classify(input, probability, &decision, work) != LBNN_OK) return 5;
    return net_selftest(work) ? 6 : 0;
}
"""


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("compiler", ["gcc -std=c99", "g++ -x c++ -std=c++11"])
@pytest.mark.parametrize("single", [False, True])
def test_it_compiles_without_a_warning_refuses_null_and_passes_its_self_test(head, compiler, single, tmp_path):
    need(compiler.split()[0])
    for name, text in generate(headed(head, limit=0.4), COptions(name="net", single_file=single)).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.c").write_text(MAIN)
    sources = ["net.c", "main.c", *([] if single else ["net_selftest.c"])]
    command = [*compiler.split(), "-O1", *WARNINGS, *sources, "-o", "main", "-lm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([tmp_path / "main"]).returncode == 0


def test_the_self_test_sees_a_head_that_computes_something_else(tmp_path):
    need("gcc")
    for name, text in generate(headed(), COptions(name="net")).items():
        changed = text.replace("sqrt(var + LBNN_READ(lbnn_gumbel", "sqrt(0.0f * var + LBNN_READ(lbnn_gumbel")
        assert name != "lbnn_heads.h" or changed != text
        (tmp_path / name).write_text(changed)
    (tmp_path / "main.c").write_text(MAIN)
    subprocess.run(["gcc", "net.c", "main.c", "net_selftest.c", "-o", "main", "-lm"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"]).returncode == 6


def test_a_model_without_a_head_has_no_classify():
    model = read_model(bnn.Sequential(bnn.Linear(4, 3)), (4,))
    assert not any("classify" in text for name, text in generate(model, COptions(name="net")).items() if "net" in name)


@pytest.mark.parametrize("standard", ["c99", "gnu99"])
def test_ten_classes_take_at_most_60000_instructions_on_a_cortex_m4f(tmp_path, standard):
    """With and without fused products, for rows of all kinds and of equal variances."""
    need("arm-none-eabi-gcc")
    logits = bnn.Sequential(bnn.Affine(torch.ones(10), torch.zeros(10)), bnn.SoftmaxHead())
    model, options = read_model(logits, (10,)), COptions(name="net", input_variance=True)
    written = write_program(lower(model, options), model, options, tmp_path / "c")
    rng = np.random.default_rng(0)
    rows = all_rows(10, (12, 6, 12))
    rows += [(rng.normal(size=10), np.full(10, np.sqrt(v))) for v in (0.3, 0.5, 2, 5, 20, 400)]
    mean, var = (np.array(part, np.float32) for part in zip(*((m, s**2) for m, s in rows), strict=True))
    flags = ("-O2", f"-std={standard}", "-fno-math-errno")
    runs = [run_model("cortex-m4-gcc", replace(written, classifies=c), mean, var, flags=flags) for c in (True, False)]
    assert (runs[0].instructions - runs[1].instructions).max() <= 60_000
    want = lbnn.softmax_moments(lbnn.Moments(torch.from_numpy(mean), torch.from_numpy(var)))
    np.testing.assert_allclose(runs[0].mean, want.probability.numpy(), atol=2e-6)
    assert np.abs(runs[0].mean.astype(np.float64).sum(axis=1) - 1.0).max() <= 1e-6
    truth = [quadrature(m, np.sqrt(v)).probability for m, v in zip(mean, var, strict=True)]
    assert np.abs(runs[0].mean - truth).max() <= 2e-3
