"""Prints how far each backend is from float64 on deep, wide, very large and very small networks.

    python tools/check/extremes.py [--backends torch,onnx,c,c-sanitized,cortex-m4] [--only WORD]

A cell holds the mean error and the variance error of lbnn.measure.parity, with and without an input variance the larger
one, or why there is none: `refused` (NAME_predict returns LBNN_ERROR_OUTPUT), `not finite` (the answer is infinite or
NaN), `no export` (the exporter says that float32 can't hold the model). `!` marks errors beyond 1e-5.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.base.terminal import print_table, progress
from lbnn.graph.reference import predict
from lbnn.measure import backends
from lbnn.measure.device_backend import run_device
from lbnn.measure.parity import FLOAT32_TOLERANCE, Runner, errors
from lbnn.measure.samples import Samples
from lbnn.model.file import Model, read_model
from lbnn.nn.base import BayesianLayer

BACKENDS = ("torch", "onnx", "c", "c-sanitized", "cortex-m4")
SLOPE, DEPTH, WIDTH, COUNT = 0.1, 50, 4096, 6
EMULATED_WEIGHTS = 400_000


@dataclass(frozen=True)
class Case:
    """A network and the size of its inputs; `about` says what is extreme, `even` makes all inputs the same number."""

    name: str
    about: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    inputs: float = 1.0
    even: bool = False

    @property
    def model(self) -> Model:
        """The network as exporters read it."""
        return read_model(self.build(), self.shape)


def gain(inputs: int) -> float:
    """The size of weights that keeps the second moment of a leaky-ReLU network as it is."""
    return float(np.sqrt(2.0 / (1.0 + SLOPE**2) / inputs))


def layers_of(network: nn.Module) -> list[BayesianLayer]:
    """The layers with weights, in order."""
    return [layer for layer in network.modules() if isinstance(layer, BayesianLayer)]


def settle(network: nn.Module, size: float = 1.0, growth: float = 1.0, spread: float = 0.1) -> nn.Module:
    """Weights that neither explode nor die, or `growth` times that; sigma is `spread` of them; biases of `size`."""
    generator = torch.Generator().manual_seed(1)
    for layer in layers_of(network):
        inputs = layer.weight_mu[0].numel()
        scale = growth * gain(inputs)
        fill(layer, scale * torch.randn(layer.weight_mu.shape, generator=generator), spread * scale)
        with torch.no_grad():
            layer.bias_mu.copy_(0.1 * size * torch.randn(layer.bias_mu.shape, generator=generator))
            layer.bias_rho.fill_(rho(0.1 * size))
    return network


def fill(layer: BayesianLayer, mean: Any, sigma: float) -> None:
    """Weights of these means and of one sigma."""
    with torch.no_grad():
        layer.weight_mu.copy_(mean)
        layer.weight_rho.fill_(rho(sigma))


def rho(sigma: float) -> float:
    """softplus(rho) = sigma."""
    return float(sigma + np.log(-np.expm1(-sigma))) if sigma > 0.0 else -300.0


def rescale(network: nn.Module, factors: Sequence[float]) -> nn.Module:
    """Multiplies the weights of each layer, means and sigmas, and the biases by the factors so far."""
    so_far = 1.0
    for layer, factor in zip(layers_of(network), factors, strict=True):
        so_far *= factor
        with torch.no_grad():
            for name, by in (("weight", factor), ("bias", so_far)):
                getattr(layer, f"{name}_mu").mul_(by)
                sigmas = nn.functional.softplus(getattr(layer, f"{name}_rho").double())
                getattr(layer, f"{name}_rho").copy_(torch.log(torch.expm1(by * sigmas)) if by < 1e2 else by * sigmas)
    return network


def mlp(*widths: int) -> nn.Module:
    """Linear layers with a leaky-ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [bnn.Linear(inputs, outputs), bnn.LeakyReLU(SLOPE)]
    return bnn.Sequential(*layers[:-1])


