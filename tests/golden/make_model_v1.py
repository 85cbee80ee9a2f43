"""Made model_v1.pt and model_v1.json once, with the first lbnn of format version 1; kept to show what is inside.

python tests/golden/make_model_v1.py FOLDER
"""

import json
import sys
from pathlib import Path

import torch
from torch import nn

import lbnn
from lbnn import nn as bnn


class Golden(nn.Module):
    """Every operator of format version 1."""

    def __init__(self) -> None:
        super().__init__()
        self.standardize = bnn.Standardize(0.5, 2.0)
        self.conv = bnn.Conv2d(1, 2, 3, padding=1, stride=(1, 2), bias=False)
        self.norm = bnn.BatchNorm(2, momentum=0.25)
        self.shared = bnn.Conv2d(2, 2, 1)
        self.clamped = bnn.LeakyReLU(0.1, clamp=3.0)
        self.tail = nn.Sequential(bnn.ZeroPad2d((0, 1, 0, 0)), bnn.AvgPool2d(2), bnn.Flatten(), bnn.Linear(20, 4))
        self.head = bnn.VarianceHead()

    def forward(self, x):
        x = self.norm(self.conv(self.standardize(x)))
        y = self.shared(bnn.ReLU()(self.shared(x)))
        z = lbnn.cat([x + y, torch.ones(x.shape[0], 1, 4, 3)])
        z = bnn.Add()(z, torch.full((x.shape[0], 3, 4, 3), 0.25))
        return self.head(self.tail(lbnn.cat([self.clamped(z), -2.0 * x])))


def bits(tensor: torch.Tensor) -> list[int]:
    """float32 bit patterns."""
    return tensor.detach().contiguous().view(torch.int32).flatten().tolist()


def main(folder: Path) -> None:
    torch.manual_seed(1)
    model = Golden()
    model(torch.randn(64, 1, 4, 5))  # moves the statistics of the batch norm
    model.eval()
    metadata = {"units": ["V", "A"], "trained": {"epochs": 3, "loss": -0.5, "converged": True, "note": None}}
    lbnn.save(model, folder / "model_v1.pt", input_shape=(1, 4, 5), name="golden", metadata=metadata)
    x = torch.randn(4, 1, 4, 5)
    out = model(x)
    expected = {"input": bits(x), "mean": bits(out.mean), "var": bits(out.var)}
    (folder / "model_v1.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
