"""Trains the keyword spotter and holds its variances to those of drawn networks: python train.py

A depthwise-separable CNN whose last block is Bayesian and whose global pool takes its elements as moving together: they
are outputs of one convolution, so that one drawn weight moves all of them. The table shows what the other rule,
independent elements, makes of the same weights.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sounds import NAMES, UNKNOWN, recordings
from torch import Tensor, nn

import lbnn
from lbnn import nn as bnn
from lbnn.train.montecarlo import MonteCarlo, monte_carlo
from lbnn.train.plots import BLACK, BLUE, ORANGE, STYLE, save_picture

HERE = Path(__file__).parent
CHANNELS = 24
KNOWN, SIGMA, LAST = 1e-4, 0.015, 0.04
"""Of the weights before the last block and of those in it, which stay, and of the classifier's at the start. The first
are as good as known: only the pool knows that one weight moves all places, not a convolution over them."""
TRAINED, TESTED, COMPARED = 1_200, 400, 60  # recordings to train on, to test on, and to compare with drawn networks
DRAWN = 2_000  # networks: a standard deviation over them is known to 1.6 %
EPOCHS, BATCH, RATE = 8, 50, 0.01
ABSTAIN = 0.05
QUANTILES = {"median": 0.5, "5 %": 0.05, "95 %": 0.95, "least": 0.0, "most": 1.0}


def network() -> bnn.Sequential:
    """49 frames of 10 coefficients to the logits of 8 classes; batch norms are folded away in C and ONNX."""
    first = bnn.Conv2d(1, CHANNELS, (10, 4), stride=2, padding=(5, 1), sigma=KNOWN)
    given = bnn.Sequential(first, *block(KNOWN), *block(KNOWN), *block(SIGMA))
    for name, parameter in given.named_parameters():
        parameter.requires_grad_(not name.endswith("_rho"))
    end = [bnn.BatchNorm2d(CHANNELS), bnn.ReLU(), bnn.AdaptiveAvgPool2d(1, correlated=True), bnn.Flatten()]
    return bnn.Sequential(*given, *end, bnn.Linear(CHANNELS, len(NAMES), sigma=LAST), bnn.SoftmaxHead())


def block(sigma: float) -> list[nn.Module]:
    """A convolution over places in each channel, then one over channels at each place."""
    return [
        *(bnn.BatchNorm2d(CHANNELS), bnn.ReLU()),
        bnn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS, sigma=sigma),
        *(bnn.BatchNorm2d(CHANNELS), bnn.ReLU()),
        bnn.Conv2d(CHANNELS, CHANNELS, 1, sigma=sigma),
    ]


def train(count: int, epochs: int, seed: int = 0) -> nn.Module:
    """The trained network; it takes features as they are."""
    torch.manual_seed(seed)
    x, y = map(torch.from_numpy, recordings(count, seed=0))
    model = bnn.Sequential(bnn.Standardize(x.mean(), x.std()), *network())
    kl_weight = lbnn.priors.LinearWarmup(0.03 / len(x))
    prior = lbnn.priors.Gaussian(0.1)
    lbnn.fit(model, (x, y), epochs=epochs, batch_size=BATCH, lr=RATE, prior=prior, kl_weight=kl_weight, seed=seed)
    return model


def independent(model: nn.Module) -> nn.Module:
    """The same weights with the paper's rule for the pool."""
    pools = (bnn.AvgPool2d, bnn.AdaptiveAvgPool2d)
    return bnn.Sequential(*(bnn.AdaptiveAvgPool2d(1) if isinstance(layer, pools) else layer for layer in layers(model)))


def layers(model: nn.Module) -> list[nn.Module]:
    """In the order in which they run, of a chain of layers."""
    return [module for module in model.modules() if not list(module.children())]


# ---- report -----------------------------------------------------------------------------------------------------


def sampled_ratios(model: nn.Module, drawn: MonteCarlo, x: Tensor) -> Tensor:
    """The standard deviation of each logit in one pass, over that of drawn networks."""
    with torch.no_grad():
        return (model(x).logits.var.double() / drawn.sampled.var).sqrt()


def show_rules(models: dict[str, nn.Module], drawn: MonteCarlo, x: Tensor) -> None:
    """How far each rule is from drawing weights."""
    print(f"{'':<12}  sd of the logits over that of {drawn.samples:,} drawn networks   probabilities")
    print(f"{'pool':<12}{''.join(f'{name:>10}' for name in QUANTILES)}{'off by':>16}")
    truth = lbnn.softmax_moments(drawn.sampled).probability
    for name, model in models.items():
        ratio = sampled_ratios(model, drawn, x).flatten()
        with torch.no_grad():
            off = 0.5 * (model(x).probability.double() - truth).abs().sum(1).mean()
        shown = "".join(f"{float(torch.quantile(ratio, q)):>10.2f}" for q in QUANTILES.values())
        print(f"{name:<12}{shown}{float(off):>16.4f}")


