"""Networks of feature maps for the tests of integers: every form of convolution, pool and padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from int_models import with_variances
from lbnn import nn as bnn
from lbnn.model.file import Model, read_model


class Residual(nn.Module):
    """Branches of maps: sums, joins, scales of channels, leaky-ReLUs that stand alone, pools that overlap."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = bnn.Affine(torch.tensor([[[0.5]], [[2.0]]]), torch.tensor([[[0.25]], [[-1.0]]]))
        self.stem = bnn.Conv2d(2, channels, 3, padding=1)
        self.act, self.relu = bnn.LeakyReLU(0.1), bnn.ReLU()
        self.inner = bnn.Conv2d(channels, channels, 3, padding=1)
        self.norm = bnn.Affine(
            torch.linspace(-2.0, 3.0, channels).reshape(-1, 1, 1), torch.linspace(1.0, -1.0, channels).reshape(-1, 1, 1)
        )
        self.pool = bnn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False)
        self.depthwise = bnn.Conv2d(2 * channels, 2 * channels, 3, groups=2 * channels)
        self.flatten, self.out = bnn.Flatten(), bnn.Linear(2 * channels * 2, 4)
        self.head = bnn.VarianceHead()

    def forward(self, x: Any) -> Any:
        x = self.stem(self.scale(x))
        y = self.relu(self.inner(self.act(x)))
        x = self.norm(self.act(x + y))
        x = self.act(self.depthwise(self.pool(bnn.cat([x, y]))))
        return self.head(self.out(self.flatten(x)))


def _c2(*args: Any, **keywords: Any) -> nn.Module:
    return bnn.Conv2d(*args, **keywords)


