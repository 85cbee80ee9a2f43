"""`lbnn.emulate`: a model's C on an emulated core as a function of arrays."""

import numpy as np
import pytest
import torch

import lbnn
from c_models import mlp
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from tiny_net import need_device


@pytest.fixture(scope="module")
def classifier():
    torch.manual_seed(0)
    return bnn.Sequential(bnn.Linear(3, 4, sigma=0.5), bnn.ReLU(), bnn.Linear(4, 5, sigma=0.5), bnn.SoftmaxHead())


def test_a_core_classifies_as_torch_does_and_counts_instructions(classifier):
    x = torch.randn(4, 3)
    with torch.no_grad():
        want = classifier(x)
    chip = lbnn.emulate(classifier, "cortex-m4", (3,))
    found = chip.classify(x.numpy())
    for name in ("probability", "entropy", "aleatoric", "epistemic"):
        assert np.allclose(getattr(found, name), getattr(want, name), atol=2e-5), name
    assert np.allclose(found.logits.mean, want.logits.mean, atol=1e-5)
    assert (found.label == want.label.numpy()).all()
    classified = chip.instructions
    chip(x.numpy())
    assert (chip.instructions > 0).all() and (classified > chip.instructions).all()


def test_an_avr_classifies_and_counts_cycles(classifier):
    """Its decision has integers of 16 bits."""
    x = torch.randn(2, 3)
    chip = lbnn.emulate(classifier, need_device("uno"), (3,))
    with torch.no_grad():
        want = classifier(x)
    found = chip.classify(x.numpy())
    assert np.allclose(found.probability, want.probability, atol=2e-5) and (found.label == want.label.numpy()).all()
    assert np.allclose(found.entropy, want.entropy, atol=2e-5)
    assert chip.instructions is None and (chip.counted_cycles > 1000).all()


def test_an_input_variance_and_an_output_of_several_axes_come_through():
    model = bnn.Sequential(bnn.Conv2d(1, 2, 3))
    x, var = np.random.default_rng(0).uniform(0.1, 1.0, size=(2, 2, 1, 4, 5)).astype(np.float32)
    mean, variance = lbnn.emulate(model, "cortex-m4", (1, 4, 5), input_variance=True)(x, var)
    with torch.no_grad():
        want = model(lbnn.Moments(torch.from_numpy(x), torch.from_numpy(var)))
    assert np.allclose(mean, want.mean, atol=1e-5) and np.allclose(variance, want.var, rtol=1e-4)


def test_what_is_wrong_is_said_in_one_line(classifier):
    with pytest.raises(LbnnError, match="unknown device 'z80'"):
        lbnn.emulate(classifier, "z80", (3,))
    with pytest.raises(LbnnError, match=r"takes \(N, \*\(3,\)\)"):
        lbnn.emulate(classifier, "c", (3,)).classify(np.zeros((1, 4)))
    with pytest.raises(LbnnError, match="sample 1 is refused with status -2"):
        lbnn.emulate(classifier, "c", (3,))([[0.0] * 3, [np.nan] * 3])
    with pytest.raises(LbnnError, match="has no head"):
        lbnn.emulate(mlp(3, 1), "c", (3,)).classify(np.zeros((1, 3)))
