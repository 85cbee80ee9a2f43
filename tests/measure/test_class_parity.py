"""`lbnn verify` compares what a head makes of the logits, and says where it goes wrong."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import lbnn
from commands import lbnn as command
from gumbel import all_rows, quadrature
from lbnn import nn as bnn
from lbnn.exporters.onnx import to_onnx
from lbnn.graph.passes import prepare
from lbnn.measure.backends import BACKENDS
from lbnn.measure.parity import Answers, judge
from lbnn.measure.samples import Samples
from lbnn.model.file import read_model

X = np.random.default_rng(1).normal(size=(12, 4)).astype(np.float32) * 3
SAMPLES = Samples(X, None, ("row",) * len(X))
HEADS = {"softmax": bnn.SoftmaxHead, "softmax_fast": lambda: bnn.SoftmaxHead("fast"), "sigmoid": bnn.SigmoidHead}


def headed(head="softmax"):
    torch.manual_seed(0)
    return bnn.Sequential(bnn.Linear(4, 6, sigma=0.5), bnn.ReLU(), bnn.Linear(6, 4, sigma=0.7), HEADS[head]())


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("backend", ["torch", "onnx", "c"])
def test_every_backend_makes_the_same_classes(head, backend):
    found = judge(backend, BACKENDS[backend].run, read_model(headed(head), (4,)), SAMPLES, 1e-5)
    assert found.passed
    assert found.class_error < 2e-6


@pytest.mark.parametrize("classes", [2, 10, 50])
def test_the_onnx_head_gives_the_mean_of_the_softmax(classes):
    """Against quadrature: the graph shares its formula with every other form."""
    rows = all_rows(classes, (18, 6, 12))
    mean, sigma = (np.array(part, np.float32) for part in zip(*rows, strict=True))
    model = read_model(
        bnn.Sequential(bnn.Affine(torch.ones(classes), torch.zeros(classes)), bnn.SoftmaxHead()), (classes,)
    )
    found = BACKENDS["onnx"].run(model, Samples(mean, sigma**2, ("row",) * len(rows))).classes
    truth = [quadrature(*row) for row in zip(mean, sigma, strict=True)]
    assert np.abs(found[0] - [one.probability for one in truth]).max() < 1.5e-3
    assert np.abs(found[1] - [one.entropy for one in truth]).max() < 1e-2


def test_a_head_that_is_off_fails_and_is_named():
    def wrong(model, samples):
        outcome = BACKENDS["torch"].run(model, samples)
        p, *rest = outcome.classes
        return replace(outcome, classes=Answers(p + 2e-5, *rest))

    found = judge("wrong", wrong, read_model(headed(), (4,)), SAMPLES, 1e-5)
    assert not found.passed
    assert found.class_error == pytest.approx(2e-5, rel=0.2)
    assert found.departs_at == "the head (softmax)"


def test_a_backend_without_classes_or_with_nan_fails():
    def without(model, samples):
        return replace(BACKENDS["torch"].run(model, samples), classes=None)

    def nan(model, samples):
        outcome = BACKENDS["torch"].run(model, samples)
        return replace(outcome, classes=Answers(*(part * np.nan for part in outcome.classes)))

    for runner in (without, nan):
        assert judge("it", runner, read_model(headed(), (4,)), SAMPLES, 1e-5).class_error == np.inf


@pytest.mark.parametrize("opset", [13, 17, 18, 23])
@pytest.mark.parametrize("random", [False, True])
def test_onnx_has_the_classes_as_outputs_of_their_own(opset, random):
    model = read_model(headed(), (4,))
    proto = to_onnx(prepare(model.graph, random), model.sha256, opset)
    names = [output.name for output in proto.graph.output]
    assert names == ["mean", "variance", "probability", "entropy", "mutual_information"]
    ranks = [len(output.type.tensor_type.shape.dim) for output in proto.graph.output]
    assert ranks == [2, 2, 2, 1, 1]


def test_the_commands_know_a_head(tmp_path):
    path = lbnn.save(headed(), tmp_path / "net.pt", input_shape=(4,))
    verified = command("verify", path, "--backends", "torch,c", "--samples", "8", folder=tmp_path)
    assert verified.status == 0 and "class error" in verified.stdout
    inspected = command("inspect", path, folder=tmp_path)
    assert inspected.status == 0 and "softmax head (softmax), " in inspected.stdout
    (tmp_path / "rows.csv").write_text("a,b,c,d\n1,2,3,4\n")
    assert command("predict", path, "rows.csv", "-o", "out.csv", folder=tmp_path).status == 0
