"""The rule of `lbnn train`: what follows from the number of rows."""

import math

import numpy as np
import pytest

from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.train.recipe import build, recipe_for, train_classes, train_network


@pytest.mark.parametrize(
    ("rows", "batch", "steps"),
    [(10, 32, 5000), (277, 32, 5000), (455, 32, 5000), (927, 32, 5000), (8192, 32, 8192), (10**4, 40, 10**4),
     (41_157, 161, 20_000), (10**7, 1024, 20_000)],
)  # fmt: skip
def test_batch_and_steps_follow_from_the_rows(rows, batch, steps):
    recipe = recipe_for(rows, (8,))
    taken = recipe.epochs * math.ceil(rows / recipe.batch)
    assert recipe.hidden == ((50,) if rows < 750 else (50, 50)) and recipe.batch == batch
    assert steps <= taken < steps + math.ceil(rows / recipe.batch)


def test_what_is_given_stands():
    recipe = recipe_for(100, (8,), hidden=[4, 3], epochs=7)
    assert (recipe.hidden, recipe.epochs) == ((4, 3), 7)
    assert recipe_for(100, (1, 8, 8)).hidden == (16, 16)


def test_the_network_has_its_own_units_inside():
    """Before training, standardised inputs and targets: predictions lie about the mean of the targets."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(1e5, 300, (50, 2)).astype(np.float32), rng.normal(-40, 3, (50, 1)).astype(np.float32)
    model = build(x, y, (5,))
    assert [type(layer) for layer in model] == [bnn.Standardize, bnn.Linear, bnn.LeakyReLU, bnn.Linear, bnn.Affine]
    network, history = train_network(x, y, recipe_for(50, (2,), epochs=2))
    assert len(history.epochs) == 2 and not network.training
    assert network(lbnn_input(x)).mean.mean().item() == pytest.approx(-40, abs=3)


@pytest.mark.parametrize("variance", ["rank1", "row"])
def test_every_layer_has_the_variance_of_the_recipe(variance):
    x, y = np.zeros((50, 2), np.float32), np.zeros((50, 1), np.float32)
    images, labels = np.zeros((20, 1, 8, 8), np.float32), np.zeros(20, np.int64)
    recipe = recipe_for(50, (2,), epochs=1, variance=variance)
    networks = [
        train_network(x, y, recipe)[0],
        train_network(x, y, recipe_for(50, (2,), epochs=1, variance=variance, head=True))[0],
        train_network(images, y[:20], recipe_for(20, (1, 8, 8), epochs=1, variance=variance, hidden=(2,)))[0],
        train_classes(x, np.arange(50) % 3, 3, recipe)[0],
        train_classes(images, labels, 2, recipe_for(20, (1, 8, 8), epochs=1, variance=variance, hidden=(2,)))[0],
    ]
    for network in networks:
        layers = [layer for layer in network.modules() if isinstance(layer, bnn.BayesianLayer)]
        assert len(layers) >= 2 and {layer.variance for layer in layers} == {variance}
    with pytest.raises(LbnnError, match="variance must be one of"):
        recipe_for(50, (2,), variance="diagonal")


def lbnn_input(x):
    import torch

    return torch.from_numpy(x)
