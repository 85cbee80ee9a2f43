"""The four networks of MLPerf Tiny with lbnn's layers.

Keyword spotting (DS-CNN on 49x10 coefficients), image classification (ResNet-8 on 32x32x3), visual wake words
(MobileNetV1 0.25 on 96x96x3) and anomaly detection (an autoencoder of 640 numbers). Shapes, strides, and paddings that
are wider behind than before, are theirs; batch norms stand behind convolutions, as theirs do, and fold at export. The
benchmarks in tools/bench measure the same networks untrained.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from torch import nn

import lbnn
from lbnn import nn as bnn

SEPARABLE = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))
"""Output channels and strides of the separable layers of MobileNetV1 with a quarter of its width."""


def normed(conv: nn.Module, channels: int) -> list[nn.Module]:
    """A convolution with its batch norm and ReLU."""
    return [conv, bnn.BatchNorm2d(channels), bnn.ReLU()]


def separable(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    """Depthwise 3x3, then 1x1. With stride 2 the one column and row of padding lie behind."""
    pad = [bnn.ZeroPad2d((0, 1, 0, 1))] if stride == 2 else []
    depthwise = bnn.Conv2d(inputs, inputs, 3, stride=stride, padding=int(stride == 1), groups=inputs, bias=False)
    return [*pad, *normed(depthwise, inputs), *normed(bnn.Conv2d(inputs, outputs, 1, bias=False), outputs)]


class Residual(nn.Module):
    """Two convolutions and a way around them, 1x1 where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        pad = [bnn.ZeroPad2d((0, 1, 0, 1))] if stride == 2 else []
        first = bnn.Conv2d(inputs, outputs, 3, stride=stride, padding=int(stride == 1), bias=False)
        second = bnn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.body = bnn.Sequential(*pad, *normed(first, outputs), second, bnn.BatchNorm2d(outputs))
        self.around = bnn.Conv2d(inputs, outputs, 1, stride=stride) if stride == 2 else None
        self.end = bnn.ReLU()

    def forward(self, x: lbnn.Moments) -> lbnn.Moments:
        """body(x) + around(x)."""
        around = x if self.around is None else self.around(x)
        result: lbnn.Moments = self.end(self.body(x) + around)
        return result


def keyword_spotting() -> nn.Module:
    """DS-CNN with 64 channels: 12 keywords from a second of sound."""
    first = [bnn.ZeroPad2d((1, 1, 4, 5)), *normed(bnn.Conv2d(1, 64, (10, 4), stride=2, bias=False), 64)]
    blocks = [layer for _ in range(4) for layer in separable(64, 64)]
    return bnn.Sequential(*first, *blocks, bnn.AvgPool2d((25, 5)), bnn.Flatten(), bnn.Linear(64, 12))


def image_classification() -> nn.Module:
    """ResNet-8: ten kinds of small pictures."""
    first = normed(bnn.Conv2d(3, 16, 3, padding=1, bias=False), 16)
    stacks = [Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)]
    return bnn.Sequential(*first, *stacks, bnn.AvgPool2d(8), bnn.Flatten(), bnn.Linear(64, 10))


def visual_wake_words() -> nn.Module:
    """MobileNetV1 with a quarter of its channels: is there a person?"""
    pad = bnn.ZeroPad2d((0, 1, 0, 1))
    layers = [pad, *normed(bnn.Conv2d(3, 8, 3, stride=2, bias=False), 8)]
    channels = 8
    for outputs, stride in SEPARABLE:
        layers += separable(channels, outputs, stride)
        channels = outputs
    return bnn.Sequential(*layers, bnn.AvgPool2d(3), bnn.Flatten(), bnn.Linear(256, 2))


def anomaly_detection() -> nn.Module:
    """An autoencoder: what it can't repeat sounds unusual."""
    widths = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [bnn.Linear(inputs, outputs), bnn.BatchNorm1d(outputs), bnn.ReLU()]
    return bnn.Sequential(*layers, bnn.Linear(128, 640))


NETWORKS: dict[str, tuple[str, tuple[int, ...], Callable[[], nn.Module]]] = {
    "kws": ("keyword spotting, DS-CNN on 1x49x10", (1, 49, 10), keyword_spotting),
    "ic": ("image classification, ResNet-8 on 3x32x32", (3, 32, 32), image_classification),
    "vww": ("visual wake words, MobileNetV1 0.25 on 3x96x96", (3, 96, 96), visual_wake_words),
    "ad": ("anomaly detection, autoencoder of 640", (640,), anomaly_detection),
}
"""By name: what it is, the shape of its input, and how it is built; logits or, of the last, its input again."""
