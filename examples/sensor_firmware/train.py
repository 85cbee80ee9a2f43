"""Trains the thermometer and writes what the firmware needs: python train.py; --stored measures the one here.

A thermistor (10 kOhm at 25 degrees, B = 3950 K) to ground under a 10 kOhm resistor, read by a 12-bit converter. The
calibration bath goes from -20 to 85 degrees. The curve flattens towards both ends, so that a count is worth more
degrees there, and a cold thermistor is a high resistance that picks up more noise.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

import lbnn
from lbnn import nn as bnn
from lbnn.train.metrics import coverage, rmse
from lbnn.train.plots import BLUE, GREY, ORANGE, STYLE, prediction_band, save_picture

HERE = Path(__file__).parent
BETA, WARM, ZERO = 3950.0, 298.15, 273.15  # K
FULL = 4095
COLDEST, HOTTEST = -20.0, 85.0  # degrees in the calibration bath
QUANTILE = 0.995  # of sigma on validation readings: above it a reading is unsure

READINGS = {
    "room": 2048,
    "cold room": 3000,
    "freezer": 3640,
    "warm": 1200,
    "hot": 560,
    "hotter than calibrated": 250,
    "short circuit": 0,
    "broken wire": 4095,
}


def counts(celsius: np.ndarray) -> np.ndarray:
    """What an ideal converter reads."""
    ratio = np.exp(BETA * (1.0 / (celsius + ZERO) - 1.0 / WARM))
    return FULL * ratio / (1.0 + ratio)


def temperature(reading: np.ndarray) -> np.ndarray:
    """The inverse of `counts`."""
    ratio = reading / (FULL - reading)
    return 1.0 / (np.log(ratio) / BETA + 1.0 / WARM) - ZERO


def noise(reading: np.ndarray, even: bool = False) -> np.ndarray:
    """In counts; the source resistance is proportional to the ideal reading, unless it is to be `even` everywhere."""
    return np.full_like(reading, 5.0) if even else 4.0 + 8.0 * reading / FULL


def calibration(rng: np.random.Generator, size: int, even: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy readings and the bath's temperature, itself known to 0.05 degrees."""
    celsius = rng.uniform(COLDEST, HOTTEST, size)
    ideal = counts(celsius)
    reading = np.clip(np.round(rng.normal(ideal, noise(ideal, even))), 0, FULL)
    bath = rng.normal(celsius, 0.05)
    return torch.tensor(reading[:, None]).float(), torch.tensor(bath[:, None]).float()


def train(quick: bool = False, even: bool = False, seed: int = 0) -> nn.Module:
    """Counts in, degrees out: standardisation is part of the model."""
    rng = np.random.default_rng(seed)
    (x, y), validation = calibration(rng, 2000, even), calibration(rng, 1000, even)
    torch.manual_seed(seed)
    model = bnn.Sequential(
        bnn.Standardize(x.mean(0), x.std(0)),
        bnn.Linear(1, 16),
        bnn.LeakyReLU(0.01),
        bnn.Linear(16, 16),
        bnn.LeakyReLU(0.01),
        bnn.Linear(16, 1),
        bnn.Affine(y.std(0), y.mean(0)),
    )
    epochs = 60 if quick else 150
    options = dict(prior="spike_slab", kl_weight="elbo", lr_schedule="constant")
    lbnn.fit(model, (x, y), epochs=epochs, batch_size=200, lr=0.01, validation=validation, seed=seed, **options)
    return model


def predict(model: nn.Module, x: torch.Tensor) -> lbnn.Moments[torch.Tensor]:
    with torch.no_grad():
        out: lbnn.Moments[torch.Tensor] = model(x)
    return out


def sigma_limit(model: nn.Module) -> float:
    """Above it a reading is unsure; two decimals are enough."""
    sigma = predict(model, calibration(np.random.default_rng(2), 2000)[0]).std
    return round(float(torch.quantile(sigma, QUANTILE)), 2)


def header(limit: float) -> str:
    """The readings that the firmware goes through, and the limit."""
    rows = [f'    {{"{name}", {reading}}},' for name, reading in READINGS.items()]
    return "\n".join(
        [
            "/* Written by train.py: the largest sigma to trust, in degrees, and readings in counts. */",
            f"#define SIGMA_LIMIT {limit:g}f",
            "static const struct {",
            "    const char *place;",
            "    int         counts;",
            "} readings[] = {",
            *rows,
            "};",
            "",
        ]
    )


