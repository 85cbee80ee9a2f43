"""Prints what the benchmark models cost on a Cortex-M4F with full and with rank-1 variances, for docs/variances.md.

python tools/bench/rank1_cost.py
"""

from __future__ import annotations

from bench_models import MODELS, build
from lbnn.base.temporary import temporary_folder
from lbnn.base.terminal import kilobytes, thousands
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.folder import write_program
from lbnn.measure.counting import DEVICE_FLAGS
from lbnn.measure.subject import NAME, ordinary_inputs
from lbnn.model.file import read_model
from lbnn.nn import BayesianLayer

CORE = "cortex-m4-gcc"


def cost(name: str, variance: str) -> tuple[str, str, str]:
    """Instructions of a prediction, bytes of weights, bytes of work memory."""
    module = build(name)
    for layer in module.modules():
        if isinstance(layer, BayesianLayer):
            layer.spread_evenly(float(layer.weight_rho.detach().flatten()[0]), variance)
    model, options = read_model(module, MODELS[name][1]), COptions(name=NAME)
    program = lower(model, options)
    with temporary_folder() as folder:
        net = write_program(program, model, options, folder / "c")
        inputs = ordinary_inputs(model)[:1].reshape(1, -1)
        result = run_model(CORE, net, inputs, flags=DEVICE_FLAGS)
    work = program.dtype.element.itemsize * program.work_len
    weights = program.dtype.weight.itemsize * program.weight_len
    return thousands(int(result.instructions.max())), kilobytes(weights), kilobytes(work)


def table() -> str:
    """A row for each model."""
    columns = ("instructions", "weights", "work")
    head = [f"{column}, {variance}" for column in columns for variance in ("full", "rank1")]
    lines = [f"| model | {' | '.join(head)} |", "|---" + "|---:" * len(head) + "|"]
    for name, (title, _, _) in MODELS.items():
        both = zip(cost(name, "full"), cost(name, "rank1"), strict=True)
        cells = [cell for pair in both for cell in pair]
        lines.append(f"| {name.upper()}, {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
