"""What `lbnn demo` tells: the whole story on the paper's problem, in a minute or two."""

from __future__ import annotations

from pathlib import Path

import torch

from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.files import write_file
from lbnn.base.moments import Moments
from lbnn.exporters import export
from lbnn.measure.backends import choose_backends, default_backends
from lbnn.measure.parity import FLOAT32_TOLERANCE
from lbnn.measure.report import write_report
from lbnn.measure.samples import draw_samples
from lbnn.measure.verify import show_verdicts, verify_backends
from lbnn.model.file import read_model, save
from lbnn.train import problem
from lbnn.train.fit import fit
from lbnn.train.losses import expected_gaussian_nll
from lbnn.train.result import FitResult

HIDDEN = 4
QUICK_BACKENDS = default_backends("demo")


def run_demo(out: Path, quick: bool = False) -> None:
    """Trains, draws, exports, compiles and verifies; leaves everything in `out`."""
    if out.exists() and not out.is_dir():
        raise LbnnError(f"{out} is a file; name a folder")
    torch.set_num_threads(1)  # layers this small only wait for each other on several
    print(f"1. Train 1-{HIDDEN}-1 on y = x + 1 with noise that depends on x (64 fresh points an epoch)")
    model, result = train(epochs=300 if quick else 6000)
    print(
        f"   expected NLL {result.best_validation:.4f} nats, ideal {problem.IDEAL_NLL:.4f} "
        f"(no model can be below it), best epoch {result.best_epoch}"
    )
    path = save(model, out / "polynomial.pt", input_shape=(1,))
    print(f"   {path}")
    print("2. Look at what it knows")
    print(f"   {draw_prediction(model, out / 'prediction.png')}")
    print("3. Export")
    print(f"   {export(path, 'c', out / 'c', force=True)}: C99, one compiler call")
    print(f"   {export(path, 'onnx', out / 'polynomial.onnx', force=True)}")
    print("4. Verify every backend against float64")
    prove(path, quick)
    print("5. Report: one page for a review, the model running inside")
    print(
        f"   {write_report(path, out / 'report.html', write_data(out / 'data.csv'), 'y', QUICK_BACKENDS, force=True)}"
    )
    print("6. Try next")
    print(f"   lbnn inspect {path}")
    print(f"   lbnn bench {path} --layers")
    print(f"   lbnn train {out}/data.csv --target y -o mine.pt      # and then with a CSV of your own")
    build = "cc -O2 -std=gnu99 -fno-math-errno"
    print(f"   {build} {out}/c/polynomial.c {out}/c/polynomial_selftest.c {out}/c/example_main.c && ./a.out")


def train(epochs: int) -> tuple[bnn.Sequential, FitResult]:
    """The paper's network with four hidden units, selected by its expected NLL over a grid."""
    torch.manual_seed(0)
    model = bnn.Sequential(bnn.Linear(1, HIDDEN), bnn.LeakyReLU(0.01), bnn.Linear(HIDDEN, 1))
    grid = problem.inside_grid(256).float()[:, None]

    def score(candidate: torch.nn.Module) -> float:
        return float(expected_gaussian_nll(candidate(grid), problem.true_mean(grid), problem.true_std(grid) ** 2))

    result = fit(
        model,
        lambda generator: problem.draw(64, 1, generator),
        epochs=epochs,
        validation=score,
        validate_every=10,
        kl_weight="paper",
        prior="spike_slab",
        lr_schedule="constant",
        seed=0,
    )
    return model, result


def draw_prediction(model: torch.nn.Module, path: Path) -> Path:
    """The prediction band inside and outside of the training range."""
    from lbnn.train import plots

    x = torch.linspace(-1.0, 1.0, 400)[:, None]
    with torch.no_grad():
        predicted = model(x)
    data = problem.draw(300, 1, torch.Generator().manual_seed(1))
    truth = Moments(problem.true_mean(x), problem.true_std(x) ** 2)
    axes = plots.prediction_band(
        x, predicted, data=data, truth=truth, trained_on=(-problem.INSIDE, problem.INSIDE),
        title=f"1-{HIDDEN}-1 with Gaussian weights: mean and uncertainty in one pass",
    )  # fmt: skip
    return plots.save_picture(axes, path)


def write_data(path: Path) -> Path:
    """Fresh observations as a CSV."""
    x, y = problem.draw(300, 1, torch.Generator().manual_seed(2))
    rows = (f"{a:.6g},{b:.6g}" for a, b in zip(x[:, 0].tolist(), y[:, 0].tolist(), strict=True))
    return write_file(path, "\n".join(["x,y", *rows]) + "\n", force=True)


def prove(path: Path, quick: bool) -> None:
    """The parity table; a failure is an error here."""
    wanted, lacking = choose_backends(None, "verify")
    names = [name for name in wanted if not quick or name in QUICK_BACKENDS]
    model = read_model(path)
    samples = draw_samples(model, 16 if quick else 64, seed=0)
    rows = verify_backends(model, samples, names, FLOAT32_TOLERANCE, lacking)
    show_verdicts(rows, lacking, f"{len(samples)} samples; errors as in docs/parity.md")
    if not all(row.passed for row in rows):
        raise LbnnError("a backend departs from the reference; please report this")
