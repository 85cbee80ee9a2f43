"""`lbnn.compile`: the C of a model as a function of arrays."""

import numpy as np
import pytest
import torch

import lbnn
from c_models import mlp
from lbnn import nn as bnn
from lbnn.base.classes import Classes
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments


def test_compile_takes_a_path_and_returns_a_function_of_arrays(tmp_path):
    torch.manual_seed(0)
    model = mlp(3, 5, 2)
    lbnn.save(model, tmp_path / "model.pt", input_shape=(3,))
    compiled = lbnn.compile(tmp_path / "model.pt", flags=("-O1",))
    x = np.random.default_rng(0).normal(size=(7, 3))
    mean, var = compiled(x)
    with torch.no_grad():
        want = model.double()(torch.tensor(x, dtype=torch.float32).double())
    assert mean.shape == var.shape == (7, 2) and mean.dtype == np.float32
    assert np.allclose(mean, want.mean, rtol=1e-5, atol=1e-6) and np.allclose(var, want.var, rtol=1e-5)
    assert compiled(x[:0]).mean.shape == (0, 2)


def test_compile_gives_each_sample_its_own_input_variance():
    compiled = lbnn.compile(mlp(3, 2), (3,), input_variance=True, flags=("-O0",))
    x, var = np.random.default_rng(0).uniform(0.1, 1.0, size=(2, 4, 3))
    together = [part.copy() for part in compiled(x, var)]
    for i in range(4):
        alone = compiled(x[i : i + 1], var[i : i + 1])
        assert [part[i].tolist() for part in together] == [part[0].tolist() for part in alone]


def test_compile_reads_no_sample_before_or_behind_those_it_is_given():
    compiled = lbnn.compile(mlp(3, 2), (3,), flags=("-O0",))
    fenced = np.full((6, 3), np.nan, np.float32)
    fenced[1:5] = np.arange(12.0).reshape(4, 3)
    assert np.shares_memory(fenced, np.ascontiguousarray(fenced[1:5]))  # which is why the fence stands beside it
    assert all(np.isfinite(part).all() and len(part) == 4 for part in compiled(fenced[1:5]))


def test_compile_reports_what_is_wrong_with_the_input():
    compiled = lbnn.compile(mlp(3, 1), (3,), flags=("-O0",))
    with pytest.raises(LbnnError, match=r"takes \(N, \*\(3,\)\)"):
        compiled(np.zeros(3))
    with pytest.raises(LbnnError, match="sample 1: an input is not finite"):
        compiled(np.array([[0.0] * 3, [np.nan] * 3]))
    with pytest.raises(LbnnError, match="input_variance=True"):
        compiled(np.zeros((1, 3)), np.zeros((1, 3)))


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize(
    ("head", "logits"), [(bnn.SoftmaxHead(), 3), (bnn.SoftmaxHead("fast"), 3), (bnn.SigmoidHead(), 1)]
)
def test_a_model_with_a_head_gives_classes(head, logits, random):
    torch.manual_seed(1)
    model = bnn.Sequential(*mlp(3, 5, logits), head)
    compiled = lbnn.compile(model, (3,), input_variance=random, flags=("-O1",))
    x, var = np.random.default_rng(0).uniform(0.1, 2.0, size=(2, 6, 3)).astype(np.float32)
    got = compiled(x, var) if random else compiled(x)
    with torch.no_grad():
        given = torch.tensor(x).double()
        want = model.double()(Moments(given, torch.tensor(var).double()) if random else given)
    assert isinstance(got, Classes) and got.label.tolist() == want.label.tolist()
    for name in ("probability", "entropy", "aleatoric", "epistemic"):
        np.testing.assert_allclose(getattr(got, name), getattr(want, name), atol=1e-5)
    np.testing.assert_allclose(got.logits.mean, want.logits.mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got.logits.var, want.logits.var, rtol=1e-4)
    assert compiled(x[:0]).probability.shape == (0, logits)
