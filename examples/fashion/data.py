"""Fashion-MNIST as Debian packages it, and pictures that are none of its kinds of clothes."""

from __future__ import annotations

import gzip
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lbnn import LbnnError

FOLDER = Path("/usr/share/datasets/fashion-mnist")
NAMES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
SIDE = 28
TRAINED, TESTED, FOREIGN = 10_000, 10_000, 2_000


@dataclass(frozen=True)
class Fashion:
    """Images (N, 1, 28, 28) with pixels from 0 to 1, in float32, and their classes (N,)."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]

    @property
    def scale(self) -> tuple[float, float]:
        """Mean and standard deviation of the training pixels."""
        return float(self.train[0].mean()), float(self.train[0].std())


def fashion_lacks(folder: Path = FOLDER) -> str:
    """How to get the images; nothing where they are."""
    if (folder / "train-images-idx3-ubyte.gz").exists():
        return ""
    return f"{folder} has no Fashion-MNIST; install it with: apt-get install dataset-fashion-mnist"


def read_fashion(folder: Path = FOLDER, trained: int = TRAINED) -> Fashion:
    """The first images of each part."""
    if lack := fashion_lacks(folder):
        raise LbnnError(lack)
    return Fashion(_part(folder, "train", trained), _part(folder, "t10k", TESTED))


def _part(folder: Path, name: str, count: int) -> tuple[Tensor, Tensor]:
    pixels = read_idx(folder / f"{name}-images-idx3-ubyte.gz")[:count, None]
    labels = read_idx(folder / f"{name}-labels-idx1-ubyte.gz")[:count]
    return torch.from_numpy(pixels.astype(np.float32) / 255.0), torch.from_numpy(labels.astype(np.int64))


def read_idx(path: Path) -> np.ndarray:
    """An array of bytes in the format of MNIST: 0, 0, 8, the number of axes, each length in 4 bytes, the data."""
    data = gzip.decompress(path.read_bytes())
    if data[:3] != b"\0\0\x08":
        raise LbnnError(f"{path} is no file of bytes in the format of MNIST; install dataset-fashion-mnist anew")
    shape = tuple(np.frombuffer(data, ">i4", data[3], 4))
    if len(data) != 4 + 4 * data[3] + math.prod(shape):
        raise LbnnError(f"{path} is cut off; install dataset-fashion-mnist anew")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def foreign_sets(images: Tensor, count: int = FOREIGN) -> dict[str, Tensor]:
    """What no network here was shown: clothes turned on their side, as negatives, digits, and noise."""
    known = images[:count]
    generator = torch.Generator().manual_seed(0)
    return {
        "turned 90": known.rot90(1, (2, 3)).contiguous(),
        "negative": 1.0 - known,
        "digits": enlarged_digits(len(known)),
        "noise": torch.rand(known.shape, generator=generator),
    }


def enlarged_digits(count: int) -> Tensor:
    """scikit-learn's handwritten digits, 8x8, at the size of the clothes."""
    from sklearn.datasets import load_digits

    pixels = torch.from_numpy(load_digits().images[:count, None]).float() / 16.0
    return torch.nn.functional.interpolate(pixels, size=(SIDE, SIDE), mode="bilinear", align_corners=False)
