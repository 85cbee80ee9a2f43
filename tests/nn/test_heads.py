"""Heads: features in, a predictive distribution out."""

import pytest
import torch
from torch.nn.functional import softplus

import lbnn
from lbnn import Moments
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.nn.heads import head_of, logits_only


def test_the_variance_head_adds_the_learned_variance_to_that_of_the_mean():
    features = Moments(torch.randn(5, 4), torch.rand(5, 4))
    out = bnn.VarianceHead()(features)
    torch.testing.assert_close(out.mean, features.mean[:, :2])
    torch.testing.assert_close(out.var, features.var[:, :2] + softplus(features.mean[:, 2:]))


def network(head):
    torch.manual_seed(0)
    return bnn.Sequential(bnn.Linear(4, 3), head)


def test_a_network_that_ends_in_a_head_gives_classes_and_keeps_the_moments_of_its_logits():
    x = torch.randn(6, 4)
    for kind in ("exact", "fast"):
        model = network(bnn.SoftmaxHead(kind))
        found, logits = model(x), model[0](x)
        expected = lbnn.softmax_moments(logits, kind)
        for one, other in zip(tuple(found)[:4], tuple(expected)[:4], strict=True):
            torch.testing.assert_close(one, other)
        assert [tuple(part.shape) for part in tuple(found)[:4]] == [(6, 3), (6,), (6,), (6,)]
        torch.testing.assert_close(found.logits.var, logits.var)
        assert found.mutual_information is found.epistemic
        assert found.label.tolist() == found.probability.argmax(1).tolist()


def test_a_sigmoid_head_gives_each_label_a_probability_of_its_own():
    found = network(bnn.SigmoidHead())(torch.randn(6, 4))
    assert found.probability.shape == (6, 3)
    assert found.entropy.shape == (6,)


def test_heads_take_half_precision_and_known_logits():
    found = bnn.SoftmaxHead()(torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16))
    torch.testing.assert_close(found.probability, torch.softmax(torch.tensor([[1.0, 2.0]]), -1))


def test_two_different_heads_in_one_model_are_refused():
    model = bnn.Sequential(network(bnn.SoftmaxHead()), bnn.SigmoidHead())
    with pytest.raises(LbnnError, match="can end in one only"):
        head_of(model)


def test_a_compiled_head_gives_the_same():
    head = bnn.SoftmaxHead()
    logits = Moments(torch.randn(5, 3), torch.rand(5, 3))
    compiled = torch.compile(head, backend="eager", fullgraph=True)(logits)
    torch.testing.assert_close(compiled.probability, head(logits).probability)


def test_logits_only_lasts_as_long_as_it_is_asked_for_and_errors_end_it():
    model, x = network(bnn.SoftmaxHead()), torch.randn(2, 4)
    with pytest.raises(RuntimeError), logits_only(model):
        assert isinstance(model(x), Moments)
        with logits_only(model, False):
            assert isinstance(model(x), lbnn.Classes)
        assert isinstance(model(x), Moments)
        raise RuntimeError
    assert isinstance(model(x), lbnn.Classes)
