"""Trains the four networks of MLPerf Tiny briefly, and says what they know: python train.py --out ../../out/tiny

Some minutes of one core; without Fashion-MNIST the two that need none. `--stored` prints the results kept here.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
from tiny_data import TASKS, Task, lacks
from tiny_networks import NETWORKS
from torch import Tensor, nn

import lbnn
from lbnn import nn as bnn
from lbnn.measure.parity import FLOAT32_TOLERANCE
from lbnn.measure.samples import draw_samples
from lbnn.measure.verify import verify_backends
from lbnn.model.file import read_model
from lbnn.nn import BayesianLayer

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.csv"
DEVICE = "cortex-m4-gcc"
SIGMA, PRIOR, KL = 0.01, 0.1, 0.03  # of the weights at the start, of the prior, and the KL's weight beside the ELBO's
AT_ONCE = 50


@dataclass(frozen=True)
class Schedule:
    """Examples to train and to test on, how long, in which batches and from which rate on."""

    trained: int
    tested: int
    epochs: int
    batch: int
    rate: float


SCHEDULES = {
    "kws": Schedule(1_200, 300, 5, 40, 0.01),
    "ic": Schedule(1_000, 200, 3, 25, 0.006),
    "vww": Schedule(600, 150, 4, 20, 0.006),
    "ad": Schedule(2_000, 300, 12, 50, 0.003),
}


@dataclass(frozen=True)
class Result:
    """One network: right answers (of the last its root mean square error), NLL, what tells foreign inputs, parity.

    `auroc` is the chance that a foreign input has more entropy, or a worse NLL, than one of the test's.
    """

    network: str
    right: float
    nll: float
    auroc: float
    mean_error: float
    variance_error: float
    verified: bool


def build(name: str, task: Task) -> nn.Module:
    """The network with standardised inputs and, for classes, a head; every sigma is SIGMA."""
    torch.manual_seed(list(NETWORKS).index(name))
    x = task.train[0]
    layers = [bnn.Standardize(x.mean(), x.std()), NETWORKS[name][2]()]
    model = bnn.Sequential(*layers, *([] if name == "ad" else [bnn.SoftmaxHead()]))
    for layer in model.modules():
        for _, _, rho in layer.named_gaussians() if isinstance(layer, BayesianLayer) else ():
            rho.data.fill_(math.log(math.expm1(SIGMA)))
    return model


def train(name: str, task: Task, how: Schedule) -> nn.Module:
    """The trained network."""
    model, (x, y) = build(name, task), task.train
    weight = lbnn.priors.LinearWarmup(KL / y.numel())
    lbnn.fit(
        model, (x, y), epochs=how.epochs, batch_size=how.batch, lr=how.rate, prior=lbnn.priors.Gaussian(PRIOR),
        kl_weight=weight, seed=0,
    )  # fmt: skip
    return model


# ---- what it knows ----------------------------------------------------------------------------------------------


def in_parts(model: nn.Module, x: Tensor, what: str) -> Tensor:
    """One result of a prediction, a few examples at a time."""
    with torch.no_grad():
        return torch.cat([getattr(model(some), what) for some in x.split(AT_ONCE)])


def classes_known(model: nn.Module, task: Task) -> tuple[float, float, float]:
    """Share of right answers, NLL, and AUROC of foreign inputs by entropy."""
    x, y = task.test
    probability = in_parts(model, x, "probability")
    right = float((probability.argmax(1) == y).float().mean())
    nll = float(-probability[torch.arange(len(y)), y].clamp_min(1e-12).log().mean())
    return right, nll, foreign_auroc(in_parts(model, x, "entropy"), in_parts(model, task.foreign, "entropy"))


def anomalies_known(model: nn.Module, task: Task) -> tuple[float, float, float]:
    """Root mean square error, NLL, and AUROC of faults by the NLL of each example."""
    x = task.test[0]
    known, foreign = (example_nll(model, some) for some in (x, task.foreign))
    error = float((in_parts(model, x, "mean") - x).square().mean().sqrt())
    return error, float(known.mean()) / x.shape[1], foreign_auroc(known, foreign)


def example_nll(model: nn.Module, x: Tensor) -> Tensor:
    """Of all numbers of an example together, as the network's own mean and variance see them."""
    mean, var = in_parts(model, x, "mean"), in_parts(model, x, "var")
    return (0.5 * (2 * math.pi * var).log() + (x - mean).square() / (2 * var)).sum(1)


def foreign_auroc(known: Tensor, foreign: Tensor) -> float:
    """The chance that a foreign score is above a known one."""
    score = torch.cat([known, foreign])
    return float(lbnn.class_metrics.auroc(score, torch.arange(len(score)) >= len(known)))


def measure(name: str, model: nn.Module, task: Task, folder: Path, device: str) -> Result:
    """Saves the network, scores it and holds the C on the emulated core to float64."""
    path = lbnn.save(model, folder / f"{name}.pt", NETWORKS[name][1], name=name)
    known = (anomalies_known if name == "ad" else classes_known)(model, task)
    stored = read_model(path)
    row = verify_backends(stored, draw_samples(stored, 7, seed=0), [device], FLOAT32_TOLERANCE)[0]
    return Result(name, *known, row.mean_error, row.var_error, row.passed)


# ---- results ----------------------------------------------------------------------------------------------------


def write_results(path: Path, results: list[Result]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Result)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(result) for result in results)


def show(path: Path) -> None:
    """The results as Markdown."""
    print("| network | right | NLL | foreign inputs, AUROC | mean error | variance error | Cortex-M4F |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            right = f"RMSE {float(row['right']):.3f}" if row["network"] == "ad" else f"{float(row['right']):.1%}"
            errors = " | ".join(f"{float(row[key]):.1e}" for key in ("mean_error", "variance_error"))
            verified = "verified" if row["verified"] == "True" else "FAILED"
            scores = f"{float(row['nll']):.3f} | {float(row['auroc']):.3f}"
            print(f"| {row['network'].upper()} | {right} | {scores} | {errors} | {verified} |")


def with_data(names: list[str]) -> list[str]:
    """Those whose data is here; says in a line which are not and how to get it."""
    lacking = {name: lack for name in names if (lack := lacks(name))}
    if lacking:
        left_out = f"left out: {', '.join(lacking)}; {'; '.join(dict.fromkeys(lacking.values()))}"
        if len(lacking) == len(names):
            raise lbnn.LbnnError(left_out)
        print(left_out, file=sys.stderr)
    return [name for name in names if name not in lacking]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--only", default=",".join(NETWORKS), help="some of kws, ic, vww, ad, with commas")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "out/tiny", help="where models and results go")
    parser.add_argument("--device", default=DEVICE, help="the emulated core that the C is verified on")
    parser.add_argument("--stored", action="store_true", help="no training: print the results kept here")
    args = parser.parse_args()
    if args.stored:
        return show(RESULTS)
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    results = []
    for name in with_data(args.only.split(",")):
        how = SCHEDULES[name]
        task = TASKS[name](how.trained, how.tested)
        model = train(name, task, how)
        results.append(measure(name, model, task, args.out, args.device))
        print(results[-1], flush=True)
        write_results(args.out / "results.csv", results)
    return show(args.out / "results.csv")


if __name__ == "__main__":
    try:
        main()
    except lbnn.LbnnError as error:  # no Fashion-MNIST here, or no compiler
        print(error, file=sys.stderr)
        sys.exit(2)