class Residual(nn.Module):
    """Blocks x + linear(leaky_relu(linear(x))) and a linear layer; 2 blocks + 1 layers of weights."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([mlp(width, width, width) for _ in range(blocks)])
        self.out = bnn.Linear(width, 1)

    def forward(self, x: Any) -> Any:
        """All blocks, then the last layer."""
        for block in self.blocks:
            x = x + block(x)
        return self.out(x)


def deep_mlp(depth: int = DEPTH) -> nn.Module:
    """16 inputs, then layers of 32."""
    return mlp(16, *[32] * (depth - 1), 1)


def deep_conv() -> nn.Module:
    """Convolutions of 4 channels, 3 x 3, and a linear layer behind the last."""
    convolutions: list[nn.Module] = []
    for channels in (1, *[4] * (DEPTH - 2)):
        convolutions += [bnn.Conv2d(channels, 4, 3, padding=1), bnn.LeakyReLU(SLOPE)]
    return bnn.Sequential(*convolutions, bnn.Flatten(), bnn.Linear(4 * 36, 1))


def certain(network: nn.Module) -> nn.Module:
    """The same network without any variance of its weights."""
    for layer in layers_of(network):
        fill(layer, layer.weight_mu.detach(), 0.0)
    return network


NETWORKS: dict[str, tuple[tuple[int, ...], Callable[[float], nn.Module]]] = {
    "50 linear layers": ((16,), lambda size: settle(deep_mlp(), size)),
    "25 residual blocks": ((16,), lambda size: settle(Residual(16, 25), size, growth=0.4)),
    "49 convolutions": ((1, 6, 6), lambda size: settle(deep_conv(), size)),
    "16-4096-1": ((16,), lambda size: settle(mlp(16, WIDTH, 1), size)),
    "4096-64-1": ((WIDTH,), lambda size: settle(mlp(WIDTH, 64, 1), size)),
    "64-4096-4096-1": ((64,), lambda size: settle(mlp(64, WIDTH, WIDTH, 1), size)),
}
SIZES = (1e-15, 1.0, 1e15)  # of means and sigmas: variances of 1e-30, 1 and 1e30

ORDINARY = tuple(
    Case(name, f"variances of {size * size:g}".replace("+", ""), partial(build, size), shape, size)
    for name, (shape, build) in NETWORKS.items()
    for size in SIZES
    if size == 1.0 or name != "64-4096-4096-1"
)
EDGES = (
    Case("50 linear layers", "die: output variance 1e-30", lambda: settle(deep_mlp(), 0.0, 0.5), (16,)),
    Case("50 linear layers", "die: output variance 1e-40", lambda: settle(deep_mlp(), 0.0, 0.4), (16,)),
    Case("50 linear layers", "die: output variance 1e-52", lambda: settle(deep_mlp(), 0.0, 0.3), (16,)),
    Case("50 linear layers", "explode: output variance 1e30", lambda: settle(deep_mlp(), 0.0, 2.0), (16,)),
    Case("50 linear layers", "explode: output variance 1e41", lambda: settle(deep_mlp(), 0.0, 2.6), (16,)),
    Case("16-32-1", "weight variance 1e-30, no bias", lambda: settle(mlp(16, 32, 1), 0.0, 1.0, 3e-15), (16,)),
    Case("16-1", "weight variance 1e30", lambda: settle(mlp(16, 1), 1.0, 1.0, 3e15), (16,)),
    Case("16-32-32-1", "inner variance 1e30", lambda: inner(1e15, 1.0, 1e-15), (16,)),
    Case("16-32-32-1", "inner variance 1e-36", lambda: inner(1e-18, 1e9, 1e9), (16,)),
    Case("16-32-32-1", "inner variance 1e-40", lambda: inner(1e-20, 1e10, 1e10), (16,)),
    Case("16-32-32-1", "inner variance 1e-46", lambda: inner(1e-23, 1e12, 1e11), (16,)),
    Case("16-32-32-1", "inner variance 1e40", lambda: inner(1e20, 1e-10, 1e-10), (16,)),
    Case("16-32-1", "inputs of 1e20, certain weights", lambda: certain(settle(mlp(16, 32, 1))), (16,), 1e20),
    Case("784-8", "equal inputs, equal sigmas", lambda: settle(mlp(784, 8)), (784,), even=True),
    Case("4096-8", "equal inputs, equal sigmas", lambda: settle(mlp(WIDTH, 8)), (WIDTH,), even=True),
)


def inner(*factors: float) -> nn.Module:
    """A network whose output is of ordinary size and whose inner values are not."""
    return rescale(settle(mlp(16, 32, 32, 1)), factors)


def draw(case: Case, input_variance: bool) -> Samples:
    """Inputs of the size of the case, and variances up to its square."""
    rng = np.random.default_rng(0)
    mean = case.inputs * rng.normal(size=(COUNT, *case.shape))
    var = np.square(case.inputs * rng.uniform(size=mean.shape))
    if case.even:
        levels = np.arange(1, COUNT + 1).reshape(-1, *[1] * len(case.shape))
        mean, var = (np.broadcast_to(level, mean.shape) for level in (0.07 * levels, 1e-4 * levels))
    with np.errstate(over="ignore"):
        kept = np.minimum(var, np.finfo(np.float32).max).astype(np.float32)
    return Samples(mean.astype(np.float32), kept if input_variance else None, (case.about,) * COUNT)


def short(error: float) -> str:
    """One digit and the power of ten, 2e-6, which is as much as such a number means."""
    return re.sub(r"e([+-])0*(\d)", lambda found: f"e{found[1].strip('+')}{found[2]}", f"{error:.0e}")


@dataclass(frozen=True)
class Found:
    """The errors of a case on a backend, and a verdict: ok, beyond, refused, not finite or no export."""

    mean_error: float
    var_error: float
    verdict: str

    def __str__(self) -> str:
        errors = f"{short(self.mean_error)} {short(self.var_error)}"
        return {"ok": errors, "beyond": f"{errors} !"}.get(self.verdict, self.verdict)


def examine(case: Case, model: Model, backend: str) -> Found:
    """The worse of two runs, with and without an input variance."""
    try:
        found = [compare(model, draw(case, variance), backend) for variance in (False, True)]
    except LbnnError:
        return Found(np.inf, np.inf, "no export")
    return max(found, key=lambda one: max(one.mean_error, one.var_error))


def compare(model: Model, samples: Samples, backend: str) -> Found:
    """One run against float64."""
    outcome = runner(backend, model)(model, samples)
    worst = [float(part.max()) for part in errors(outcome, reference(model, samples))]
    if max(worst) <= FLOAT32_TOLERANCE:
        return Found(*worst, "ok")
    if np.isfinite(outcome.mean).all() and np.isfinite(outcome.var).all():
        return Found(*worst, "beyond")
    return Found(*worst, "not finite" if backend in ("torch", "onnx") else "refused")


def reference(model: Model, samples: Samples) -> Any:
    """What float64 gives."""
    return predict(model.graph, samples.mean, samples.var)


def weights(model: Model) -> int:
    """How many weights the network has."""
    params = (param for node in model.graph.nodes for param in node.params.values())
    return sum(param.mean.size for param in params if isinstance(param, Moments))


def runner(backend: str, model: Model) -> Runner:
    """The backend; millions of weights are compiled as a binary file, which takes no time."""
    if backend in ("torch", "onnx") or weights(model) < 1_000_000:
        return backends.BACKENDS[backend].run
    return partial(run_device, backend, weights="binary")


def fits(backend: str, model: Model) -> bool:
    """Whether it has room: an emulated core has 4 MB of flash, and only `c` takes binary weights here."""
    return backend in ("torch", "onnx", "c") or weights(model) < EMULATED_WEIGHTS


def main() -> None:
    """Runs all cases and prints a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--only", default="", help="cases whose name or description holds this text")
    arguments = parser.parse_args()
    backends = arguments.backends.split(",")
    cases = {f"{case.name}, {case.about}": case for case in (*ORDINARY, *EDGES)}
    with progress("extremes", [name for name in cases if arguments.only in name]) as names:
        rows = [row(cases[name], backends) for name in names]
    print_table(("network", "what", *backends), rows)


def row(case: Case, backends: Sequence[str]) -> list[str]:
    """A line of the table."""
    model = case.model
    found = [str(examine(case, model, backend)) if fits(backend, model) else "too large" for backend in backends]
    return [case.name, case.about, *found]


if __name__ == "__main__":
    main()
