"""Prints how far the heads are from the true mean of the softmax, by number of classes, and what they cost.

    python tools/tables/class_table.py errors    # against fine quadrature: probabilities, entropy, mutual information
    python tools/tables/class_table.py costs     # instructions on a Cortex-M4F for ten classes, by gcc

Logits are those of tests/support/gumbel.py: standard deviations from 0 to 20, equal, mixed and up to 1e5 apart in
variance, narrow classes that begin where wide ones do, a few narrow ones beside many wide ones, and one to three wide
ones among the rest.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lbnn import nn as bnn
from lbnn.base.moments import Moments
from lbnn.base.terminal import progress
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.folder import write_program
from lbnn.model.file import read_model
from lbnn.nn.heads import softmax_moments

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
gumbel = importlib.import_module("gumbel")

ROWS = {2: 60, 3: 60, 5: 60, 10: 60, 20: 20, 30: 20, 50: 20, 100: 20}
KINDS = ("exact", "fast")
PARTS = ("probability", "entropy", "information")
STANDARDS = ("gnu99", "c99")
"""gcc fuses products with sums in the first one only."""
HEADS: dict[str, Any] = {
    "`SoftmaxHead()`, variances 2": (bnn.SoftmaxHead, 2.0),
    "`SoftmaxHead()`, variances 0.3": (bnn.SoftmaxHead, 0.3),
    '`SoftmaxHead("fast")`': (lambda: bnn.SoftmaxHead("fast"), 2.0),
    "`SigmoidHead()`": (bnn.SigmoidHead, 2.0),
}


def print_errors() -> None:
    """A row for each number of classes: the largest errors of both kinds over all rows."""
    columns = ["classes", "rows", *(f"{kind}: {part}" for kind in KINDS for part in PARTS)]
    print(f"| {' | '.join(columns)} |")
    print("|" + "---:|" * len(columns))
    with progress("quadrature", [f"{count} classes" for count in ROWS]) as steps:
        for (count, rows), _ in zip(ROWS.items(), steps, strict=True):
            drawn = gumbel.all_rows(count, (rows, rows, rows))
            found = np.array([_errors(*row) for row in drawn]).max(axis=0)
            print(f"| {count} | {len(drawn)} | {' | '.join(f'{error:.1e}' for error in found.reshape(-1))} |")


def _errors(mean: Any, sigma: Any) -> list[list[float]]:
    truth = gumbel.quadrature(mean, sigma)
    logits = Moments(*(torch.as_tensor(part[None], dtype=torch.float32) for part in (mean, np.square(sigma))))
    errors = []
    for kind in KINDS:
        found = softmax_moments(logits, kind)
        gap = float(np.abs(found.probability[0].double().numpy() - truth.probability).max())
        errors.append([gap, abs(float(found.entropy) - truth.entropy), abs(float(found.epistemic) - truth.epistemic)])
    return errors


def print_costs() -> None:
    """What NAME_classify takes more than NAME_predict."""
    print(f"| head, ten logits | {' | '.join(f'`-std={standard}`' for standard in STANDARDS)} |")
    print("|---|" + "---:|" * len(STANDARDS))
    with progress("compiling", list(HEADS)) as names:
        for name in names:
            counts = [instructions_of(*HEADS[name], standard) for standard in STANDARDS]
            print(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |")


def instructions_of(head: Any, variance: float, standard: str) -> int:
    """What NAME_classify takes more than NAME_predict for ten logits of this variance."""
    layers = bnn.Sequential(bnn.Affine(torch.ones(10), torch.zeros(10)), head())
    model, options = read_model(layers, (10,)), COptions(name="net", input_variance=True)
    mean = np.random.default_rng(0).normal(size=(4, 10)).astype(np.float32)
    var, flags = np.full_like(mean, variance), ("-O2", f"-std={standard}", "-fno-math-errno")
    with tempfile.TemporaryDirectory() as folder:
        written = write_program(lower(model, options), model, options, Path(folder) / "c")
        with_head, without = (
            run_model("cortex-m4-gcc", replace(written, classifies=which), mean, var, flags=flags)
            for which in (True, False)
        )
    assert with_head.instructions is not None and without.instructions is not None
    return int((with_head.instructions - without.instructions).max())


if __name__ == "__main__":
    {"errors": print_errors, "costs": print_costs}[sys.argv[1]]()