def show_scores(model: nn.Module, x: Tensor, y: Tensor, limit: float) -> None:
    """How good it is, and what it gives up."""
    with torch.no_grad():
        out = model(x)
        unknown = model(torch.from_numpy(recordings(len(x), 3, UNKNOWN)[0]))
    sure = out.entropy <= limit
    right = out.label == y
    print(f"{len(x)} recordings: {right.float().mean():.1%} right, of the {sure.float().mean():.1%} sure ones ", end="")
    print(f"{right[sure].float().mean():.1%}; NLL {lbnn.class_metrics.log_loss(out, y):.3f}, ", end="")
    print(f"ECE {lbnn.class_metrics.expected_calibration_error(out, y):.3f}")
    print(f"{len(x)} recordings of words it does not know: unsure of {(unknown.entropy > limit).float().mean():.1%}")


def draw(models: dict[str, nn.Module], drawn: MonteCarlo, x: Tensor, y: Tensor) -> Any:
    """What the network hears, and its standard deviations beside those of drawn networks."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(10.4, 4.4))
        left, right = figure.subfigures(1, 2, width_ratios=(1.05, 1.0))
        _draw_words(left.subplots(2, 4), models["correlated"], x, y)
        _draw_sigmas(right.subplots(), models, drawn, x)
    return figure


def _draw_words(axes: Any, model: nn.Module, x: Tensor, y: Tensor) -> None:
    with torch.no_grad():
        out = model(x)
    for number, ax in enumerate(axes.flat):
        i = int(np.flatnonzero(y.numpy() == number)[0])
        ax.imshow(x[i, 0].T, aspect="auto", origin="lower", cmap="Blues", vmin=-12, vmax=12)
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
        ax.set_xlabel(f"taken for {NAMES[int(out.label[i])]}\n{out.probability[i].max():.0%}", fontsize=9)
        ax.set_title(NAMES[number], fontsize=10)


def _draw_sigmas(ax: Any, models: dict[str, nn.Module], drawn: MonteCarlo, x: Tensor) -> None:
    truth = drawn.sampled.var.sqrt().flatten().numpy()
    for (name, model), color, marker in zip(models.items(), (BLUE, ORANGE), ("o", "x"), strict=True):
        with torch.no_grad():
            sigma = model(x).logits.var.sqrt().flatten().numpy()
        ax.plot(truth, sigma, marker, color=color, ms=3, mew=0.8, alpha=0.5, label=f"{name} pool")
    ends = np.array([truth.min(), truth.max()])
    ax.plot(ends, ends, color=BLACK, lw=1.2, ls=(0, (5, 3)), label="equal")
    ax.set(xlabel=f"sd of a logit over {drawn.samples:,} drawn networks", ylabel="sd of the logit in one pass")
    ax.set(xlim=(0, None), ylim=(0, None))
    ax.set_title("Pooling behind convolutions")
    ax.legend(loc="upper left")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--quick", action="store_true", help="a part of the training and of the draws, for tests")
    parser.add_argument("--stored", action="store_true", help="no training: measure the keyword.pt of this folder")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write (default: this folder)")
    args = parser.parse_args()
    torch.set_num_threads(1)

    part = 4 if args.quick else 1
    path = HERE / "keyword.pt" if args.stored else args.out / "keyword.pt"
    if not args.stored:
        trained = train(TRAINED // part, EPOCHS)
        with torch.no_grad():
            unsure = lbnn.class_metrics.unsure_limit(
                trained(torch.from_numpy(recordings(TESTED // part, 2)[0])), ABSTAIN
            )
        lbnn.save(trained, path, input_shape=(1, 49, 10), name="keyword", metadata={"unsure_entropy": unsure})
    model = lbnn.load(path)
    x, y = map(torch.from_numpy, recordings(TESTED // part, seed=1))
    show_scores(model, x, y, lbnn.read_model(path).metadata["unsure_entropy"])
    drawn = monte_carlo(model, x[:COMPARED], 100 if args.quick else DRAWN, torch.Generator().manual_seed(0))
    models = {"correlated": model, "independent": independent(model)}
    show_rules(models, drawn, x[:COMPARED])
    save_picture(draw(models, drawn, x[:COMPARED], y), args.out / "keyword.png")


if __name__ == "__main__":
    main()
