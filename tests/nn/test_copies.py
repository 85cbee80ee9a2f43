"""Upsampling and dropout that stays on."""

import numpy as np
import pytest
import torch
from torch import nn

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn
from lbnn.graph.reference import NUMPY
from lbnn.ops import OPS


@pytest.mark.parametrize("module", [nn.Upsample(scale_factor=2), nn.UpsamplingNearest2d(scale_factor=(3, 2))])
def test_upsampling_is_torchs_own_of_both_moments(module):
    x = Moments(torch.randn(2, 3, 4, 5), torch.rand(2, 3, 4, 5))
    out = lbnn.from_torch(module)(x)
    assert torch.equal(out.mean, module(x.mean)) and torch.equal(out.var, module(x.var))


@pytest.mark.parametrize(
    "call",
    [
        lambda: bnn.Upsample(scale_factor=0),
        lambda: bnn.Upsample(scale_factor=1.5),
        lambda: lbnn.from_torch(nn.Upsample(scale_factor=2, mode="bilinear")),
        lambda: lbnn.from_torch(nn.Upsample(size=(4, 4))),
        lambda: bnn.Upsample(scale_factor=(2, 2))(torch.ones(1, 2, 3)),
        lambda: bnn.Dropout(0.0),
        lambda: bnn.Dropout(1.0),
        lambda: lbnn.from_torch(nn.Dropout(), dropout="maybe"),
    ],
)
def test_what_has_no_moments_is_refused(call):
    with pytest.raises(LbnnError):
        call()


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_has_the_moments_of_every_outcome(p):
    """x takes mean +- sigma, the mask 0 or 1 / (1 - p): four outcomes with their probabilities."""
    mean, sigma = np.array([[0.0, 1.0, -3.0]]), np.array([[2.0, 0.5, 0.0]])
    outcomes = np.stack([x * mask for x in (mean - sigma, mean + sigma) for mask in (0.0, 1.0 / (1.0 - p))])
    weights = np.array([p, 1.0 - p, p, 1.0 - p])[:, None, None] / 2.0
    expected = (weights * outcomes).sum(0)
    spread = (weights * (outcomes - expected) ** 2).sum(0)
    out = OPS["dropout"].formula(NUMPY, Moments(mean, sigma**2), p=p)
    np.testing.assert_allclose(out.mean, expected, rtol=1e-12)
    np.testing.assert_allclose(out.var, spread, rtol=1e-12)
    known = OPS["dropout_point"].formula(NUMPY, mean, p=p)
    np.testing.assert_allclose(known.var, OPS["dropout"].formula(NUMPY, Moments(mean, 0.0 * mean), p=p).var, rtol=1e-12)


def test_dropout_is_kept_where_that_is_asked_for(tmp_path):
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.25), nn.Dropout(0.0), nn.Linear(4, 1))
    assert [type(layer) for layer in lbnn.from_torch(net)][1] is nn.Identity
    kept = lbnn.from_torch(net, dropout="keep")
    assert [type(layer) for layer in kept][1:3] == [bnn.Dropout, nn.Identity] and kept[1].p == 0.25
    lbnn.save(kept, tmp_path / "model.pt", (3,))
    x = torch.randn(2, 3)
    again, before = lbnn.load(tmp_path / "model.pt")(x), kept(x)
    assert torch.allclose(again.var, before.var) and torch.equal(again.mean, before.mean)
