"""Trains the digit classifier and measures what it abstains on: python train.py

A plain torch CNN learns the digits in seconds; lbnn.from_torch makes it Bayesian, lbnn.fit trains means and variances,
and a softmax head makes class probabilities of the logits' moments. The classifier abstains where the entropy of the
probabilities is above what 5 % of the validation digits have; that limit is part of the model file, and so of the C.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import ndimage
from sklearn.datasets import load_digits
from torch import Tensor, nn

import lbnn
from lbnn import nn as bnn
from lbnn.train.plots import BLACK, BLUE, GREY, ORANGE, STYLE, save_picture

HERE = Path(__file__).parent
ABSTAIN = 0.05  # the share of validation digits that may be given up
CLASSES = 10
WHITE = 16.0  # brightest pixel of the data set
BATCH = 50


@dataclass(frozen=True)
class Digits:
    """Images [n, 1, 8, 8] with pixels from 0 to 16, and what they show."""

    images: np.ndarray
    labels: np.ndarray

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Inputs and class numbers."""
        return torch.from_numpy(self.images), torch.from_numpy(self.labels)


def split_digits() -> tuple[Digits, Digits, Digits]:
    """1000 digits to train on, 300 for validation, 497 for the test."""
    pixels, labels = load_digits(return_X_y=True)
    images = pixels.reshape(-1, 1, 8, 8).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    train, validation, test = (Digits(images[rows], labels[rows]) for rows in np.split(order, (1000, 1300)))
    return train, validation, test


def shifted(images: Tensor) -> Tensor:
    """The images, and each moved by a pixel to every side."""
    padded = nn.functional.pad(images, (1, 1, 1, 1))
    corners = ((1, 1), (0, 1), (2, 1), (1, 0), (1, 2))
    return torch.cat([padded[:, :, top : top + 8, left : left + 8] for top, left in corners])


def rotated(images: np.ndarray, degrees: float) -> np.ndarray:
    """Turned about the centre; ink that leaves the picture is lost. Pixels are whole numbers, as in the data set."""
    turned = ndimage.rotate(images, degrees, axes=(2, 3), reshape=False, order=1)
    return turned.round().clip(0.0, WHITE)


def foreign_sets(test: Digits) -> dict[str, np.ndarray]:
    """Inputs, from ordinary to nonsense."""
    rng = np.random.default_rng(1)
    flat = test.images.reshape(len(test.images), -1)
    return {
        "clean": test.images,
        "rotated 15": rotated(test.images, 15.0),
        "rotated 45": rotated(test.images, 45.0),
        "rotated 90": rotated(test.images, 90.0),
        "shuffled pixels": rng.permuted(flat, axis=1).reshape(test.images.shape),
        "noise": rng.integers(0, int(WHITE) + 1, test.images.shape).astype(np.float32),
    }


# ---- training ---------------------------------------------------------------------------------------------------


def plain_network() -> nn.Sequential:
    """What the means start from."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.LeakyReLU(0.01),
        nn.AvgPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.LeakyReLU(0.01),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, CLASSES),
    )


def train_plain(network: nn.Module, x: Tensor, y: Tensor, epochs: int) -> None:
    """Cross-entropy."""
    batches = [rows for _ in range(epochs) for rows in torch.randperm(len(x)).split(BATCH)]
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=len(batches))
    for rows in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
        optimizer.step()
        schedule.step()


def train(training: Digits, validation: Digits, quick: bool = False, seed: int = 0) -> nn.Module:
    """The Bayesian network; it takes raw pixels."""
    torch.manual_seed(seed)
    images, labels = training.tensors()
    x, y = shifted(images), labels.repeat(5)
    standardize = bnn.Standardize(x.mean(), x.std())
    network = plain_network()
    train_plain(network, standardize(x), y, epochs=6 if quick else 20)
    model = bnn.Sequential(standardize, *lbnn.from_torch(network, sigma=0.02), bnn.SoftmaxHead())
    kl_weight = lbnn.priors.LinearWarmup(0.1 / len(images))  # shifted ones are no new digits
    lbnn.fit(
        model, (x, y), epochs=3 if quick else 10, batch_size=BATCH, lr=0.003, validation=validation.tensors(),
        seed=seed, prior=lbnn.priors.Gaussian(0.3), kl_weight=kl_weight,
    )  # fmt: skip
    return model


# ---- decisions --------------------------------------------------------------------------------------------------

Classes = lbnn.Classes[Tensor]
SCORES: dict[str, Callable[[Classes], Tensor]] = {
    "entropy": lambda out: out.entropy,
    "information": lambda out: out.epistemic,
    "total sigma": lambda out: out.logits.var.sum(1).sqrt(),
}
HAVE_LABELS = ("clean", "rotated 15", "rotated 45", "rotated 90")


@torch.no_grad()
def predict(model: nn.Module, images: np.ndarray) -> Classes:
    """What the network makes of images."""
    return model(torch.from_numpy(images))


def limits(validation: Classes) -> dict[str, float]:
    """For each score what ABSTAIN of the validation digits are above."""
    return {name: float(torch.quantile(score(validation), 1 - ABSTAIN)) for name, score in SCORES.items()}


# ---- report -----------------------------------------------------------------------------------------------------


def show_table(found: dict[str, Classes], labels: np.ndarray, limit: dict[str, float]) -> None:
    """Accuracy of everything and of what is kept, and the share that each score gives up."""
    print(f"{'':<16} {'':>9} {'accuracy':>9} " + f"{'abstains by':>13}")
    print(f"{'input':<16} {'accuracy':>9} {'of kept':>9} " + " ".join(f"{name:>13}" for name in SCORES))
    for name, out in found.items():
        right = out.label.numpy() == labels
        gone = [(score(out) > limit[key]).numpy() for key, score in SCORES.items()]
        shown = (f"{right.mean():.1%}", f"{right[~gone[0]].mean():.1%}") if name in HAVE_LABELS else ("-", "-")
        print(f"{name:<16} {shown[0]:>9} {shown[1]:>9} " + " ".join(f"{share.mean():>13.1%}" for share in gone))


def check_c(path: Path, sets: dict[str, np.ndarray], found: dict[str, Classes], limit: float) -> None:
    """Compiles the generated C and compares its decisions with torch's."""
    compiled, differ, total = lbnn.compile(path), 0, 0
    for name, images in sets.items():
        theirs = compiled.classify(images)
        unsure = found[name].entropy.numpy() > limit
        differ += int(((found[name].label.numpy() != theirs.label) | (unsure != (theirs.entropy > limit))).sum())
        total += len(images)
    print(f"generated C: {differ} of {total} decisions differ from torch's")


