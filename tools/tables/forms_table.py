"""Prints what each way to store weights takes and loses: bytes, instructions on a Cortex-M4F, and the rounding's KL.

    python tools/tables/forms_table.py

The benchmark models M1 (an MLP 16-64-64-1) and M2 (a CNN on 1x16x16), compiled by gcc 12, `-O2 -std=gnu99
-fno-math-errno`. KL, means and variances are of 512 ordinary inputs, beside the weights as they were trained.
"""

from __future__ import annotations

import cost_table
from lbnn.base.terminal import progress, thousands
from lbnn.exporters.c import COptions, footprint, lower
from lbnn.graph.reference import predict
from lbnn.measure.loss import measure_loss
from lbnn.measure.samples import draw_samples
from lbnn.measure.stored import as_stored
from lbnn.measure.subject import NAME

FORMS = {"float32": "source", "half floats": "half"}
COLUMNS = ("", "weights, bytes", "code, bytes", "Cortex-M4F", "KL mean", "KL worst", "mean error", "variance ratio")
SAMPLES = 512 * 7 // 2
"""Two of seven are ordinary."""


def row(name: str, form: str, weights: str) -> list[str]:
    """One model with its weights in one form."""
    model, options = cost_table.built(name), COptions(name=NAME, weights=weights)
    found = cost_table.counted(model, cost_table.M4, options)
    need = footprint(lower(model, options))
    cells = [f"{name.upper()}, {form}", thousands(need.weight_bytes), thousands(found.cost.code_bytes)]
    cells.append(thousands(found.cost.instructions))
    if weights == "source":
        return [*cells, "", "", "", ""]
    drawn = draw_samples(model, SAMPLES, 0)
    x = drawn.mean[[kind == "ordinary" for kind in drawn.kinds]]
    loss = measure_loss(predict(model.graph, x, None), predict(as_stored(model, weights).graph, x, None))
    errors = [f"{number:.1e}" for number in (loss.kl_mean, loss.kl_worst, loss.mean_error)]
    return [*cells, *errors, f"{loss.least_ratio:.4f} to {loss.largest_ratio:.4f}"]


def main() -> None:
    """Prints the table."""
    wanted = [(name, form, weights) for name in ("m1", "m2") for form, weights in FORMS.items()]
    with progress("counting", wanted) as steps:
        rows = [row(*each) for each in steps]
    print(cost_table.markdown([COLUMNS, *rows]))


if __name__ == "__main__":
    main()