def show_test(model: nn.Module, limit: float) -> None:
    x, y = calibration(np.random.default_rng(3), 2000)
    out = predict(model, x)
    covered = coverage(out, y, (0.68, 0.95))
    print(f"test: RMSE {rmse(out, y):.2f} degrees")
    print(f"test: the 68 % interval covers {covered[0.68]:.1%}, the 95 % interval {covered[0.95]:.1%}")
    print(f"test: {float((out.std > limit).float().mean()):.1%} of readings unsure at sigma > {limit:g} degrees")


def show_sweep(model: nn.Module, limit: float) -> None:
    """Where it is unsure, and how wrong it is where it is not."""
    sweep = np.arange(1, FULL)
    out = predict(model, torch.tensor(sweep[:, None]).float())
    sure = (out.std[:, 0] <= limit).numpy()
    error = np.abs(out.mean[:, 0].numpy() - temperature(sweep))[sure].max()
    low, high = sweep[sure].min(), sweep[sure].max()
    print(f"sure from {low} to {high} counts ({temperature(high):.1f} to {temperature(low):.1f} degrees);", end=" ")
    print(f"largest error there {error:.1f} degrees, largest sigma {float(out.std[:, 0][sure].max()):.2f}")


def show_rails(model: nn.Module) -> None:
    """Sigma where there is no thermometer, beside what it is at both ends of the calibration."""
    ends = counts(np.array([HOTTEST, COLDEST])).round()
    sigma = predict(model, torch.tensor([[0.0], *([end] for end in ends), [FULL]]).float()).std[:, 0].tolist()
    print(f"sigma: short circuit {sigma[0]:.2f}, {HOTTEST:g} degrees {sigma[1]:.2f},", end=" ")
    print(f"{COLDEST:g} degrees {sigma[2]:.2f}, broken wire {sigma[3]:.2f}")


def draw(model: nn.Module, limit: float, path: Path) -> None:
    """The band over all counts, and the sigma that decides."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    sweep = np.arange(0, FULL + 1, 5.0)
    x = torch.tensor(sweep[:, None]).float()
    out = predict(model, x)
    sigma = out.std[:, 0].numpy()
    bath = tuple(counts(np.array([HOTTEST, COLDEST])))
    with plt.rc_context(STYLE):
        figure, (band, below) = plt.subplots(2, 1, figsize=(7.6, 6.2), sharex=True, height_ratios=(1.6, 1.0))
        truth = torch.tensor(temperature(sweep.clip(20, FULL - 8)))
        prediction_band(x, out, truth=truth, trained_on=bath, ax=band)
        unsure = sigma > limit
        for ax in (band, below):
            ax.fill_between(
                sweep, 0, 1, where=unsure, color=ORANGE, alpha=0.13, lw=0, transform=ax.get_xaxis_transform()
            )
        band.set(xlabel="", ylabel="degrees", ylim=(-50, 135))
        below.plot(sweep, sigma, color=BLUE, label="predicted sigma")
        ideal = _ideal_sigma(sweep[20:-20])
        inside = (sweep[20:-20] > bath[0]) & (sweep[20:-20] < bath[1])
        below.plot(sweep[20:-20][inside], ideal[inside], color=GREY, ls="--", lw=1.3, label="noise of the data")
        below.axhline(limit, color=ORANGE, lw=1.2, label=f"limit {limit:g}: unsure above")
        below.set(
            xlabel="converter reading (counts); 0 = short circuit, 4095 = broken wire", ylabel="degrees", ylim=(0, None)
        )
        below.legend(loc="upper center")
    save_picture(figure, path)


def _ideal_sigma(reading: np.ndarray) -> np.ndarray:
    """Noise in counts over counts per degree, and the bath's own."""
    slope = np.abs(np.gradient(temperature(reading), reading))
    return np.hypot(slope * noise(reading), 0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--quick", action="store_true", help="less training, for tests")
    parser.add_argument("--stored", action="store_true", help="no training: measure the thermometer.pt of this folder")
    parser.add_argument("--even-noise", action="store_true", help="only show what 5 counts everywhere would give")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write (default: this folder)")
    args = parser.parse_args()
    torch.set_num_threads(1)

    if args.even_noise:
        show_rails(train(even=True))
        return
    model = lbnn.load(HERE / "thermometer.pt") if args.stored else train(args.quick)
    limit = sigma_limit(model)
    show_test(model, limit)
    show_sweep(model, limit)
    show_rails(model)
    if args.stored:
        return
    lbnn.save(model, args.out / "thermometer.pt", input_shape=(1,), name="thermometer")
    (args.out / "readings.h").write_text(header(limit))
    draw(model, limit, args.out / "thermometer.png")


if __name__ == "__main__":
    main()