SHOWN = {"clean": "clean", "rotated 45": "turned 45", "rotated 90": "turned 90", "noise": "noise"}
COUNT = 6  # digits of each kind in the picture and in the header


def header(sets: dict[str, np.ndarray], labels: np.ndarray) -> str:
    """The images for main.c."""
    rows = [(kind, labels[i], sets[name][i]) for name, kind in SHOWN.items() for i in range(COUNT)]
    lines = [
        f'    {{"{kind}", {-1 if kind == "noise" else label}, {{{", ".join(f"{p:.0f}" for p in image.ravel())}}}}},'
        for kind, label, image in rows
    ]
    return "\n".join(
        [
            "/* Written by train.py: digits, pixels rounded to 0..16. */",
            "static const struct {",
            "    const char   *kind;",
            "    int           label; /* -1: none */",
            "    unsigned char pixels[64];",
            "} samples[] = {",
            *lines,
            "};",
            "",
        ]
    )


def draw(sets: dict[str, np.ndarray], found: dict[str, Classes], validation: Classes, limit: float) -> Any:
    """Digits with what the network makes of them, and how many of each kind it gives up."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(10.4, 4.4))
        left, right = figure.subfigures(1, 2, width_ratios=(1.05, 1.0))
        _draw_digits(left, sets, found, limit)
        _draw_curves(right.subplots(), found, validation)
    return figure


def _draw_digits(figure: Any, sets: dict[str, np.ndarray], found: dict[str, Classes], limit: float) -> None:
    axes = figure.subplots(len(SHOWN), COUNT)
    for row, (name, kind) in zip(axes, SHOWN.items(), strict=True):
        labels, entropies = found[name].label, found[name].entropy
        row[0].set_ylabel(kind, fontsize=10)
        for i, ax in enumerate(row):
            sure = entropies[i] <= limit
            ax.imshow(sets[name][i, 0], cmap="gray_r", vmin=0, vmax=WHITE)
            ax.set(xticks=[], yticks=[])
            ax.grid(False)
            text = f"{labels[i] if sure else 'unsure'} ({entropies[i]:.2f})"
            style = {"fontsize": 8.5, "fontweight": "normal", "color": BLUE if sure else ORANGE}
            ax.set_title(text, loc="center", pad=3, **style)


def _draw_curves(ax: Any, found: dict[str, Classes], validation: Classes) -> None:
    given_up = np.linspace(0.0, 0.3, 121)
    styles = {
        "noise": (ORANGE, "-"),
        "rotated 90": (BLUE, "-"),
        "rotated 45": (BLUE, "--"),
        "rotated 15": (BLUE, ":"),
        "clean": (BLACK, "-"),
    }
    for name, (color, style) in styles.items():
        entropy = found[name].entropy.numpy()
        share = [(entropy > np.quantile(validation.entropy, 1 - p)).mean() for p in given_up]
        ax.plot(100 * given_up, 100 * np.array(share), color=color, linestyle=style, label=name)
    ax.axvline(100 * ABSTAIN, color=GREY, lw=1, ls=(0, (1, 2)))
    ax.annotate("limit used", (100 * ABSTAIN + 0.3, 20), color=GREY, fontsize=9.5)
    ax.set(xlabel="% of validation digits given up", ylabel="% given up", ylim=(0, 100), xlim=(0, 30))
    ax.set_title("What the limit costs, and what it catches")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 0.27))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--quick", action="store_true", help="a third of the training, for tests")
    parser.add_argument("--stored", action="store_true", help="no training: measure the digits.pt of this folder")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write (default: this folder)")
    args = parser.parse_args()
    torch.set_num_threads(1)

    training, validation, test = split_digits()
    path = HERE / "digits.pt" if args.stored else args.out / "digits.pt"
    if not args.stored:
        trained = train(training, validation, args.quick)
        unsure = lbnn.class_metrics.unsure_limit(predict(trained, validation.images), ABSTAIN)
        lbnn.save(trained, path, input_shape=(1, 8, 8), name="digits", metadata={"unsure_entropy": unsure})
    model = lbnn.load(path)

    sets = foreign_sets(test)
    found = {name: predict(model, images) for name, images in sets.items()}
    held = predict(model, validation.images)
    limit = limits(held)
    show_table(found, test.labels, limit)
    used = limit["entropy"]
    check_c(path, sets, found, used)
    (args.out / "samples.h").write_text(header(sets, test.labels))
    save_picture(draw(sets, found, held, used), args.out / "digits.png")


if __name__ == "__main__":
    main()
