"""Trains the monitor and writes what the program needs: python train.py; --stored measures the one here.

An accelerometer on a bearing, 128 samples a window. The shaft shakes it at a speed that varies; each time a ball rolls
over the damage, a burst rings and dies away, and the larger the damage the larger the bursts. The network reads the
damage, from 0 to 1, off the vibration.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

import lbnn
from lbnn import nn as bnn
from lbnn.exporters.c import COptions, footprint, lower
from lbnn.model.file import read_model
from lbnn.train.metrics import coverage, rmse
from lbnn.train.plots import BLUE, GREY, ORANGE, STYLE, save_picture

HERE = Path(__file__).parent
WINDOW, HOP = 128, 64
QUANTILE = 0.995  # of sigma on validation windows: above it a result is unsure
PARTS = (("new", 0.05), ("worn", 0.45), ("damaged", 0.85), ("sensor loose", 0.45))
PART = 384  # samples of each


def vibration(rng: np.random.Generator, damage: np.ndarray) -> np.ndarray:
    """A window or more, [rows, samples]; `damage` is that of each sample."""
    rows, samples = damage.shape
    time = np.arange(samples)
    turns = rng.uniform(0.02, 0.05, (rows, 1)) * time + rng.uniform(0, 1, (rows, 1))
    since = np.mod(3.6 * turns, 1.0) / (3.6 * np.gradient(turns, axis=1))  # samples since the last burst
    bursts = damage * np.exp(-since / 4.0) * np.sin(2.0 * np.pi * 0.23 * since)
    return 0.3 * np.sin(2.0 * np.pi * turns) + 1.5 * bursts + rng.normal(0.0, 0.1 + 0.15 * damage, damage.shape)


def windows(rng: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Windows and the damage in them."""
    damage = rng.uniform(0.0, 1.0, (count, 1))
    signal = vibration(rng, np.repeat(damage, WINDOW, axis=1))
    return torch.tensor(signal[:, None]).float(), torch.tensor(damage).float()


def network() -> nn.Module:
    """No padding, so that windows may overlap; elements of the global pool share the weights before it."""
    return bnn.Sequential(
        bnn.Conv1d(1, 8, 9, stride=2),
        bnn.LeakyReLU(0.1),
        bnn.Conv1d(8, 8, 5, stride=2),
        bnn.LeakyReLU(0.1),
        bnn.AdaptiveAvgPool1d(1, correlated=True),
        bnn.Flatten(),
        bnn.Linear(8, 8),
        bnn.LeakyReLU(0.1),
        bnn.Linear(8, 1),
    )


def train(quick: bool = False, seed: int = 0) -> nn.Module:
    """The network, fitted to 3000 windows."""
    rng = np.random.default_rng(seed)
    data, validation = windows(rng, 3000), windows(rng, 500)
    torch.manual_seed(seed)
    model = network()
    lbnn.fit(model, data, epochs=12 if quick else 40, batch_size=100, lr=0.01, validation=validation, seed=seed)
    return model


def predict(model: nn.Module, x: torch.Tensor) -> lbnn.Moments[torch.Tensor]:
    with torch.no_grad():
        out: lbnn.Moments[torch.Tensor] = model(x)
    return out


def sigma_limit(model: nn.Module) -> float:
    """Above it a result is unsure; three decimals are enough."""
    sigma = predict(model, windows(np.random.default_rng(2), 4000)[0]).std
    return round(float(torch.quantile(sigma, QUANTILE)), 3)


def recording(seed: int = 5) -> np.ndarray:
    """What the program reads: each part in turn; a loose sensor rattles, many times as loud as a bearing."""
    rng = np.random.default_rng(seed)
    damage = np.repeat([level for _, level in PARTS], PART)[None]
    signal = vibration(rng, damage)[0]
    loose = slice(len(signal) - PART, None)
    signal[loose] += 2.5 * np.sign(np.sin(2.0 * np.pi * 0.11 * np.arange(PART))) * rng.uniform(0.5, 1.5, PART)
    return signal.astype(np.float32)


