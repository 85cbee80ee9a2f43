"""Small models in files, and files that no reader takes."""

from pathlib import Path

import pytest
import torch

import lbnn
from lbnn import LbnnError
from lbnn import nn as bnn


def save_small(folder: Path, name: str = "small.pt", outputs: int = 2) -> Path:
    """3-8-outputs."""
    torch.manual_seed(0)
    model = bnn.Sequential(bnn.Linear(3, 8), bnn.LeakyReLU(0.1), bnn.Linear(8, outputs))
    return lbnn.save(model, folder / name, input_shape=(3,))


def refused(path: Path, data: bytes) -> str:
    """The one-line message that both readers give, about a file with these bytes."""
    path.write_bytes(data)
    messages = set()
    for read in (lbnn.read_model, lbnn.load):
        with pytest.raises(LbnnError) as error:
            read(path)
        messages.add(str(error.value))
    (message,) = messages
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message
