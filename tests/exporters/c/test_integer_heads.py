"""Integer networks that classify: logits bit for bit as the reference has them, probabilities of them in float."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch

import lbnn
from c_models import STRICT, generated
from int_models import reference, same_bits
from lbnn import nn as bnn
from lbnn.base.moments import Moments
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, export_c, footprint, lower
from lbnn.graph.reference import classify
from lbnn.model.file import Model, read_model
from lbnn.model.inputs import KEY_OF_UNSURE
from places import need

HEADS = {"exact": bnn.SoftmaxHead, "fast": lambda: bnn.SoftmaxHead("fast"), "sigmoid": bnn.SigmoidHead}
CASES = [("exact", 3), ("exact", 11), ("fast", 3), ("sigmoid", 1), ("sigmoid", 4)]
X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32) * 2


def headed(head="exact", classes=3, limit=None):
    torch.manual_seed(0)
    layers = bnn.Linear(4, 6, sigma=0.4), bnn.LeakyReLU(0.1), bnn.Linear(6, classes, sigma=0.5), HEADS[head]()
    model = read_model(bnn.Sequential(*layers), (4,))
    return Model(model.graph, model.sha256, "net", {} if limit is None else {KEY_OF_UNSURE: limit})


def classes_of(graph, result):
    """What the float64 head makes of logits."""
    return classify(graph, Moments(np.asarray(result.mean, np.float64), np.asarray(result.var, np.float64)))


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize(("head", "classes"), CASES)
def test_logits_have_the_bits_of_the_reference_and_probabilities_are_theirs(tmp_path, head, classes, dtype):
    model, options = headed(head, classes), COptions(name="net", dtype=dtype)
    program, net = lower(model, options), generated(model, tmp_path / "c", name="net", dtype=dtype)
    wanted = reference(program, X)
    assert same_bits(run_model("c-sanitized", net, X), wanted).all()
    found, want = run_model("c-sanitized", replace(net, classifies=True), X), classes_of(model.graph, wanted)
    words = np.ascontiguousarray(found.variance)
    assert not found.status.any() and found.work_bytes == 4 * program.work_len
    np.testing.assert_allclose(found.mean, want.probability, atol=2e-6)
    np.testing.assert_allclose(words[:, 1], want.entropy, atol=1e-5)
    np.testing.assert_allclose(words[:, 2], want.epistemic, atol=1e-5)
    expected = want.probability[:, 0] >= 0.5 if classes == 1 else want.probability.argmax(1)
    assert words.view(np.int32)[:, 0].tolist() == expected.astype(int).tolist()


@pytest.mark.parametrize(("head", "classes"), CASES)
def test_logits_beyond_float_give_probabilities_and_say_so(tmp_path, head, classes):
    net = generated(headed(head, classes), tmp_path / "c", name="net", dtype="int8")
    x = np.array([[3e38] * 4, [-3e38, 3e38, 0, 0], [np.nan, 0, 0, 0], [0, 0, 0, 0]], np.float32)
    found = run_model("c-sanitized", replace(net, classifies=True), x)
    assert found.status.tolist() == [2, 2, -2, 0]
    assert np.all((found.mean[:2] >= 0.0) & (found.mean[:2] <= 1.0))
    assert head == "sigmoid" or np.allclose(found.mean[:2].sum(axis=1), 1.0, atol=1e-5)


def test_unsure_is_an_entropy_above_the_limit_of_the_model_file(tmp_path):
    graph = lower(headed(), COptions(dtype="int8")).graph
    entropy = classes_of(graph, reference(lower(headed(), COptions(dtype="int8")), X)).entropy
    limit = float(np.median(entropy))
    net = generated(headed(limit=limit), tmp_path / "c", name="net", dtype="int8")
    words = np.ascontiguousarray(run_model("c", replace(net, classifies=True), X).variance)
    assert words.view(np.int32)[:, 3].tolist() == (entropy > limit).astype(int).tolist()


@pytest.mark.parametrize("language", [("-std=c99",), ("-xc++", "-std=c++11")], ids=" ".join)
@pytest.mark.parametrize("single", [False, True])
def test_it_builds_without_a_warning_and_its_self_test_sees_the_head(tmp_path, language, single):
    folder = export_c(headed(limit=0.5), tmp_path / "c", COptions(name="net", dtype="int8", single_file=single))
    (folder / "main.c").write_text(
        '#include "net.h"\nstatic int32_t work[NET_WORK_LEN];\nint main(void) { return net_selftest(work); }\n'
    )
    sources = ["net.c", "main.c", *([] if single else ["net_selftest.c"])]
    command = ["gcc", *STRICT[1:], "-Wsign-conversion", "-Wshadow", *language, "-O1", *sources, "-o", "run", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    assert subprocess.run([folder / "run"], check=False).returncode == 0
    name = "net.c" if single else "lbnn_heads.h"
    text = (folder / name).read_text()
    changed = text.replace("sqrt(var + LBNN_READ(lbnn_gumbel", "sqrt(0.0f * var + LBNN_READ(lbnn_gumbel")
    assert changed != text
    (folder / name).write_text(changed)
    subprocess.run(command, cwd=folder, check=True)
    assert subprocess.run([folder / "run"], check=False).returncode != 0


@pytest.mark.parametrize(("head", "classes"), CASES)
@pytest.mark.parametrize("device", ["cortex-m0-gcc", "cortex-m4-gcc"])
def test_the_stack_of_the_head_is_stated(tmp_path, device, head, classes):
    need("arm-none-eabi-gcc")
    model, options = headed(head, classes), dict(name="net", dtype="int8")
    net = replace(generated(model, tmp_path / "c", **options), classifies=True)
    found = run_model(device, net, X[:4])
    stated = footprint(lower(model, COptions(**options))).stack_bytes
    assert found.stack_bytes <= found.stack_bound.bytes <= stated <= found.stack_bound.bytes + 200


def test_compiled_for_python_it_classifies():
    model = headed("exact", 5)
    wanted = classes_of(model.graph, reference(lower(model, COptions(dtype="int8")), X))
    found = lbnn.compile(model, dtype="int8").classify(X)
    np.testing.assert_allclose(found.probability, wanted.probability, atol=2e-6)
    np.testing.assert_allclose(
        lbnn.emulate(model, "cortex-m0", dtype="int8").classify(X[:3]).probability, wanted.probability[:3], atol=2e-6
    )
