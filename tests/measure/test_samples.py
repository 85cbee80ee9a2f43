"""Inputs that backends are compared on."""

import numpy as np
import torch

from lbnn import nn as bnn
from lbnn.measure.samples import draw_samples
from lbnn.model.file import read_model
from lbnn.model.inputs import input_scale


def small_model():
    torch.manual_seed(3)
    return read_model(
        bnn.Sequential(bnn.Linear(3, 8), bnn.LeakyReLU(0.1), bnn.Linear(8, 8), bnn.LeakyReLU(0.1), bnn.Linear(8, 2)),
        (3,),
    )


def test_samples_cover_every_kind_and_follow_the_seed():
    model = small_model()
    samples = draw_samples(model, 21, seed=5)
    assert set(samples.kinds) == {"ordinary", "10x out", "zeros", "spike", "denormal", "1e6"}
    assert samples.mean.dtype == np.float32 and samples.mean.shape == (21, 3)
    np.testing.assert_array_equal(samples.mean, draw_samples(model, 21, seed=5).mean)
    denormal = samples.mean[samples.kinds.index("denormal")]
    assert 0 < np.abs(denormal).max() < np.finfo(np.float32).tiny
    assert (samples.counted, samples[0].counted) == ("21 samples", "1 sample")


def test_ordinary_inputs_are_those_the_first_layer_standardises():
    model = read_model(bnn.Sequential(bnn.Standardize([100.0], [5.0]), bnn.Linear(1, 1)), (1,))
    centre, spread = input_scale(model.graph)
    np.testing.assert_allclose((centre, spread), ([100.0], [5.0]), rtol=1e-6)
