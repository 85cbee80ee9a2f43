"""`lbnn.compile`: the C of a model as a function of arrays."""

import numpy as np
import pytest
import torch

import lbnn
from c_models import mlp
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError


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


LAYERS = {
    "mlp": (lambda: mlp(5, 37, 150, 3), (5,)),
    "elu": (lambda: bnn.Sequential(bnn.Linear(4, 11), bnn.ELU(), bnn.Linear(11, 9), bnn.Abs()), (4,)),
    "cnn": (lambda: bnn.Sequential(bnn.Conv2d(1, 5, 3), bnn.ReLU(), bnn.Flatten(), bnn.Linear(80, 2)), (1, 6, 6)),
}


@pytest.mark.parametrize("flags", [("-O1",), ("-O3", "-march=native", "-std=gnu99")], ids=["-O1", "-O3 fused"])
@pytest.mark.parametrize("layers", LAYERS)
def test_a_batch_has_the_bits_of_its_samples_alone_whatever_the_threads(layers, flags):
    """A batch goes through linear layers many samples at a time; 37 are some of those tiles and a rest."""
    torch.manual_seed(1)
    make, shape = LAYERS[layers]
    alone = lbnn.compile(model := make(), shape, flags=flags)
    many = lbnn.compile(model, shape, flags=flags, threads=0 if layers == "elu" else 3)
    x = np.random.default_rng(0).normal(size=(37, *shape)).astype(np.float32)
    singles = [[part[0].copy() for part in alone(x[i : i + 1])] for i in range(len(x))]
    for together in (alone(x), many(x)):
        for part, wanted in zip(together, zip(*singles, strict=True), strict=True):
            assert np.array_equal(part.view(np.uint32), np.stack(wanted).view(np.uint32))
    assert many(x[:2]).mean.shape == (2, singles[0][0].size) and many(x[:0]).mean.size == 0


@pytest.mark.parametrize("input_variance", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_sample_that_fails_is_named_though_many_are_computed_at_once(input_variance, threads):
    compiled = lbnn.compile(mlp(3, 20, 2), (3,), flags=("-O1",), input_variance=input_variance, threads=threads)
    x = np.zeros((100, 3), np.float32)
    x[[41, 43, 90]] = np.nan
    with pytest.raises(LbnnError, match=r"^sample 41: an input is not finite"):
        compiled(x)
    x[[41, 43, 90]] = 3e38
    with pytest.raises(LbnnError, match=r"^sample 41: an output is not finite"):
        compiled(x)
    if input_variance:
        with pytest.raises(LbnnError, match=r"^sample 7: .* variance is negative"):
            compiled(np.zeros_like(x), np.where(np.arange(100)[:, None] == 7, -1.0, 0.0) + 0 * x)


def test_less_than_no_thread_is_refused():
    with pytest.raises(LbnnError, match="threads=-1: give the number of threads, or 0 for all cores"):
        lbnn.compile(mlp(3, 1), (3,), threads=-1)


@pytest.mark.parametrize("head", [bnn.SoftmaxHead(), bnn.SoftmaxHead("fast"), bnn.SigmoidHead()], ids=repr)
def test_a_model_with_a_head_classifies_as_torch_does_and_gives_the_logits_too(head):
    torch.manual_seed(0)
    model = bnn.Sequential(bnn.Linear(3, 4, sigma=0.5), bnn.ReLU(), bnn.Linear(4, 5, sigma=0.5), head)
    x = torch.randn(7, 3)
    with torch.no_grad():
        want = model(x)
    found = lbnn.compile(model, (3,), flags=("-O1",)).classify(x.numpy())
    for name in ("probability", "entropy", "aleatoric", "epistemic"):
        assert np.allclose(getattr(found, name), getattr(want, name), atol=2e-5), name
    assert (found.label == want.label.numpy()).all()
    assert np.allclose(found.logits.var, want.logits.var, rtol=1e-4)


def test_classify_takes_an_input_variance_and_refuses_a_model_without_a_head():
    model = bnn.Sequential(mlp(3, 4), bnn.SoftmaxHead())
    x, var = np.random.default_rng(0).uniform(0.1, 1.0, size=(2, 4, 3)).astype(np.float32)
    found = lbnn.compile(model, (3,), input_variance=True, flags=("-O0",)).classify(x, var)
    with torch.no_grad():
        want = model(lbnn.Moments(torch.from_numpy(x), torch.from_numpy(var)))
    assert np.allclose(found.probability, want.probability, atol=2e-5)
    with pytest.raises(LbnnError, match="sample 1: an input is not finite"):
        lbnn.compile(model, (3,), flags=("-O0",)).classify(np.array([[0.0] * 3, [np.nan] * 3]))
    with pytest.raises(LbnnError, match="has no head"):
        lbnn.compile(mlp(3, 1), (3,), flags=("-O0",)).classify(np.zeros((1, 3)))