MAPS: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module]]] = {
    "cnn": (
        (1, 8, 8),
        lambda: bnn.Sequential(
            _c2(1, 4, 3, padding=1), bnn.LeakyReLU(0.1), bnn.AvgPool2d(2),
            _c2(4, 6, 3, padding=1), bnn.LeakyReLU(0.1), bnn.AvgPool2d(2), bnn.Flatten(), bnn.Linear(24, 3),
        ),
    ),
    "odd channels": (
        (3, 5, 7),
        lambda: bnn.Sequential(
            _c2(3, 5, 3, stride=2, padding=1), bnn.ReLU(), _c2(5, 3, (1, 2)), bnn.LeakyReLU(0.2),
            bnn.Flatten(), bnn.Linear(27, 2),
        ),
    ),
    "dilated groups": (
        (4, 9, 9),
        lambda: bnn.Sequential(
            _c2(4, 6, 3, padding=2, dilation=2, groups=2), bnn.LeakyReLU(0.1),
            _c2(6, 9, (3, 2), stride=(2, 1), groups=3, bias=False), bnn.ReLU(), bnn.AvgPool2d((2, 4)),
            bnn.Flatten(), bnn.Linear(9 * 2 * 2, 2),
        ),
    ),
    "depthwise": (
        (3, 6, 6),
        lambda: bnn.Sequential(
            _c2(3, 3, 3, padding=1, groups=3), bnn.LeakyReLU(0.1), _c2(3, 8, 1), bnn.LeakyReLU(0.1),
            _c2(8, 16, 3, stride=2, padding=1, groups=8), bnn.ReLU(), bnn.AvgPool2d(3),
            bnn.Flatten(), bnn.Linear(16, 3),
        ),
    ),
    "one axis": (
        (2, 21),
        lambda: bnn.Sequential(
            bnn.Conv1d(2, 4, 5, stride=2, padding=2), bnn.LeakyReLU(0.1), bnn.AvgPool1d(2),
            bnn.Conv1d(4, 3, 3, dilation=2), bnn.LeakyReLU(0.01), bnn.Flatten(), bnn.Linear(3, 2),
        ),
    ),
    "padded unevenly": (
        (2, 5, 4),
        lambda: bnn.Sequential(
            bnn.ZeroPad2d((1, 0, 0, 2)), _c2(2, 4, 3), bnn.LeakyReLU(0.1), bnn.ZeroPad2d((0, 2, 1, 0)),
            _c2(4, 2, 2, padding=1), bnn.Flatten(), bnn.Linear(2 * 7 * 6, 2),
        ),
    ),
    "windows outside": (
        (2, 3, 2),
        lambda: bnn.Sequential(
            _c2(2, 3, 1, padding=2), bnn.LeakyReLU(0.1), _c2(3, 2, (2, 1), padding=(3, 2), dilation=(2, 1)),
            bnn.Flatten(), bnn.Linear(2 * 11 * 10, 2),
        ),
    ),
    "pools": (
        (2, 9, 7),
        lambda: bnn.Sequential(
            _c2(2, 4, 3, padding=1), bnn.AvgPool2d(3, stride=2, padding=1), bnn.LeakyReLU(0.1),
            bnn.AvgPool2d(2, stride=1, padding=1, count_include_pad=False), _c2(4, 5, 2),
            bnn.AvgPool2d(2, ceil_mode=True), bnn.Flatten(), bnn.Linear(5 * 3 * 2, 2),
        ),
    ),
    "max pools": (
        (2, 9, 7),
        lambda: bnn.Sequential(
            _c2(2, 3, 3, padding=1), bnn.LeakyReLU(0.1), bnn.MaxPool2d(2),
            _c2(3, 4, 2, padding=1), bnn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), bnn.ReLU(),
            bnn.MaxPool2d((2, 1), stride=1), bnn.Flatten(), bnn.Linear(4 * 2 * 3, 2),
        ),
    ),
    "max pools along one axis": (
        (2, 25),
        lambda: bnn.Sequential(
            bnn.Conv1d(2, 4, 3), bnn.MaxPool1d(5, stride=2, padding=2), bnn.LeakyReLU(0.1),
            bnn.MaxPool1d(3, stride=1, dilation=2), bnn.Conv1d(4, 3, 2), bnn.MaxPool1d(7),
        ),
    ),
    "upsampled": (
        (2, 3, 5),
        lambda: bnn.Sequential(
            _c2(2, 3, 3, padding=1), bnn.LeakyReLU(0.1), bnn.UpsampleNearest((3, 2)), _c2(3, 3, 2, stride=3),
            bnn.ReLU(), bnn.UpsampleNearest((1, 3)),
        ),
    ),
    "upsampled along one axis": (
        (2, 7),
        lambda: bnn.Sequential(bnn.Conv1d(2, 3, 3), bnn.UpsampleNearest(3), bnn.LeakyReLU(0.1), bnn.Conv1d(3, 2, 4)),
    ),
    "padded for itself": (
        (2, 5, 4),
        lambda: bnn.Sequential(
            _c2(2, 3, 2), bnn.ZeroPad2d((1, 0, 2, 1)), bnn.MaxPool2d(2), bnn.LeakyReLU(0.1), _c2(3, 3, 2),
            bnn.ZeroPad2d((0, 2, 1, 0)),
        ),
    ),
    "averages of the input": (
        (3, 7, 6),
        lambda: bnn.Sequential(
            bnn.Affine(torch.tensor([[[0.5]], [[2.0]], [[1.0]]]), torch.tensor([[[0.25]], [[-1.0]], [[0.0]]])),
            bnn.AvgPool2d(2, stride=1, padding=1), _c2(3, 4, 3, stride=2), bnn.LeakyReLU(0.1), bnn.Flatten(),
            bnn.Linear(36, 2),
        ),
    ),
    "the largest of the input": (
        (1, 6, 7),
        lambda: bnn.Sequential(bnn.ZeroPad2d((1, 2, 0, 1)), bnn.MaxPool2d(3, stride=2), _c2(1, 3, 2), bnn.Flatten()),
    ),
    "the input upsampled": (
        (3, 2, 3),
        lambda: bnn.Sequential(bnn.UpsampleNearest(2), bnn.ReLU(), _c2(3, 2, 3, padding=1)),
    ),
    "pools alone behind the input": (
        (2, 12),
        lambda: bnn.Sequential(bnn.AvgPool1d(3), bnn.MaxPool1d(2), bnn.Flatten(), bnn.Linear(4, 3)),
    ),
    "pools that rise together": (
        (1, 8, 8),
        lambda: bnn.Sequential(
            _c2(1, 4, 3, padding=1), bnn.LeakyReLU(0.1), bnn.AvgPool2d(2, correlated=True),
            _c2(4, 3, 3, padding=1), bnn.AvgPool2d(3, stride=1, correlated=True), bnn.Flatten(), bnn.Linear(12, 2),
        ),
    ),
    "a map as result": (
        (2, 4, 5),
        lambda: bnn.Sequential(_c2(2, 4, 3, padding=1), bnn.LeakyReLU(0.1), _c2(4, 3, 1)),
    ),
    "a flattened map as result": (
        (1, 4, 4),
        lambda: bnn.Sequential(_c2(1, 3, 2), bnn.ReLU(), bnn.AvgPool2d(3), bnn.Flatten()),
    ),
    "vectors": (
        (5, 3),
        lambda: bnn.Sequential(
            bnn.Linear(3, 7), bnn.LeakyReLU(0.1), bnn.Linear(7, 4), bnn.ReLU(), bnn.Flatten(), bnn.Linear(20, 2)
        ),
    ),
    "branches": ((2, 7, 5), lambda: Residual(4)),
    "odd branches": ((2, 7, 5), lambda: Residual(3)),
}  # fmt: skip


def map_network(name: str, form: str, seed: int = 0) -> Model:
    """A network of MAPS with variances of a form: full, rank1, row or none."""
    shape, make = MAPS[name]
    torch.manual_seed(seed)
    return with_variances(read_model(make(), shape), form, seed)
