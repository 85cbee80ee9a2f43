"""Trains the example's model and writes everything the monitor needs: python train.py

A gas sensor's voltage means another concentration at another temperature. The training data end at 30 degrees; the
stream in readings.csv goes on to 75, as when a fan fails.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import lbnn
from lbnn import nn as bnn

HERE = Path(__file__).parent


def concentration(volts: np.ndarray, celsius: np.ndarray) -> np.ndarray:
    """What the gas really is, in ppm."""
    return 20.0 * volts**2 * (1.0 + 0.02 * (celsius - 20.0))


def training_data(rng: np.random.Generator, count: int = 2000) -> tuple[torch.Tensor, torch.Tensor]:
    volts, celsius = rng.uniform(0.2, 2.2, count), rng.uniform(10.0, 30.0, count)
    ppm = concentration(volts, celsius) + rng.normal(0.0, 1.5, count)
    return torch.tensor(np.stack([volts, celsius], 1)).float(), torch.tensor(ppm[:, None]).float()


def stream(rng: np.random.Generator, count: int = 72) -> dict[str, np.ndarray]:
    """A day in steps of 20 minutes; from 15:00 on the temperature leaves what the model has seen."""
    hours = np.arange(count) / 3.0
    volts = 1.2 + 0.6 * np.sin(2 * np.pi * hours / 24.0) + rng.normal(0.0, 0.03, count)
    celsius = 20.0 + 4.0 * np.sin(2 * np.pi * (hours - 6.0) / 24.0) + np.clip((hours - 15.0) * 9.0, 0.0, 50.0)
    times = np.array([f"{int(hour):02d}:{round(hour % 1 * 60):02d}" for hour in hours])
    return {"time": times, "volts": volts.round(3), "celsius": celsius.round(1)}


def train(seed: int = 0) -> torch.nn.Module:
    x, y = training_data(np.random.default_rng(seed))
    torch.manual_seed(seed)
    model = bnn.Sequential(
        bnn.Standardize(x.mean(0), x.std(0)),
        bnn.Linear(2, 16),
        bnn.LeakyReLU(0.01),
        bnn.Linear(16, 16),
        bnn.LeakyReLU(0.01),
        bnn.Linear(16, 1),
        bnn.Affine(y.std(), y.mean()),
    )
    options = dict(prior="spike_slab", kl_weight="elbo", lr_schedule="constant")
    lbnn.fit(model, (x, y), epochs=300, batch_size=200, lr=0.01, seed=seed, **options)
    return model


def draw(readings: dict[str, np.ndarray], mean: np.ndarray, sigma: np.ndarray, limit: float = 5.0) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    hours = np.arange(len(mean)) / 3.0
    figure, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    axes.fill_between(hours, mean - 2 * sigma, mean + 2 * sigma, color="#D3E6F4", label="mean ± 2 sigma")
    axes.plot(hours, mean, color="#0072B2", label="mean")
    truth = concentration(readings["volts"], readings["celsius"])
    axes.plot(hours, truth, color="#1A1A1A", linestyle="--", linewidth=1.0, label="truth")
    unsure = sigma > limit
    axes.plot(hours[unsure], mean[unsure], "x", color="#D55E00", label=f"too uncertain (sigma > {limit:g} ppm)")
    axes.set(xlabel="hour", ylabel="ppm", title="A fan fails at 15:00: the monitor knows that it does not know")
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(HERE / "monitor.png", dpi=110)


def main() -> None:
    model = train()
    lbnn.save(model, HERE / "gas_sensor.pt", input_shape=(2,), name="gas_sensor")
    lbnn.export(HERE / "gas_sensor.pt", target="onnx", out=HERE / "gas_sensor.onnx", force=True)
    readings = stream(np.random.default_rng(1))
    lines = [",".join(readings), *(",".join(map(str, row)) for row in zip(*readings.values(), strict=True))]
    (HERE / "readings.csv").write_text("\n".join(lines) + "\n")
    with torch.no_grad():
        out = model.eval()(torch.tensor(np.stack([readings["volts"], readings["celsius"]], 1)).float())
    draw(readings, out.mean[:, 0].numpy(), out.std[:, 0].numpy())


if __name__ == "__main__":
    main()
