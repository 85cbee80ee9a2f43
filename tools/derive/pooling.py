"""Both rules of average pooling beside weight sampling, on a trained network: the table of docs/layers.md.

python tools/derive/pooling.py
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

import lbnn

CLASSES, SIDE, SAMPLES, STEPS = 4, 16, 400, 150


def waves(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Waves in one of four directions, of any phase and length, in noise; the direction is the class."""
    labels = torch.randint(CLASSES, (count,), generator=generator)
    phase, length = torch.rand(2, count, 1, 1, generator=generator)
    y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    angle = (labels * math.pi / CLASSES)[:, None, None]
    along = torch.cos(angle) * x + torch.sin(angle) * y
    pictures = torch.sin(2 * math.pi * (along / (4 + 4 * length) + phase))
    return (pictures + 0.5 * torch.randn(pictures.shape, generator=generator))[:, None], labels


def separable(channels: int, out: int, stride: int) -> list[nn.Module]:
    """A convolution of each channel by itself, and one that mixes them."""
    apart = nn.Conv2d(channels, channels, 3, stride, padding=1, groups=channels)
    return [apart, nn.ReLU(), nn.Conv2d(channels, out, 1), nn.ReLU()]


def trained() -> nn.Sequential:
    """A plain depthwise-separable network that tells the directions apart."""
    torch.manual_seed(0)
    stem = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()]
    body = [*separable(16, 24, 2), *separable(24, 32, 1)]
    net = nn.Sequential(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES))
    optimizer, generator = torch.optim.Adam(net.parameters(), 3e-3), torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        pictures, labels = waves(64, generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(pictures), labels).backward()
        optimizer.step()
    return net.eval()


def row(net: nn.Sequential, pictures: Tensor, sigma: float, correlated: bool) -> str:
    """The standard deviation of the logits in one pass, over that of drawn networks."""
    model = lbnn.from_torch(net, sigma=sigma, correlated=correlated)
    check = lbnn.montecarlo.monte_carlo(model, pictures, SAMPLES, torch.Generator().manual_seed(3))
    return f"| {sigma} | {'`correlated=True`' if correlated else 'independent'} | {check.sd_ratio:.2f} |"


if __name__ == "__main__":
    net = trained()
    pictures, labels = waves(16, torch.Generator().manual_seed(2))
    print("| sigma of the weights | pooling | logit sd, one pass / sampled |")
    print("|---|---|---|")
    for sigma in (0.01, 0.05):
        for correlated in (False, True):
            print(row(net, pictures, sigma, correlated))
