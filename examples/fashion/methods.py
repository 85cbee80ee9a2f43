"""The networks, and three ways to train one of them; an ensemble is made of several plain ones.

All ways see the same images for as many epochs, in batches of 64, with AdamW at one rate that falls to 0 by a cosine,
and start from the same weights. They differ in what their probabilities are:

    plain     the softmax of the network
    dropout   its mean over networks in which a tenth of the dense units is dropped at random (MC dropout)
    one pass  its mean over Gaussian weights, by moments
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from data import Fashion
from torch import Tensor, nn

import lbnn
from lbnn import nn as bnn

BATCH = 64
SIGMA, PRIOR, KL = 0.02, 0.1, 0.1  # of the weights at the start, of the prior, and the KL's weight beside the ELBO's
DROPPED, PASSES = 0.1, 20
AT_ONCE = 500  # images whose predictions are computed together


def mlp() -> nn.Sequential:
    """784-100-100-10."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Dropout(DROPPED),
        nn.Linear(100, 100), nn.ReLU(), nn.Dropout(DROPPED), nn.Linear(100, 10),
    )  # fmt: skip


def lenet() -> nn.Sequential:
    """Two convolutions with pooling and three dense layers, 61,706 weights."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Dropout(DROPPED),
        nn.Linear(120, 84), nn.ReLU(), nn.Dropout(DROPPED), nn.Linear(84, 10),
    )  # fmt: skip


@dataclass(frozen=True)
class Schedule:
    """How long a network is trained, and the learning rate that this begins with."""

    epochs: int
    rate: float
    seed: int = 0


NETWORKS = {"MLP": (mlp, Schedule(10, 0.002)), "LeNet": (lenet, Schedule(8, 0.009))}
"""At these rates the plain network did best on training images that nothing here is trained on, with one seed."""


@dataclass(frozen=True)
class Prediction:
    """Class probabilities (N, 10), and of moments the mean variance of the logits (N,), else zeros."""

    probability: Tensor
    logit_variance: Tensor


Predictor = Callable[[Tensor], Prediction]


def train(network: str, method: str, seed: int, data: Fashion, epochs: int | None = None) -> Predictor:
    """A trained network as a function of images."""
    build, usual = NETWORKS[network]
    schedule = replace(usual, epochs=epochs or usual.epochs, seed=seed)
    torch.manual_seed(seed)
    net = build()
    if method == "plain":
        for layer in net:
            if isinstance(layer, nn.Dropout):
                layer.p = 0.0
    mean, sd = data.scale
    images, labels = data.train
    scaled = (images - mean) / sd
    predict = METHODS[method](net, scaled, labels, schedule)

    @torch.no_grad()
    def predictor(x: Tensor) -> Prediction:
        parts = [predict((part - mean) / sd) for part in x.split(AT_ONCE)]
        return Prediction(torch.cat([p.probability for p in parts]), torch.cat([p.logit_variance for p in parts]))

    return predictor


def train_plain(net: nn.Module, x: Tensor, y: Tensor, how: Schedule) -> Predictor:
    """Cross-entropy; dropout while training where the network has any, and none afterwards."""
    _descend(net, x, y, how)
    net.eval()
    return lambda images: _certain(net(images).softmax(-1))


def train_dropout(net: nn.Module, x: Tensor, y: Tensor, how: Schedule) -> Predictor:
    """The same, and dropout goes on: the mean of several passes."""
    _descend(net, x, y, how)
    net.train()
    return lambda images: _certain(torch.stack([net(images).softmax(-1) for _ in range(PASSES)]).mean(0))


def train_moments(net: nn.Module, x: Tensor, y: Tensor, how: Schedule) -> Predictor:
    """The same network with Gaussian weights, and its head."""
    model = bnn.Sequential(*lbnn.from_torch(net, sigma=SIGMA), bnn.SoftmaxHead())
    prior, kl_weight = lbnn.priors.Gaussian(PRIOR), lbnn.priors.LinearWarmup(KL / len(x))
    lbnn.fit(
        model, (x, y), epochs=how.epochs, batch_size=BATCH, lr=how.rate, prior=prior, kl_weight=kl_weight, seed=how.seed
    )

    def predict(images: Tensor) -> Prediction:
        out = model(images)
        return Prediction(out.probability, out.logits.var.mean(-1))

    return predict


METHODS = {"plain": train_plain, "dropout": train_dropout, "one pass": train_moments}


def _certain(probability: Tensor) -> Prediction:
    return Prediction(probability, torch.zeros(len(probability)))


def _descend(net: nn.Module, x: Tensor, y: Tensor, how: Schedule) -> None:
    """What lbnn.fit does, without variances."""
    generator = torch.Generator().manual_seed(how.seed)
    batches = [rows for _ in range(how.epochs) for rows in torch.randperm(len(x), generator=generator).split(BATCH)]
    optimizer = torch.optim.AdamW(net.parameters(), lr=how.rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(batches))
    net.train()
    for rows in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()
        schedule.step()