def results(model: nn.Module, signal: np.ndarray) -> tuple[np.ndarray, lbnn.Moments[torch.Tensor]]:
    """The samples that give a result, counted from 1, and the results: those of windows that overlap."""
    ends = np.arange(WINDOW, len(signal) + 1, HOP)
    rows = np.stack([signal[end - WINDOW : end] for end in ends])
    return ends, predict(model, torch.tensor(rows[:, None]))


def show_test(model: nn.Module, limit: float) -> None:
    x, y = windows(np.random.default_rng(3), 4000)
    out = predict(model, x)
    covered = coverage(out, y, (0.68, 0.95))
    print(f"test: RMSE {rmse(out, y):.3f} of a damage from 0 to 1")
    print(f"test: the 68 % interval covers {covered[0.68]:.1%}, the 95 % interval {covered[0.95]:.1%}")
    print(f"test: {float((out.std > limit).float().mean()):.1%} of windows unsure at sigma > {limit:g}")


def show_memory(path: Path) -> None:
    """Of the stream with overlapping windows, and of the window call."""
    program = lower(read_model(path), COptions(stream=True, hop=HOP))
    stream, window = footprint(program), footprint(lower(read_model(path), COptions()))
    print(f"stream: {stream.state_bytes} bytes of state and {stream.push_work_bytes} of work,", end=" ")
    print(f"at most {stream.push_macs} multiplications a sample")
    print(f"window: {window.work_bytes} bytes of work and {4 * WINDOW} of samples, {window.macs} multiplications")


def draw(model: nn.Module, limit: float, path: Path) -> None:
    """The recording, and below it what the stream says of it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    signal = recording()
    ends, out = results(model, signal)
    mean, sigma = out.mean[:, 0].numpy(), out.std[:, 0].numpy()
    sure = sigma <= limit
    with plt.rc_context(STYLE):
        figure, (above, below) = plt.subplots(2, 1, figsize=(7.6, 5.4), sharex=True)
        above.plot(np.arange(1, len(signal) + 1), signal, color=GREY, lw=0.5)
        for number, (name, _) in enumerate(PARTS):
            above.text((number + 0.5) * PART, 5.2, name, ha="center")
        above.set(ylabel="acceleration", ylim=(-6, 6.5))
        truth = np.repeat([level for _, level in PARTS[:-1]], PART)
        below.plot(np.arange(1, len(truth) + 1), truth, color=GREY, ls="--", label="damage")
        below.errorbar(ends[sure], mean[sure], 2 * sigma[sure], fmt="o", ms=4, color=BLUE, label="result, 2 sigma")
        below.errorbar(ends[~sure], mean[~sure], 2 * sigma[~sure], fmt="x", ms=5, color=ORANGE, label="unsure")
        below.set(xlabel="sample", ylabel="damage")
        below.legend(loc="upper left")
    save_picture(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--quick", action="store_true", help="less training, for tests")
    parser.add_argument("--stored", action="store_true", help="no training: measure the monitor.pt of this folder")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write (default: this folder)")
    args = parser.parse_args()
    torch.set_num_threads(1)

    model = lbnn.load(HERE / "monitor.pt") if args.stored else train(args.quick)
    limit = sigma_limit(model)
    show_test(model, limit)
    if args.stored:
        show_memory(HERE / "monitor.pt")
        return
    lbnn.save(model, args.out / "monitor.pt", input_shape=(1, WINDOW), name="monitor")
    (args.out / "limit.h").write_text(
        f"/* Written by train.py: the largest sigma to trust. */\n#define SIGMA_LIMIT {limit:g}f\n"
    )
    (args.out / "recording.txt").write_text("".join(f"{number:.9g}\n" for number in recording()))
    draw(model, limit, args.out / "monitor.png")


if __name__ == "__main__":
    main()
