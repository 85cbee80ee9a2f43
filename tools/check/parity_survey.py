"""Prints the worst errors of each backend over random networks, as docs/parity.md quotes them.

    python tools/check/parity_survey.py 60 --backends torch,onnx,c

The networks are ordinary ones of tests/support/strategies.py; `make random` runs networks of every argument and size.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from lbnn.measure.backends import BACKENDS
from lbnn.measure.parity import FLOAT32_TOLERANCE, Verdict, judge
from lbnn.measure.samples import draw_samples
from lbnn.model.file import Model, read_model

SAMPLES = 21  # three of each kind


def main() -> None:
    """Runs the networks and prints a line for each backend."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, help="number of networks")
    parser.add_argument("--backends", default="torch,onnx,c")
    given_arguments = parser.parse_args()
    rows = survey(random_models(given_arguments.count), given_arguments.backends.split(","))
    for backend, found in rows.items():
        print(f"{backend:10} {len(found):4} networks  {summary(found)}")


def random_models(count: int) -> list[Model]:
    """The same networks at each call."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
    networks = importlib.import_module("strategies").networks
    models: list[Model] = []

    @settings(max_examples=count, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(networks())
    def collect(case: Any) -> None:
        models.append(read_model(*case))

    collect()
    return models


def survey(models: list[Model], names: list[str]) -> dict[str, list[Verdict]]:
    """A row for each backend and network."""
    rows: dict[str, list[Verdict]] = {name: [] for name in names}
    for number, model in enumerate(models):
        samples = draw_samples(model, SAMPLES, seed=number)
        for name in names:
            rows[name].append(judge(name, BACKENDS[name].run, model, samples, FLOAT32_TOLERANCE))
    return rows


def summary(rows: list[Verdict]) -> str:
    """The worst errors, where the worst was, and how many are beyond the contract."""
    worst = max(rows, key=lambda row: max(row.mean_error, row.var_error))
    errors = [max(getattr(row, part) for row in rows) for part in ("mean_error", "var_error")]
    beyond = sum(not row.passed for row in rows)
    return f"mean {errors[0]:.1e}  variance {errors[1]:.1e}  worst sample {worst.worst}  beyond 1e-5: {beyond}"


if __name__ == "__main__":
    main()
