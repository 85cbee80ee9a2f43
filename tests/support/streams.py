"""Networks over time, compiled together, and their streams called with numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lbnn import nn as bnn
from lbnn.base.files import fill_folder
from lbnn.device.compilers import TOOLCHAINS
from lbnn.exporters.c import COptions, generate_program, lower
from lbnn.exporters.c.program import Program
from lbnn.exporters.c.view import view
from lbnn.model.file import Model, read_model

MORE = 1


class Residual(nn.Module):
    """A causal block with a skip, one that halves the rate beside a branch that comes earlier, a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.pad, self.first = bnn.ZeroPad1d((4, 0)), bnn.Conv1d(3, 4, 3, dilation=2)
        self.skip = bnn.Conv1d(3, 4, 1)
        self.halve, self.short = bnn.Conv1d(4, 5, 3, stride=2, padding=1), bnn.Conv1d(4, 5, 1, stride=2)
        self.early = bnn.ZeroPad1d((1, 0))
        self.late = bnn.Conv1d(5, 5, 2)
        self.act, self.head = bnn.LeakyReLU(0.1), bnn.VarianceHead()

    def forward(self, x: Any) -> Any:
        x = self.act(self.first(self.pad(x))) + self.skip(x)
        x = self.halve(x) + self.short(x)
        return self.head(bnn.cat([x, self.act(self.late(self.early(x)))]))


class Valley(nn.Module):
    """Without padding: a sum of branches whose columns are complete many samples apart."""

    def __init__(self) -> None:
        super().__init__()
        self.slow, self.quick = bnn.Conv1d(2, 3, 5, dilation=3, stride=2), bnn.Conv1d(2, 3, 1, stride=2)
        self.even = bnn.AvgPool1d(7, stride=1)

    def forward(self, x: Any) -> Any:
        return self.slow(x) + self.even(self.quick(x))


class Gated(nn.Module):
    """Products: of a branch and the samples themselves, and of two branches of which one waits for the other."""

    def __init__(self) -> None:
        super().__init__()
        self.pad, self.first = bnn.ZeroPad1d((2, 0)), bnn.Conv1d(3, 3, 3)
        self.value, self.gate = bnn.Conv1d(3, 4, 3, stride=2, padding=1), bnn.Conv1d(3, 4, 1, stride=2)
        self.squash, self.times = bnn.Sigmoid(), bnn.Multiply()

    def forward(self, x: Any) -> Any:
        x = self.times(self.first(self.pad(x)), x)
        return self.times(self.value(x), self.squash(self.gate(x)))


class Ends(nn.Module):
    """The first sample of a window beside all of it: one column each, complete a window apart."""

    def __init__(self) -> None:
        super().__init__()
        self.whole, self.first = bnn.Conv1d(2, 3, 9), bnn.Conv1d(2, 3, 1, stride=9)
        self.flatten, self.out = bnn.Flatten(), bnn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self.out(self.flatten(self.whole(x) + self.first(x)))


def causal() -> nn.Module:
    """Affine map, dilation, groups, one channel alone, 1x1."""
    return bnn.Sequential(
        bnn.Affine(torch.tensor([[0.5], [2.0]]), torch.tensor([[0.25], [-1.0]])),
        bnn.ZeroPad1d((6, 0)), bnn.Conv1d(2, 6, 3, dilation=3), bnn.LeakyReLU(0.1),
        bnn.ZeroPad1d((3, 0)), bnn.Conv1d(6, 6, 4, groups=6), bnn.BatchNorm1d(6),
        bnn.Conv1d(6, 10, 1, bias=False), bnn.ReLU(),
        bnn.ZeroPad1d((1, 0)), bnn.Conv1d(10, 1, 3),
    )  # fmt: skip


def strided(channels: int = 9) -> nn.Module:
    """Convolutions and pools that skip, overlap and leave gaps."""
    return bnn.Sequential(
        bnn.Conv1d(2, channels, 3, stride=2, padding=1), bnn.ReLU(), bnn.AvgPool1d(3, stride=2),
        bnn.Conv1d(channels, 2, 2), bnn.Abs(), bnn.AvgPool1d(2, stride=3), bnn.Tanh(),
    )  # fmt: skip


def tumbling() -> nn.Module:
    """Padding, then all columns of a window."""
    return bnn.Sequential(
        bnn.ZeroPad1d((2, 0)), bnn.Conv1d(1, 4, 3, stride=2), bnn.ReLU(), bnn.Flatten(), bnn.Linear(28, 5), bnn.ReLU(),
        bnn.Linear(5, 2),
    )  # fmt: skip


