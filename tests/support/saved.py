"""Small models in files."""

from pathlib import Path

import torch

import lbnn
from lbnn import nn as bnn


def save_small(folder: Path, name: str = "small.pt", outputs: int = 2) -> Path:
    """3-8-outputs."""
    torch.manual_seed(0)
    model = bnn.Sequential(bnn.Linear(3, 8), bnn.LeakyReLU(0.1), bnn.Linear(8, outputs))
    return lbnn.save(model, folder / name, input_shape=(3,))
