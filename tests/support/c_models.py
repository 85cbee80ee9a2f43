"""Models, builds and calls for the tests of generated C."""

from __future__ import annotations

import ctypes
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lbnn import nn as bnn
from lbnn.device.generated import GeneratedModel
from lbnn.exporters.c import COptions, export_c, lower
from lbnn.exporters.c.folder import write_program
from lbnn.model.file import Model, read_model

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wdouble-promotion", "-Werror")
STRICT = ("-std=c99", *WARNINGS)


class Zoo(nn.Module):
    """Every operator that has a kernel, with branches that share memory."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = bnn.Affine(torch.tensor([[[0.5]], [[2.0]]]), torch.tensor(0.25))
        self.stem = bnn.Conv2d(2, 6, 3, padding=1)
        self.act = bnn.LeakyReLU(0.1)
        self.pool = bnn.AvgPool2d(2)
        self.padded_pool = bnn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
        self.depthwise = bnn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.mix = bnn.Conv2d(6, 6, 1, bias=False)
        self.pad = bnn.ZeroPad2d((1, 0, 0, 2))
        self.strided = bnn.Conv2d(12, 5, 3, stride=2)
        self.flatten = bnn.Flatten()
        self.clamped = bnn.LeakyReLU(0.01, clamp=3.0)
        self.hidden = bnn.Linear(20, 8)
        self.out = bnn.Linear(8, 6)
        self.head = bnn.VarianceHead()

    def forward(self, x: Any) -> Any:
        x = self.pool(self.act(self.stem(self.scale(x))))
        y = self.mix(self.padded_pool(self.act(self.depthwise(x))))
        x = bnn.cat([x + y, y])
        x = self.flatten(self.act(self.strided(self.pad(x))))
        return self.head(self.out(self.clamped(self.hidden(x))))


def mlp(*sizes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for width, following in pairwise(sizes):
        layers += [bnn.Linear(width, following), bnn.LeakyReLU(0.01)]
    return bnn.Sequential(*layers[:-1])


def series() -> nn.Module:
    """A network over time."""
    return bnn.Sequential(
        bnn.Conv1d(2, 4, 3, dilation=2), bnn.ReLU(), bnn.AvgPool1d(2), bnn.Flatten(), bnn.Linear(12, 3)
    )


MODELS: dict[str, Any] = {
    "gas_sensor": lambda: (mlp(4, 9, 3, 1), (4,)),
    "series": lambda: (series(), (2, 10)),
    "zoo": lambda: (Zoo(), (2, 8, 8)),
}


def read(name: str) -> Model:
    torch.manual_seed(7)
    module, shape = MODELS[name]()
    return read_model(module, shape)


def export(name: str, out: Path, **options: Any) -> Path:
    """Exports a model under its own name."""
    return export_c(read(name), out, COptions(name=name, **options))


def generated(model: Model, folder: Path, **options: Any) -> GeneratedModel:
    """A model written into a folder, for `run_model`."""
    chosen = COptions(**options)
    return write_program(lower(model, chosen), model, chosen, folder)


def run(*command: Any, cwd: Path | None = None, env: Any = None) -> str:
    """The output of a command that must succeed."""
    given = list(map(str, command))
    done = subprocess.run(given, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def sources(folder: Path, name: str) -> list[Path]:
    return [folder / f"{name}.c", folder / f"{name}_selftest.c", folder / "example_main.c"]


class Library:
    """NAME_predict of a shared library, called with numpy arrays, its outputs filled and its memory full of NaN."""

    FILL = -123.0

    def __init__(self, path: Path, name: str, input_len: int, output_len: int, work_len: int) -> None:
        self.function = getattr(ctypes.CDLL(str(path)), f"{name}_predict")
        self.input_len, self.output_len, self.work_len = input_len, output_len, work_len

    def predict(self, *inputs: Any, null: str = "") -> tuple[int, np.ndarray, np.ndarray]:
        """Status, mean and variance; `null` names an argument to be left out."""
        arrays = {"input": inputs[0]} | ({"input_variance": inputs[1]} if len(inputs) > 1 else {})
        arrays |= {"mean": [self.FILL] * self.output_len, "variance": [self.FILL] * self.output_len}
        arrays |= {"work": [np.nan] * self.work_len}
        arrays = {key: np.array(value, np.float32) for key, value in arrays.items()}
        pointers = [None if key == null else array.ctypes.data_as(ctypes.c_void_p) for key, array in arrays.items()]
        status = self.function(*pointers)
        return status, arrays["mean"], arrays["variance"]
