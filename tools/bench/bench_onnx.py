"""Measures the ONNX backend: against torch in one run, and the choices behind it against their alternatives.

    python tools/bench/bench_onnx.py              onnxruntime, torch eager and torch.compile, batch 1 and 256
    python tools/bench/bench_onnx.py --choices    other nodes for the same functions

One thread each. All contenders take turns in short rounds and each one's fastest round counts, so that what else the
machine does meets all of them alike. Time is this thread's processor time, which waiting for a core does not add to.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

from lbnn import nn as bnn
from lbnn.exporters.onnx import to_onnx
from lbnn.exporters.onnx.namespace import OnnxNamespace, Term
from lbnn.exporters.onnx.symbols import Symbol
from lbnn.graph.passes import prepare
from lbnn.graph.reference import predict
from lbnn.model.trace import trace
from lbnn.ops import ConvGeometry, TailRow
from lbnn.ops.tail import DENOMINATOR_FLOAT32, NUMERATOR_FLOAT32, SQRT_2PI, TAIL_NODES, TAIL_WEIGHTS

Call = Callable[[], Any]


def mlp() -> tuple[torch.nn.Module, tuple[int, ...]]:
    """16-64-64-1, slope 0.1."""
    layers = bnn.Linear(16, 64), bnn.LeakyReLU(0.1), bnn.Linear(64, 64), bnn.LeakyReLU(0.1), bnn.Linear(64, 1)
    return bnn.Sequential(*layers), (16,)


def cnn() -> tuple[torch.nn.Module, tuple[int, ...]]:
    """1x16x16: conv 8 3x3, pool, conv 16 3x3, pool, linear 10; slope 0.1."""
    first = bnn.Conv2d(1, 8, 3, padding=1), bnn.LeakyReLU(0.1), bnn.AvgPool2d(2)
    second = bnn.Conv2d(8, 16, 3, padding=1), bnn.LeakyReLU(0.1), bnn.AvgPool2d(2)
    return bnn.Sequential(*first, *second, bnn.Flatten(), bnn.Linear(256, 10)), (1, 16, 16)


MODELS = {"M1 (MLP 16-64-64-1)": mlp, "M2 (CNN 1x16x16)": cnn}


class LastAxis(OnnxNamespace):
    """Tail quadrature on a new last axis: Unsqueeze ... MatMul, Add, a Gather for each row."""

    def tail_mix(self, x: Symbol, rows: Sequence[TailRow]) -> list[Any]:
        """As in the backend, transposed."""
        node, constant, t, w = self.recorder.node, self.recorder.constant, np.array(TAIL_NODES), np.array(TAIL_WEIGHTS)
        shifted = node("Add", [node("Unsqueeze", [x.tensor(), self.recorder.integers(-1)]), constant(t)])
        squared = node("Mul", [node("Mul", [shifted, shifted]), constant(-0.5)])
        weight = np.array([w * (b + c * t + d * t * t) for _, b, c, d in rows])
        product = node("MatMul", [node("Exp", [squared]), constant(weight.T)])
        table = node("Add", [product, constant([row[0] for row in rows])])
        columns = [
            node("Squeeze", [node("Gather", [table, self.recorder.integers(i)], axis=-1), self.recorder.integers(-1)])
            for i in range(len(rows))
        ]
        return [Symbol(self.recorder, column, x.shape) for column in columns]


class Convolution(OnnxNamespace):
    """Tail quadrature mixed by a 1x1 convolution whose channels are the new axis."""

    def tail_mix(self, x: Symbol, rows: Sequence[TailRow]) -> list[Any]:
        """Needs no bias node and, on vectors, no Reshape."""
        node, constant, t, w = self.recorder.node, self.recorder.constant, np.array(TAIL_NODES), np.array(TAIL_WEIGHTS)
        flat = self.flatten(x)
        half = replace(flat, factor=0.5 * x.factor**2).tensor()
        slopes = node("Sub", [constant(-x.factor * t.reshape(1, -1, 1, 1, 1)), half])
        weight = np.array([w * np.exp(-0.5 * t * t) * (b + c * t + d * t * t) for _, b, c, d in rows])
        operands = [constant(weight[:, :, None, None, None]), constant([row[0] for row in rows])]
        table = node("Conv", [node("Exp", [node("Mul", [flat.name, slopes])]), *operands], kernel_shape=[1, 1, 1])
        shape = self.recorder.integers(len(rows), -1, *map(int, x.shape[1:]))
        sizes = self.recorder.integers(*[1] * len(rows))
        parts = self.recorder.split_node("Split", [node("Reshape", [table, shape]), sizes], len(rows), axis=0)
        return [Symbol(self.recorder, part, (1, *x.shape)) for part in parts]


class Rational(OnnxNamespace):
    """The tail's moments as a ratio of polynomials: many nodes, none larger than the layer."""

    def tail_mix(self, x: Symbol, rows: Sequence[TailRow]) -> list[Any]:
        """See lbnn.ops.tail."""
        x = self.minimum(x, 12.0)
        j2, i1 = x * NUMERATOR_FLOAT32[0] + NUMERATOR_FLOAT32[1], x + DENOMINATOR_FLOAT32[0]
        for coefficient in NUMERATOR_FLOAT32[2:]:
            j2 = j2 * x + coefficient
        for coefficient in DENOMINATOR_FLOAT32[1:]:
            i1 = i1 * x + coefficient
        q = x * i1 + j2
        density = Symbol(self.recorder, self.recorder.node("Exp", [(x * x * -0.5).tensor()]), x.shape)
        scale = density / (i1 + x * q) * (1 / SQRT_2PI)
        sums = [[m * c for m, c in zip((q, i1, j2), row[1:], strict=True) if c] for row in rows]
        return [sum(terms[1:], start=terms[0]) * scale + row[0] for terms, row in zip(sums, rows, strict=True)]


