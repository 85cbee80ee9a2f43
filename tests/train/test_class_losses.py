"""The NLL of classes against torch's for known logits, against sampling, and as what `fit` trains by."""

import pytest
import torch
import torch.nn.functional as F

import lbnn
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.train.losses import binary_nll, categorical_nll

MEAN = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.0, 0.1]], dtype=torch.float64)
VAR = torch.tensor([[0.3, 0.1, 0.2], [0.05, 0.4, 0.0]], dtype=torch.float64)
LABEL = torch.tensor([2, 1])
FLAGS = torch.tensor([[1, 0, 1], [0, 0, 1]])
KNOWN = Moments(MEAN, torch.zeros_like(VAR))


@pytest.mark.parametrize("samples", [None, 3])
def test_known_logits_give_torchs_own_losses(samples):
    expected = F.cross_entropy(MEAN, LABEL, reduction="none")
    torch.testing.assert_close(categorical_nll(KNOWN, LABEL, "none", samples=samples), expected)
    expected = F.binary_cross_entropy_with_logits(MEAN, FLAGS.double(), reduction="none")
    torch.testing.assert_close(binary_nll(KNOWN, FLAGS, "none", samples=samples), expected)


@pytest.mark.parametrize(("loss", "target"), [(categorical_nll, LABEL), (binary_nll, FLAGS)])
def test_the_delta_rule_is_what_samples_give_for_small_variances(loss, target):
    draw = torch.Generator().manual_seed(0)
    small = Moments(MEAN, VAR / 10)
    sampled = loss(small, target, "none", samples=400_000, generator=draw)
    torch.testing.assert_close(loss(small, target, "none"), sampled, atol=1.5e-3, rtol=0)


@pytest.mark.parametrize(("loss", "target"), [(categorical_nll, LABEL), (binary_nll, FLAGS)])
def test_reductions_and_heads(loss, target):
    each = loss(Moments(MEAN, VAR), target, "none")
    assert loss(Moments(MEAN, VAR), target) == each.mean()
    assert loss(Moments(MEAN, VAR), target, "sum") == each.sum()
    behind = lbnn.softmax_moments(Moments(MEAN, VAR))
    torch.testing.assert_close(loss(behind, target, "none"), each)


def test_samples_keep_the_gradient_finite_where_there_is_no_variance():
    var = torch.zeros_like(VAR, requires_grad=True)
    categorical_nll(Moments(MEAN, var), LABEL, samples=2).backward()
    assert torch.isfinite(var.grad).all()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: categorical_nll(KNOWN, LABEL[:, None]), r"whole numbers of shape \(N,\)"),
        (lambda: categorical_nll(KNOWN, LABEL.double()), "whole numbers"),
        (lambda: categorical_nll(KNOWN, LABEL + 1), "numbered from 0 to 2 here, the target has 2 to 3"),
        (lambda: categorical_nll(KNOWN, LABEL - 2), "the target has -1 to 0"),
        (lambda: categorical_nll(KNOWN, LABEL, "median"), "unknown reduction"),
        (lambda: categorical_nll(KNOWN, LABEL, samples=0), "at least 1"),
        (lambda: binary_nll(KNOWN, LABEL), "a 0 or 1 for each label"),
    ],
)
def test_targets_that_do_not_fit_are_refused_in_one_line(call, says):
    with pytest.raises(LbnnError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def three_clouds(count=240):
    draw = torch.Generator().manual_seed(3)
    y = torch.arange(count) % 3
    centres = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    return centres[y] + 0.6 * torch.randn(count, 2, generator=draw), y


def classifier(*head):
    torch.manual_seed(0)
    return bnn.Sequential(bnn.Linear(2, 8, sigma=0.02), bnn.LeakyReLU(0.01), bnn.Linear(8, 3, sigma=0.02), *head)


def trained(model, y=None, **settings):
    x, label = three_clouds()
    result = lbnn.fit(model, (x, label if y is None else y), epochs=15, batch_size=40, lr=0.03, **settings)
    with torch.no_grad():
        return result, model(x), label


def test_fit_trains_a_network_with_a_softmax_head_on_class_numbers():
    result, found, label = trained(classifier(bnn.SoftmaxHead()), validation=three_clouds())
    assert isinstance(found, lbnn.Classes)
    assert lbnn.class_metrics.accuracy(found, label) > 0.95
    assert result.best_validation < 0.25
    assert result.nll[-1] < 0.5 * result.nll[0]


def test_fit_sees_only_the_logits_of_a_head_so_that_kinds_train_alike():
    losses = [trained(classifier(bnn.SoftmaxHead(kind)))[0].loss for kind in ("exact", "fast")]
    bare, found, _ = trained(classifier(), loss=lambda moments, y: categorical_nll(moments, y, "none"))
    assert losses[0] == losses[1] == bare.loss
    assert isinstance(found, Moments)


def test_fit_takes_the_loss_by_samples():
    def sampled(moments, y):
        return categorical_nll(moments, y, "none", samples=4)

    first, second = (trained(classifier(bnn.SoftmaxHead()), loss=sampled) for _ in range(2))
    assert first[0].loss == second[0].loss
    assert lbnn.class_metrics.accuracy(first[1], first[2]) > 0.95


def test_fit_trains_labels_of_a_sigmoid_head():
    _, label = three_clouds()
    flags = F.one_hot(label, 3).float()
    _, found, label = trained(classifier(bnn.SigmoidHead()), flags)
    assert ((found.probability > 0.5) == flags.bool()).double().mean() > 0.95


def test_a_users_validation_sees_classes_and_not_logits():
    seen = []

    def score(model):
        seen.append(model(three_clouds()[0]))
        return lbnn.class_metrics.log_loss(seen[-1], three_clouds()[1])

    trained(classifier(bnn.SoftmaxHead()), validation=score)
    assert all(isinstance(found, lbnn.Classes) for found in seen)


def test_class_numbers_beyond_the_logits_stop_a_training_in_one_line():
    x, y = three_clouds()
    with pytest.raises(LbnnError, match="numbered from 0 to 2"):
        lbnn.fit(classifier(bnn.SoftmaxHead()), (x, y + 1), epochs=1)
