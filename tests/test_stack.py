"""The stack that a folder's footprint states, before any compiler has seen it, against what runs really take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from c_models import Zoo, mlp
from conftest import need
from lbnn import nn as bnn
from lbnn.backends.c import COptions, export_c
from lbnn.checkpoint import read_model
from lbnn.emulators import DeviceResult, run_model


class Residual(nn.Module):
    """A sum and a concatenation around linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = bnn.Sequential(bnn.Linear(6, 6), bnn.ReLU())
        self.head = bnn.Sequential(bnn.Linear(12, 4), bnn.VarianceHead())

    def forward(self, x: Any) -> Any:
        y = self.inner(x)
        return self.head(bnn.cat([x + y, y]))


def cnn() -> nn.Module:
    return bnn.Sequential(
        bnn.Conv2d(1, 4, 3, padding=1),
        bnn.LeakyReLU(0.1),
        bnn.AvgPool2d(2),
        bnn.Conv2d(4, 6, 3, padding=1),
        bnn.LeakyReLU(0.1),
        bnn.Flatten(),
        bnn.Linear(96, 3),
    )


MODELS: dict[str, Any] = {
    "mlp": lambda: (mlp(4, 9, 3, 1), (4,)),
    "cnn": lambda: (cnn(), (1, 8, 8)),
    "residual": lambda: (Residual(), (6,)),
    "zoo": lambda: (Zoo(), (2, 8, 8)),
}
SOFT_FLOAT_STACK = 48  # of the compiler's own routines: no -fstack-usage speaks of them


@pytest.fixture(scope="module", params=[(name, variance) for name in MODELS for variance in (False, True)], ids=str)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bool]:
    name, variance = request.param
    torch.manual_seed(4)
    model = read_model(*MODELS[name]())
    out = tmp_path_factory.mktemp(name) / "c"
    return export_c(model, out, COptions(name="net", input_variance=variance)), variance


def painted(device: str, exported: tuple[Path, bool], *flags: str) -> DeviceResult:
    """A run on a stack that was painted before: inputs take every branch of the kernels, far out and near zero."""
    need("arm-none-eabi-gcc")
    folder, variance = exported
    sizes = [[0.0], [1.0], [30.0], [1e5]]
    inputs = (np.random.default_rng(0).normal(size=(4, input_len(folder))) * sizes).astype(np.float32)
    return run_model(device, folder, "net", inputs, inputs**2 if variance else None, flags)


def input_len(folder: Path) -> int:
    line = next(line for line in (folder / "net.h").read_text().splitlines() if "NET_INPUT_LEN" in line)
    return int(line.split()[2])


def stated(exported: tuple[Path, bool]) -> int:
    return int(json.loads((exported[0] / "net_footprint.json").read_text())["stack_bytes"])


@pytest.mark.parametrize("level", ["-O2", "-Os"])
def test_a_run_on_a_cortex_m4f_takes_no_more_stack_than_the_footprint_states(
    level: str, exported: tuple[Path, bool]
) -> None:
    result = painted("cortex-m4-gcc", exported, level)
    assert result.stack_bytes and result.stack_bound and not result.stack_bound.unknown
    assert result.stack_bytes <= result.stack_bound.bytes <= stated(exported)


@pytest.mark.parametrize("device", ["cortex-m0-gcc", "cortex-m3-gcc", "cortex-m7-gcc", "cortex-m33-gcc"])
def test_the_statement_holds_on_the_other_cores(device: str, exported: tuple[Path, bool]) -> None:
    """Where float is software its routines come on top."""
    own = SOFT_FLOAT_STACK if device in ("cortex-m0-gcc", "cortex-m3-gcc") else 0
    result = painted(device, exported)
    assert result.stack_bytes and result.stack_bytes <= stated(exported) + own


def test_without_optimisation_the_statement_does_not_hold(exported: tuple[Path, bool]) -> None:
    """At -O0 every number of an inlined formula has a place of its own: kilobytes, as docs/devices.md says."""
    stack = painted("cortex-m4-gcc", exported, "-O0").stack_bytes
    assert stack and stated(exported) < stack < 8192