class SideBySide(OnnxNamespace):
    """The variance's two terms as one product over concatenated inputs."""

    def linear(self, bias: Any, *terms: Term) -> Symbol:
        """Concat, Gemm."""
        return super().linear(bias, self._joined(terms, -1))

    def conv(self, geometry: ConvGeometry, bias: Any, *terms: Term) -> Symbol:
        """Concat, Conv; ungrouped only."""
        return super().conv(geometry, bias, self._joined(terms, 1))

    def _joined(self, terms: Sequence[Term], axis: int) -> Term:
        if len(terms) == 1:
            return terms[0]
        x = terms[0][0].like(self.recorder.node("Concat", [x.name for x, _ in terms], axis=axis))
        weight = np.concatenate([weight * x.factor for x, weight in terms], axis=1)
        return replace(x, factor=1.0, low=min(x.low for x, _ in terms)), weight


CHOICES: Mapping[str, type[OnnxNamespace]] = {
    "kept: new first axis, Gemm": OnnxNamespace,
    "new last axis, MatMul": LastAxis,
    "1x1 convolution": Convolution,
    "rational function": Rational,
    "variance over Concat": SideBySide,
}


def session(proto: Any) -> ort.InferenceSession:
    """One thread, CPU."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def fastest(calls: Mapping[str, Call], rounds: int, repeat: int) -> dict[str, float]:
    """Microseconds of processor time for one call of each."""
    best = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            start = time.thread_time()
            for _ in range(repeat):
                call()
            best[name] = min(best[name], (time.thread_time() - start) / repeat * 1e6)
    return best


def against_torch() -> None:
    """A table in Markdown, ratios to onnxruntime in brackets."""
    print("| model | batch | onnxruntime | torch eager | torch.compile |\n|---|---|---|---|---|")
    for title, make in MODELS.items():
        torch.manual_seed(0)
        model, shape = make()
        model = model.eval()
        compiled = torch.compile(model, dynamic=False)
        runner = session(to_onnx(prepare(trace(model, shape), False), "0" * 64))
        for batch in (1, 256):
            x = torch.randn(batch, *shape)
            feed = {"input": x.numpy()}
            calls: dict[str, Call] = {
                "ort": lambda feed=feed, runner=runner: runner.run(None, feed),
                "eager": lambda x=x, model=model: model(x),
                "compiled": lambda x=x, compiled=compiled: compiled(x),
            }
            took = fastest(calls, *((150, 5) if batch == 1 else (20, 1)))
            cells = [f"{us:,.0f} us ({us / took['ort']:.1f})" for us in took.values()]
            print(f"| {title} | {batch} | {' | '.join(cells)} |", flush=True)


def choices() -> None:
    """Nodes, time and variance error of each alternative."""
    print("| model | choice | nodes | batch 1 | batch 256 | variance error |\n|---|---|---|---|---|---|")
    for title, make in MODELS.items():
        torch.manual_seed(0)
        model, shape = make()
        graph = prepare(trace(model.eval(), shape), False)
        files = {name: to_onnx(graph, "0" * 64, namespace=namespace) for name, namespace in CHOICES.items()}
        runners = {name: session(proto) for name, proto in files.items()}
        inputs = {batch: np.random.default_rng(0).normal(size=(batch, *shape)).astype(np.float32) for batch in (1, 256)}
        took = {
            batch: fastest(
                {name: lambda r=r, x=x: r.run(None, {"input": x}) for name, r in runners.items()},
                *((300, 20) if batch == 1 else (40, 1)),
            )
            for batch, x in inputs.items()
        }
        want = predict(graph, inputs[256]).var
        for name, runner in runners.items():
            error = np.max(abs(runner.run(["variance"], {"input": inputs[256]})[0] - want) / want)
            times = " | ".join(f"{took[batch][name]:,.1f} us" for batch in inputs)
            print(f"| {title} | {name} | {len(files[name].graph.node)} | {times} | {error:.1e} |", flush=True)


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choices", action="store_true", help="compare alternatives instead of frameworks")
    torch.set_num_threads(1)
    with torch.no_grad():
        choices() if parser.parse_args().choices else against_torch()


if __name__ == "__main__":
    main()
