"""What a training learns from: pairs, DataLoaders and samplers."""

import itertools

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lbnn.base.moments import Moments
from lbnn.train.losses import gaussian_nll
from trainings import draw, fit, line, network, spy


def test_a_pair_is_shuffled_and_every_row_comes_once_in_each_epoch():
    seen: list[torch.Tensor] = []
    x, y = line(24)
    fit(network(), (x, y), epochs=2, batch_size=10, loss=spy(seen))
    assert [len(part) for part in seen] == [10, 10, 4, 10, 10, 4]
    first, second = torch.cat(seen[:3]), torch.cat(seen[3:])
    assert not torch.equal(first, second) and not torch.equal(first, y)
    assert torch.equal(first.sort(0)[0], y.sort(0)[0]) and torch.equal(second.sort(0)[0], y.sort(0)[0])


def test_a_loader_trains_as_the_pair_it_holds():
    x, y = line()
    loader = DataLoader(TensorDataset(x, y), batch_size=len(y))
    one = fit(network(), loader, epochs=5, prior="gaussian")
    assert one.loss == pytest.approx(fit(network(), (x, y), epochs=5, prior="gaussian").loss, rel=1e-5)


def test_a_sampler_draws_a_fresh_batch_for_each_step():
    seen: list[torch.Tensor] = []
    fit(network(), draw, epochs=3, steps_per_epoch=2, loss=spy(seen))
    assert len(seen) == 6
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(seen, 2))


def test_inputs_may_be_uncertain():
    """Variance zero trains as known inputs do; without learning the NLL is that of the model on the Moments."""
    x, y = line()
    uncertain = Moments(x, torch.rand_like(x))
    known, zero = (
        fit(network(), (inputs, y), epochs=5, batch_size=8).loss for inputs in (x, Moments(x, torch.zeros_like(x)))
    )
    assert known == pytest.approx(zero, rel=1e-4)
    still = fit(network(), (uncertain, y), epochs=1, batch_size=8, lr=0.0)
    assert still.nll[0] == pytest.approx(gaussian_nll(network()(uncertain), y).item(), rel=1e-5)
