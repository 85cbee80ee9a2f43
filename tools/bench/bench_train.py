"""What a training step costs beside the plain network's: python tools/bench/bench_train.py [--update docs/training.md].

Five networks, each trained plainly (mean squared error, torch's AdamW), by `lbnn.fit`, and both compiled. All take
turns in short rounds on one thread and the processor time of each is kept, so that neither a busy machine nor a change
of its clock favours one; the ratio is that of the fastest rounds. Memory is the most that torch holds within a step.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lbnn import nn as bnn
from lbnn.train.batches import as_source
from lbnn.train.compiled import Moving, adamw, compiled_step
from lbnn.train.descent import Descent, Elbo, unreduced_nll
from lbnn.train.flat import FlatPosterior
from lbnn.train.optimizer import FlatAdamW, flat_groups
from lbnn.train.priors import Gaussian
from lbnn.train.processes import Processes
from lbnn.train.rates import CosineRate

Step = Callable[[], Any]
ROUND = 0.03  # seconds of one turn
RATE = 1e-3


@dataclass(frozen=True)
class Net:
    """A network, the shape of its input and output, rows in a batch, and the ratios it must stay below."""

    name: str
    make: Callable[[Any], nn.Module]
    inputs: tuple[int, ...]
    outputs: int
    batch: int
    bar: float
    compiled_bar: float


def mlp(layers: Any, *widths: int) -> nn.Module:
    """Linear layers with a leaky-ReLU between them, of torch.nn or lbnn.nn."""
    made = [part for a, b in pairwise(widths) for part in (layers.Linear(a, b), layers.LeakyReLU(0.01))]
    return layers.Sequential(*made[:-1])  # type: ignore[no-any-return]


def lenet(layers: Any) -> nn.Module:
    """LeNet-5 with leaky-ReLU, for images of 28x28."""
    return layers.Sequential(  # type: ignore[no-any-return]
        layers.Conv2d(1, 6, 5, padding=2), layers.LeakyReLU(0.01), layers.AvgPool2d(2),
        layers.Conv2d(6, 16, 5), layers.LeakyReLU(0.01), layers.AvgPool2d(2), layers.Flatten(),
        layers.Linear(400, 120), layers.LeakyReLU(0.01), layers.Linear(120, 84), layers.LeakyReLU(0.01),
        layers.Linear(84, 10),
    )  # fmt: skip


NETS = (
    Net("8-50-1, batch 32", lambda m: mlp(m, 8, 50, 1), (8,), 1, 32, 2.3, 0.6),
    Net("8-50-1, batch 927", lambda m: mlp(m, 8, 50, 1), (8,), 1, 927, 4.0, 1.4),
    Net("13-50-50-1, batch 64", lambda m: mlp(m, 13, 50, 50, 1), (13,), 1, 64, 3.0, 0.8),
    Net("16-256-256-1, batch 256", lambda m: mlp(m, 16, 256, 256, 1), (16,), 1, 256, 5.2, 2.9),
    Net("LeNet, batch 64", lenet, (1, 28, 28), 10, 64, 3.9, 2.4),
)
MEMORY_BAR = 3.5


def plain(net: Net, x: Tensor, y: Tensor) -> Step:
    """As one trains a plain network."""
    model = net.make(nn)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return float(loss.detach())

    return step


def plain_compiled(net: Net, x: Tensor, y: Tensor) -> Step:
    """The same with the whole step in one torch.compile."""
    model = net.make(nn)
    zeros = [(p, torch.zeros(()), torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()]
    moving = [Moving(p, 0.01, *state) for p, *state in zeros]
    rate = torch.tensor(RATE)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = nn.functional.mse_loss(model(x), y)
        adamw(moving, list(torch.autograd.grad(loss, [m.values for m in moving])), rate)
        return loss.detach()

    run = torch.compile(step, fullgraph=True, dynamic=False)
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        run(x, y)
    return lambda: float(run(x, y))


def ours(net: Net, x: Tensor, y: Tensor, compiled: bool = False) -> Step:
    """A step of `lbnn.fit` with its defaults."""
    model, generator = net.make(bnn), torch.Generator()
    source = as_source((x, y), None, 1, generator, Processes())
    elbo, flat = Elbo(unreduced_nll, Gaussian(), "warmup", 1, generator), FlatPosterior(model)
    optimizer = FlatAdamW(flat_groups(flat, 0.01), lr=RATE)
    whole = compiled_step(model, flat, optimizer, elbo.loss, elbo.prior, None) if compiled else None
    descent = Descent(model, source, elbo, optimizer, None, 10**6, flat, whole, CosineRate())
    model.train()
    return lambda: descent.step(x, y, len(y), 1)


def ours_compiled(net: Net, x: Tensor, y: Tensor) -> Step:
    """A step of `lbnn.fit(compile=True)`."""
    return ours(net, x, y, compiled=True)


KINDS: dict[str, Callable[[Net, Tensor, Tensor], Step]] = {
    "plain": plain,
    "lbnn.fit": ours,
    "plain compiled": plain_compiled,
    "compile=True": ours_compiled,
}


def seconds_of(steps: dict[str, Step], rounds: int) -> dict[str, list[float]]:
    """Processor seconds of a step of each kind, round by round; all take turns."""
    counts = {name: _count(step) for name, step in steps.items()}
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            found[name].append(_timed(step, counts[name]))
    return found


def _count(step: Step) -> int:
    for _ in range(5):
        step()
    return max(1, round(ROUND / _timed(step, 3)))


def _timed(step: Step, count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        step()
    return (time.process_time() - start) / count


def peak(step: Step) -> int:
    """The most bytes that torch held within a step beyond those it began with."""
    for _ in range(3):
        step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]  # type: ignore[union-attr]
    held = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def measure(net: Net, kinds: list[str], rounds: int) -> dict[str, Any]:
    """Everything about one network."""
    torch.manual_seed(0)
    x, y = torch.randn(net.batch, *net.inputs), torch.randn(net.batch, net.outputs)
    steps = {kind: KINDS[kind](net, x, y) for kind in kinds}
    times = seconds_of(steps, rounds)
    base = times["plain"]
    return {
        "name": net.name,
        "microseconds": {kind: 1e6 * min(found) for kind, found in times.items()},
        "ratio": {kind: min(found) / min(base) for kind, found in times.items()},
        "median": {kind: statistics.median(a / b for a, b in zip(f, base, strict=True)) for kind, f in times.items()},
        "memory": peak(ours(net, x, y)) / peak(plain(net, x, y)),
    }


def table(results: list[dict[str, Any]]) -> str:
    """Ratios to the plain step; the bars beside those that have one."""
    lines = ["| | plain step | `lbnn.fit` | at most | `compile=True` | at most | plain compiled | peak memory |"]
    lines += ["|---|---:|---:|---:|---:|---:|---:|---:|"]
    for net, found in zip(NETS, results, strict=True):
        ratio = {kind: f"{value:.2f}" for kind, value in found["ratio"].items()}
        cells = [f"{found['microseconds']['plain']:.0f} µs", ratio["lbnn.fit"], str(net.bar)]
        cells += [ratio.get("compile=True", ""), str(net.compiled_bar), ratio.get("plain compiled", "")]
        lines.append(f"| {net.name} | {' | '.join(cells)} | {found['memory']:.2f} |")
    return "\n".join(lines)


def update(page: Path, text: str) -> None:
    """Replaces the table between the page's marks."""
    mark = re.compile(r"(<!-- table: make bench-train -->\n).*?(\n<!-- end of table -->)", re.DOTALL)
    page.write_text(mark.sub(lambda found: found[1] + text + found[2], page.read_text()))


def main() -> None:
    """Measures and prints, or writes the table into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--eager", action="store_true", help="leave out what is compiled")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--update", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    kinds = [kind for kind in KINDS if not (options.eager and "compile" in kind)]
    results = []
    for net in NETS:
        results.append(measure(net, kinds, options.rounds))
        print(f"{net.name}: {results[-1]['ratio']}", flush=True)
    print(json.dumps(results, indent=2) if options.json else table(results))
    if options.update:
        update(options.update, table(results))


if __name__ == "__main__":
    main()
