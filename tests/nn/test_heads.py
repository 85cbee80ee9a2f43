"""Heads: features in, a predictive distribution out."""

import torch
from torch.nn.functional import softplus

from lbnn import Moments
from lbnn import nn as bnn


def test_the_variance_head_adds_the_learned_variance_to_that_of_the_mean():
    features = Moments(torch.randn(5, 4), torch.rand(5, 4))
    out = bnn.VarianceHead()(features)
    torch.testing.assert_close(out.mean, features.mean[:, :2])
    torch.testing.assert_close(out.var, features.var[:, :2] + softplus(features.mean[:, 2:]))