def sliding() -> nn.Module:
    """No padding: windows may overlap."""
    return bnn.Sequential(
        bnn.Conv1d(2, 6, 3, dilation=2), bnn.ReLU(), bnn.MaxPool1d(2), bnn.Conv1d(6, 4, 2), bnn.Flatten(),
        bnn.Linear(16, 3), bnn.SoftmaxHead(),
    )  # fmt: skip


def pooled() -> nn.Module:
    """A mean over a window that is longer than one part of a sum, and classes."""
    return bnn.Sequential(
        bnn.Conv1d(1, 5, 3),
        bnn.ReLU(),
        bnn.AdaptiveAvgPool1d(1),
        bnn.Flatten(),
        bnn.Linear(5, 4),
        bnn.SoftmaxHead("fast"),
    )


def silent() -> nn.Module:
    """A bias of -0, and taps whose product with silence is +0 before the window and -0 in it."""
    layer = bnn.Conv1d(1, 1, 3)
    with torch.no_grad():
        layer.weight_mu.copy_(torch.tensor([[[1.0, 1.0, -1.0]]]))
        layer.bias_mu.fill_(-0.0)
    return bnn.Sequential(bnn.ZeroPad1d((2, 0)), layer)


def together() -> nn.Module:
    """Pools whose elements rise and fall together: one that keeps its columns, and one over all."""
    return bnn.Sequential(
        bnn.Conv1d(2, 5, 3), bnn.ReLU(), bnn.AvgPool1d(3, stride=2, correlated=True),
        bnn.AdaptiveAvgPool1d(1, correlated=True), bnn.Flatten(), bnn.Linear(5, 2),
    )  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A network, its window, and how its C is made."""

    make: Any
    shape: tuple[int, int]
    hop: int | None = None
    options: Mapping[str, Any] = ()  # type: ignore[assignment]

    def model(self, length: int = 0) -> Model:
        """The network with weights that depend on nothing else, for its own window or a longer one."""
        torch.manual_seed(11)
        module = self.make().eval()
        _upset(module)
        return read_model(module, (self.shape[0], length or self.shape[1]))


def _upset(module: nn.Module) -> None:
    """Biases with zeros of both signs, and batch norms that do something."""
    for name, param in module.named_parameters():
        if name.endswith("bias_mu"):
            with torch.no_grad():
                param.copy_(torch.where(torch.rand_like(param) < 0.3, -torch.zeros_like(param), param))
    for layer in module.modules():
        if hasattr(layer, "running_mean"):
            layer.running_mean.uniform_(-1, 1)
            layer.running_var.uniform_(0.5, 2)


CASES: dict[str, Case] = {
    "causal": Case(causal, (2, 23)),
    "causal_moments": Case(causal, (2, 23), options={"input_variance": True}),
    "causal_small": Case(causal, (2, 23), options={"optimize": "size"}),
    "strided": Case(strided, (2, 26)),
    "one_channel": Case(lambda: strided(1), (2, 26)),
    "residual": Case(Residual, (3, 24)),
    "residual_moments": Case(Residual, (3, 24), options={"input_variance": True}),
    "valley": Case(Valley, (2, 31)),
    "silent": Case(silent, (1, 5)),
    "tumbling": Case(tumbling, (1, 14)),
    "uneven": Case(tumbling, (1, 13)),
    "sliding": Case(sliding, (2, 14)),
    "sliding_2": Case(sliding, (2, 14), 2),
    "sliding_6": Case(sliding, (2, 14), 6, {"input_variance": True}),
    "gated": Case(Gated, (3, 24)),
    "gated_moments": Case(Gated, (3, 24), options={"input_variance": True}),
    "ends": Case(Ends, (2, 9)),
    "ends_1": Case(Ends, (2, 9), 1),
    "ends_3": Case(Ends, (2, 9), 3),
    "together": Case(together, (2, 23)),
    "together_2": Case(together, (2, 23), 2),
    "pooled": Case(pooled, (1, 302)),
    "pooled_1": Case(pooled, (1, 302), 1),
    "pooled_300": Case(pooled, (1, 302), 300),
    "pooled_small": Case(pooled, (1, 302), options={"optimize": "size"}),
}
COLUMNS = [name for name, case in CASES.items() if case.make not in (tumbling, sliding, pooled, together, Ends)]
WINDOWS = [name for name in CASES if name not in COLUMNS]


def programs(names: Iterable[str] = tuple(CASES)) -> Iterator[tuple[Program, Model, COptions]]:
    """Every case as a stream, and those whose results are columns for a window three times as long."""
    for name in names:
        case = CASES[name]
        options = COptions(name=name, stream=True, hop=case.hop, **dict(case.options))
        model = case.model()
        yield lower(model, options), model, options
        if name in COLUMNS:
            long = case.model(3 * case.shape[1])
            whole = COptions(name=f"long_{name}", stream=True, **dict(case.options))
            yield lower(long, whole), long, whole


def write(folder: Path, made: Iterable[tuple[Program, Model, COptions]]) -> dict[str, Program]:
    """The folders of programs side by side, and all.c, which is all of them."""
    found, texts = {}, []
    for program, model, options in made:
        fill_folder(folder / program.name, generate_program(program, view(program, model, options), options))
        texts += [f'#include "{program.name}/{program.name}.c"\n']
        texts += [f'#include "{program.name}/{program.name}_selftest.c"\n'] if program.push else []
        found[program.name] = program
    size = [text for text in texts if "_small" in text]
    (folder / "all.c").write_text("".join(text for text in texts if text not in size))
    (folder / "size.c").write_text("".join(size))
    return found


def build(folder: Path, toolchain: str, flags: Iterable[str]) -> ctypes.CDLL:
    """The library of everything in a folder."""
    out = folder / f"{toolchain}_{abs(hash(tuple(flags)))}.so"
    sources = [path for path in (folder / "all.c", folder / "size.c") if path.read_text()]
    return ctypes.CDLL(str(TOOLCHAINS[toolchain].compile_shared(sources, out, tuple(flags), [folder])))


class Streamed:
    """The functions of one case, called with numpy arrays; memory is full of NaN where nothing should be read."""

    def __init__(self, library: ctypes.CDLL, program: Program) -> None:
        self.library, self.program, self.name = library, program, program.name
        assert program.push is not None
        self.push_program = program.push
        self.window = program.push.stream.length
        self.random = program.graph.input.random

    def state(self) -> np.ndarray:
        """A stream that begins."""
        state = np.full(self.push_program.state_len, np.nan, np.float32)
        assert self._call("reset", state) == 0
        return state

    def push(self, state: np.ndarray, sample: np.ndarray) -> tuple[int, np.ndarray]:
        """Status, and mean and variance where there are any; `sample` has a second row if it has a variance."""
        return self._results("push", [state, *sample], self.push_program.result_len, self.push_program.work_len)

    def predict(self, window: np.ndarray, name: str = "", program: Program | None = None) -> np.ndarray:
        """Mean and variance of a window [1 or 2, channels, time], with an axis of columns where there is one."""
        program = program or self.program
        inputs = [np.ascontiguousarray(part) for part in window]
        status, out = self._results("predict", inputs, program.output_len, program.work_len, name)
        assert status == 0
        return out

    def classify(self, inputs: list[np.ndarray], function: str, work_len: int) -> tuple[int, np.ndarray, bytes]:
        """Status, probabilities and the bytes of the decision."""
        probability, decision = (np.full(n, -7.0, np.float32) for n in (self.push_program.result_len, 4))
        status = self._call(function, *inputs, probability, decision, np.full(work_len, np.nan, np.float32))
        return status, probability, decision.tobytes()

    def _results(
        self, function: str, inputs: list[np.ndarray], length: int, work_len: int, name: str = ""
    ) -> tuple[int, np.ndarray]:
        out = np.full((2, length), -7.0, np.float32)
        status = self._call(function, *inputs, out[0], out[1], np.full(work_len, np.nan, np.float32), name=name)
        return status, out

    def _call(self, function: str, *arrays: np.ndarray, name: str = "") -> int:
        found = getattr(self.library, f"{name or self.name}_{function}")
        return int(found(*(ctypes.c_void_p(array.ctypes.data) for array in arrays)))


def signal(rng: np.random.Generator, random: bool, channels: int, length: int) -> np.ndarray:
    """[1 or 2, channels, time]: ordinary numbers with zeros of both signs among them, and their variances."""
    mean = rng.normal(size=(channels, length))
    mean = np.where(rng.random(mean.shape) < 0.2, np.copysign(0.0, mean), mean)
    parts = [mean, rng.exponential(0.3, mean.shape)] if random else [mean]
    return np.array(parts, np.float32)


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    """Bit for bit: zeros of both signs differ."""
    return found.tobytes() == np.ascontiguousarray(expected).tobytes()
