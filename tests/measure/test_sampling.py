"""What Monte Carlo would need."""

import pytest

import lbnn
from lbnn import nn as bnn
from lbnn.measure.sampling import sampled_passes
from lbnn.measure.subject import ordinary_inputs
from lbnn.model.file import read_model


def test_one_gaussian_output_needs_two_hundred_passes_for_ten_percent(tmp_path):
    """The variance of a Gaussian from n samples has the relative standard error sqrt(2 / n)."""
    path = lbnn.save(bnn.Sequential(bnn.Linear(4, 1)), tmp_path / "linear.pt", input_shape=(4,))
    sampling = sampled_passes(path, ordinary_inputs(read_model(path)))
    assert sampling.passes == pytest.approx(200, rel=0.1)
    assert not sampling.resolved


def test_a_network_without_gaussian_weights_has_nothing_to_draw(tmp_path):
    path = lbnn.save(bnn.Sequential(bnn.Flatten(), bnn.LeakyReLU(0.1)), tmp_path / "plain.pt", input_shape=(4,))
    assert sampled_passes(path, ordinary_inputs(read_model(path))) is None
