"""Prints what integers lose of the committed examples and of the paper's network, as docs/integers.md shows it.

    python tools/tables/integer_losses.py

KL of each prediction from float64, the mean of ordinary inputs. "Arithmetic alone" is KL from float64 with the weights
that integers store: what is left is rounding while a prediction is computed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cost_table import markdown
from lbnn.base.moments import Moments
from lbnn.cli.demo_story import train
from lbnn.exporters.c.dtype import find_dtype
from lbnn.graph.passes import prepare
from lbnn.graph.reference import predict
from lbnn.measure.integer_verify import expect_integers, integer_losses, ordinary_samples
from lbnn.measure.loss import measure_loss
from lbnn.measure.samples import Samples
from lbnn.model.file import Model, read_model

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
stored: Any = importlib.import_module("int_stored")

FILES = {
    "thermometer": "sensor_firmware/thermometer.pt",
    "gas sensor": "edge_onnx/gas_sensor.pt",
    "stream monitor": "stream_monitor/monitor.pt",
    "digits CNN, its logits": "digits_cnn/digits.pt",
    "keyword, its logits": "keyword/keyword.pt",
}
DTYPES = ("int8", "int16")
EPOCHS = 6000
"""As `lbnn demo` trains the paper's network."""


def subjects() -> Iterator[tuple[str, Model, Samples]]:
    """The examples with ordinary inputs, and the paper's network where its data are."""
    for title, file in FILES.items():
        model = read_model(ROOT / "examples" / file)
        yield title, model, ordinary_samples(model)
    inside = np.random.default_rng(0).uniform(-0.5, 0.5, (500, 1)).astype(np.float32)
    yield "the paper's network", read_model(train(EPOCHS)[0].eval(), (1,)), Samples(inside, None, ("ordinary",) * 500)


def losses(model: Model, samples: Samples, dtype: str) -> tuple[float, float, float | None]:
    """KL from float64, KL of the arithmetic alone, and KL of class probabilities if there are any."""
    found = expect_integers(model, samples, dtype)
    exact = predict(stored.stored_weights(prepare(model.graph, False), find_dtype(dtype).mean_bits), samples.mean)
    alone = measure_loss(exact, Moments(found.mean, found.var)).kl_mean
    whole = integer_losses(model, samples, found)["ordinary"]
    return whole.kl_mean, alone, whole.class_kl_mean


def row(title: str, model: Model, samples: Samples) -> list[str]:
    """One model in both arithmetics; two columns for each of the three numbers."""
    found = zip(*(losses(model, samples, dtype) for dtype in DTYPES), strict=True)
    return [title, *("" if number is None else f"{number:.1e}" for numbers in found for number in numbers)]


def main() -> None:
    """Prints the table."""
    columns = ("KL mean", "arithmetic alone", "class probabilities")
    head = ["", *(f"{column}, {dtype}" for column in columns for dtype in DTYPES)]
    print(markdown([head, *(row(*subject) for subject in subjects())]))


if __name__ == "__main__":
    main()
