"""ELBO training of any module that returns Moments: batches in, the best model and its history out.

The loss of a step is  mean NLL + w KL,  with w from a schedule (lbnn.train.priors). Three decisions shape the module:
- A step calls the model the user passed (DistributedDataParallel and torch.compile need that), but reads the KL
  from the module inside, with a generator that every process seeds alike.
- Under DistributedDataParallel a tensor pair or a sampler is cut by row across the processes, and each process
  scales its part so that the averaged gradient is that of the whole batch. A DataLoader shards itself.
- Validation compares epochs on the same points; the weights of the best epoch are put back at the end.
"""

from __future__ import annotations

import copy
import itertools
import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.train.losses import check_shapes, check_values, gaussian_nll
from lbnn.train.priors import Prior, Schedule, TrainingSize, as_prior, as_schedule, kl_divergence, named_gaussians

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Input = Tensor | Moments[Tensor]
Batch = tuple[Input, Tensor]
Sampler = Callable[[torch.Generator], Batch]
Data = Batch | Sequence[Any] | DataLoader[Any] | Sampler
Validation = Batch | Sequence[Any] | DataLoader[Any] | Callable[[nn.Module], Any]
Loss = Callable[[Moments[Tensor], Tensor], Tensor]
OptimizerLike = torch.optim.Optimizer | Callable[[list[dict[str, Any]]], torch.optim.Optimizer]

VALIDATION_ROWS = 8192  # rows evaluated at once, so that a large validation set needs little memory


@dataclass(frozen=True)
class Epoch:
    """What one epoch measured: `loss = nll + kl_weight * kl`, means over the epoch; validation may be absent."""

    epoch: int
    loss: float
    nll: float
    kl: float
    kl_weight: float
    validation: float | None = None


@dataclass(frozen=True)
class FitResult:
    """The history of a training and which epoch the model now holds (epochs count from 1)."""

    epochs: tuple[Epoch, ...]
    best_epoch: int
    best_validation: float | None
    stopped_early: bool
    seconds: float = field(compare=False)

    @property
    def loss(self) -> list[float]:
        """The training loss of each epoch."""
        return [e.loss for e in self.epochs]

    @property
    def nll(self) -> list[float]:
        """The training NLL of each epoch."""
        return [e.nll for e in self.epochs]

    @property
    def kl(self) -> list[float]:
        """The KL divergence (nats) of each epoch."""
        return [e.kl for e in self.epochs]

    @property
    def validation(self) -> list[tuple[int, float]]:
        """(epoch, validation NLL) of each epoch that was validated."""
        return [(e.epoch, e.validation) for e in self.epochs if e.validation is not None]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the history; see lbnn.train.plots.history."""
        from lbnn.train.plots import history

        return history(self, ax=ax)


def fit(
    model: nn.Module,
    data: Data,
    *,
    epochs: int,
    batch_size: int | None = None,
    steps_per_epoch: int = 1,
    lr: float = 0.01,
    weight_decay: float = 0.01,
    decay_rho: bool = False,
    optimizer: OptimizerLike | None = None,
    clip_norm: float | None = None,
    prior: str | Prior = "spike_slab",
    kl_weight: str | float | Schedule = "elbo",
    kl_samples: int = 1,
    loss: Loss | None = None,
    validation: Validation | None = None,
    validate_every: int = 1,
    patience: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
    on_epoch: Callable[[Epoch], bool | None] | None = None,
) -> FitResult:
    """Trains `model` in place by the ELBO and returns its history.

    data: a pair (x, y) cut into shuffled batches of `batch_size` (all rows at once if None); a DataLoader of such
        pairs; or a function f(generator) -> (x, y) that draws a fresh batch, `steps_per_epoch` times an epoch.
        x is a tensor, or Moments where the inputs are uncertain.
    optimizer: None for AdamW(lr, weight_decay), which leaves rho alone unless decay_rho: decay pulls rho to 0,
        that is sigma UP to 0.69. Or an optimizer, or a function of the parameter groups that makes one.
    kl_weight: "elbo" (1/N for N observed values), "paper", "blundell", "warmup", a number, or a schedule of
        lbnn.train.priors. For fresh samples N counts all values drawn during the training.
    loss: None for the Gaussian NLL, or f(moments, y) -> NLL of each value or row, unreduced.
    validation: a pair, a DataLoader, or a function of the model that returns its NLL. The weights of the epoch
        with the lowest value are restored at the end; without validation the last ones stay.
    patience: stops after so many validations without an improvement.
    seed: same seed, same data, same history; the global random state is left as it was.
    progress: a bar with loss and validation NLL; None shows it on a terminal only.
    on_epoch: called after each epoch, e.g. to step a learning-rate scheduler; returns True to stop.
    """
    _check_counts(epochs=epochs, steps_per_epoch=steps_per_epoch, kl_samples=kl_samples, validate_every=validate_every)
    _check_patience(patience, validation)
    start = time.perf_counter()
    inner = unwrap(model)
    device = _device(inner)
    processes = _processes(model)
    with _seeded(seed, device) as generators:
        step = _Step(
            model=model,
            processes=processes,
            source=_source(data, batch_size, steps_per_epoch, generators.data, processes),
            optimizer=_optimizer(inner, optimizer, lr, weight_decay, decay_rho),
            prior=as_prior(prior),
            kl_weight=kl_weight,
            kl_samples=kl_samples,
            loss=loss or _unreduced_nll,
            clip_norm=clip_norm,
            total_epochs=epochs,
            generator=generators.kl,
            device=device,
        )
        best = _Best(inner, patience)
        scores = _validator(validation, step.loss, device)
        history: list[Epoch] = []
        with _bar(_wants_bar(progress) and processes.rank == 0, epochs) as show:
            for number in range(1, epochs + 1):
                due = scores is not None and (number % validate_every == 0 or number == epochs)
                record = step.epoch(number, scores if due else None)
                history.append(record)
                best.see(record)
                show(record)
                if (on_epoch is not None and on_epoch(record)) or best.exhausted:
                    break
    best.restore()
    model.eval()
    return FitResult(
        epochs=tuple(history),
        best_epoch=best.epoch or history[-1].epoch,
        best_validation=best.value,
        stopped_early=len(history) < epochs,
        seconds=time.perf_counter() - start,
    )


# --- One step -------------------------------------------------------------------------------------------------


@dataclass
class _Step:
    """Everything a gradient step needs; counts the steps for the KL schedule."""

    model: nn.Module
    processes: _Processes
    source: _Source
    optimizer: torch.optim.Optimizer
    prior: Prior
    kl_weight: str | float | Schedule
    kl_samples: int
    loss: Loss
    clip_norm: float | None
    total_epochs: int
    generator: torch.Generator
    device: torch.device
    count: int = 0
    schedule: Schedule | None = None

    def epoch(self, number: int, scores: Callable[[nn.Module], float] | None) -> Epoch:
        """One pass over the source, then the validation."""
        self.model.train()
        rows, sums = 0, [0.0, 0.0, 0.0, 0.0]
        for x, y, whole in self.source.batches(number):
            values = self._step(to_device(x, self.device), y.to(self.device), whole, number)
            rows += whole
            sums = [s + whole * v for s, v in zip(sums, values, strict=True)]
        if not rows:
            raise LbnnError("the data gave no batch; check the DataLoader or the sampler")
        loss, nll, kl, weight = self.processes.mean([s / rows for s in sums], self.device)
        return Epoch(number, loss, nll, kl, weight, self._validated(scores))

    @torch.no_grad()
    def _validated(self, scores: Callable[[nn.Module], float] | None) -> float | None:
        """The validation NLL, the same number in every process so that all select and stop alike."""
        if scores is None:
            return None
        self.model.eval()
        value = self.processes.mean([scores(unwrap(self.model))], self.device)[0]
        if math.isnan(value):
            raise LbnnError("the validation NLL is NaN; check the validation data and lower the learning rate")
        return value

    def _step(self, x: Input, y: Tensor, whole: int, number: int) -> tuple[float, float, float, float]:
        """Loss, NLL, KL and its weight of one step; `whole` counts the rows over all processes."""
        _check_finite(x, y)
        world = self.processes.world if self.source.cuts else 1
        self.optimizer.zero_grad(set_to_none=True)
        moments = _as_moments(self.model(x))
        nll_values = _per_value(self.loss(moments, y), y)
        per_row = math.prod(nll_values.shape[1:])
        nll = nll_values.sum() * (world / (whole * per_row))
        kl = kl_divergence(unwrap(self.model), self.prior, self.kl_samples, self.generator)
        weight = self._weight(whole, per_row)
        total = nll + weight * kl
        value = float(total.detach())
        if not math.isfinite(value):
            raise LbnnError(f"the loss is {value} in epoch {number}: {_diagnose(moments, y)}")
        total.backward()  # type: ignore[no-untyped-call]
        if self.clip_norm is not None:
            nn.utils.clip_grad_norm_(unwrap(self.model).parameters(), self.clip_norm)
        self.optimizer.step()
        self.count += 1
        return value, float(nll.detach()), float(kl.detach()), weight

    def _weight(self, rows: int, per_row: int) -> float:
        """The KL weight now; named schedules are scaled when the first batch tells its number of values."""
        total = self.total_epochs * self.source.length
        if self.schedule is None:
            if not self.source.cuts:  # a DataLoader gives each process its own batch
                rows *= self.processes.world
            size = TrainingSize(self.source.rows(rows, self.total_epochs) * per_row, rows * per_row, self.source.length)
            self.schedule = as_schedule(self.kl_weight, size)
        weight = float(self.schedule(self.count, total))
        if not (math.isfinite(weight) and weight >= 0.0):
            raise LbnnError(f"the KL weight of step {self.count} is {weight}; it must be finite and not negative")
        return weight


def _as_moments(out: Any) -> Moments[Tensor]:
    if not isinstance(out, Moments):
        raise LbnnError(f"the model must return Moments, not {type(out).__name__}; build it from lbnn.nn")
    return out


def _unreduced_nll(moments: Moments[Tensor], y: Tensor) -> Tensor:
    return gaussian_nll(moments, y, "none", check=False)


def _per_value(nll: Tensor, y: Tensor) -> Tensor:
    if nll.dim() == 0 or len(nll) != len(y):
        raise LbnnError("the loss must return one value per target value or row, unreduced (reduction='none')")
    return nll


def _diagnose(moments: Moments[Tensor], y: Tensor) -> str:
    """Why a loss is not finite, in words."""
    try:
        check_shapes(moments, y)
        check_values(moments, y)
    except LbnnError as error:
        return str(error)
    return "lower the learning rate, set clip_norm, or check the loss and the prior"


# --- Data sources ---------------------------------------------------------------------------------------------


@dataclass
class _Source(ABC):
    """Batches of this process. `cuts`: each is this process' rows of a batch that all processes know."""

    cuts = True
    length: int  # batches in an epoch

    @abstractmethod
    def batches(self, number: int) -> Iterator[tuple[Input, Tensor, int]]:
        """(x, y, rows of the whole batch) for epoch `number`."""

    @abstractmethod
    def rows(self, batch: int, epochs: int) -> int:
        """The number of observed rows, given that of the first batch."""


@dataclass
class _Pair(_Source):
    x: Input
    y: Tensor
    batch_size: int
    generator: torch.Generator
    processes: _Processes

    def batches(self, number: int) -> Iterator[tuple[Input, Tensor, int]]:
        order = torch.randperm(len(self.y), generator=self.generator)
        for rows in torch.split(order, self.batch_size):
            mine = self.processes.part(rows).to(self.y.device)
            yield take(self.x, mine), self.y[mine], len(rows)

    def rows(self, batch: int, epochs: int) -> int:
        return len(self.y)


@dataclass
class _Loader(_Source):
    loader: DataLoader[Any]
    cuts = False

    def batches(self, number: int) -> Iterator[tuple[Input, Tensor, int]]:
        set_epoch = getattr(self.loader.sampler, "set_epoch", None)
        if set_epoch is not None:  # a DistributedSampler shuffles by epoch
            set_epoch(number)
        for batch in self.loader:
            x, y = as_pair(batch, "a batch of the DataLoader")
            yield x, y, len(y)

    def rows(self, batch: int, epochs: int) -> int:
        """All of the dataset, or less where the loader drops the last batch."""
        drawn = batch * self.length
        return min(drawn, len(self.loader.dataset)) if isinstance(self.loader.dataset, Sized) else drawn


@dataclass
class _Fresh(_Source):
    draw: Sampler
    generator: torch.Generator
    processes: _Processes

    def batches(self, number: int) -> Iterator[tuple[Input, Tensor, int]]:
        for _ in range(self.length):
            x, y = as_pair(self.draw(self.generator), "the result of the sampler")
            mine = self.processes.part(torch.arange(len(y), device=y.device))
            yield take(x, mine), y[mine], len(y)

    def rows(self, batch: int, epochs: int) -> int:
        """No sample comes twice: the data are all that will be drawn."""
        return batch * self.length * epochs


def _source(
    data: Data, batch_size: int | None, steps: int, generator: torch.Generator, processes: _Processes
) -> _Source:
    if isinstance(data, DataLoader):
        _refuse_batch_size(batch_size, "the DataLoader")
        return _Loader(_length(data), data)
    if callable(data):
        _refuse_batch_size(batch_size, "the sampler")
        return _Fresh(steps, data, generator, processes)
    x, y = as_pair(data, "data")
    _check_finite(x, y)
    size = len(y) if batch_size is None else batch_size
    _check_counts(batch_size=size)
    return _Pair(math.ceil(len(y) / size), x, y, size, generator, processes)


def _refuse_batch_size(batch_size: int | None, owner: str) -> None:
    if batch_size is not None:
        raise LbnnError(f"{owner} decides the size of a batch; leave out batch_size")


def _length(loader: DataLoader[Any]) -> int:
    try:
        return len(loader)
    except TypeError:
        raise LbnnError("the DataLoader has no length; pass a function that draws a batch instead") from None


def as_pair(data: Any, what: str) -> Batch:
    """(x, y) with as many rows in both, or an error that says what is wrong."""
    if isinstance(data, Moments) or not isinstance(data, (tuple, list)) or len(data) != 2:
        raise LbnnError(f"{what} must be a pair (x, y), a DataLoader or a function; got {type(data).__name__}")
    x, y = data
    if not isinstance(x, (Tensor, Moments)) or not isinstance(y, Tensor):
        got = f"{type(x).__name__} and {type(y).__name__}"
        raise LbnnError(f"{what} must hold torch tensors (or Moments for x), got {got}; use torch.as_tensor")
    if x.shape[:1] != y.shape[:1] or not len(y.shape) or not len(y):
        shapes = f"x is {tuple(x.shape)}, y {tuple(y.shape)}"
        raise LbnnError(f"{what} needs the same number of rows in both, at least one: {shapes}")
    return x, y


def take(x: Input, rows: Tensor) -> Input:
    """Some rows of a tensor or of Moments."""
    return Moments(x.mean[rows], x.var[rows]) if isinstance(x, Moments) else x[rows]


def to_device(x: Input, device: torch.device) -> Input:
    """A tensor or Moments on another device."""
    return Moments(x.mean.to(device), x.var.to(device)) if isinstance(x, Moments) else x.to(device)


def _check_finite(x: Input, y: Tensor) -> None:
    parts = {"inputs": x.mean, "input variances": x.var} if isinstance(x, Moments) else {"inputs": x}
    for name, values in {**parts, "targets": y}.items():
        bad = ~torch.isfinite(values)
        if bool(bad.any()):
            row = int(bad.reshape(len(bad), -1).any(1).nonzero()[0])
            raise LbnnError(f"the {name} hold NaN or infinity (first in row {row}); clean the data before training")


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise LbnnError(f"{name} must be at least 1, got {value}")


def _check_patience(patience: int | None, validation: Validation | None) -> None:
    if patience is not None:
        _check_counts(patience=patience)
        if validation is None:
            raise LbnnError("patience needs a validation set; pass validation=(x, y)")


# --- Validation and the best model ----------------------------------------------------------------------------


def _validator(validation: Validation | None, loss: Loss, device: torch.device) -> Callable[[nn.Module], float] | None:
    """The function that scores a model, or None."""
    if validation is None:
        return None
    if isinstance(validation, DataLoader):
        loader = validation
        return lambda model: evaluate(model, (as_pair(b, "a validation batch") for b in loader), loss, device)
    if callable(validation):
        score = validation
        return lambda model: float(score(model))
    x, y = as_pair(validation, "validation")
    _check_finite(x, y)
    cuts = torch.split(torch.arange(len(y), device=y.device), VALIDATION_ROWS)
    parts = [(take(x, rows), y[rows]) for rows in cuts]
    return lambda model: evaluate(model, parts, loss, device)


def evaluate(model: nn.Module, batches: Iterable[Batch], loss: Loss, device: torch.device) -> float:
    """The mean NLL of a model over all values of some batches."""
    total, count = 0.0, 0
    for x, y in batches:
        values = loss(model(to_device(x, device)), y.to(device))
        total += float(values.detach().cpu().double().sum())  # not every device has float64
        count += values.numel()
    return total / count


class _Best:
    """The lowest validation NLL so far and the weights that gave it."""

    def __init__(self, model: nn.Module, patience: int | None) -> None:
        self.model = model
        self.patience = patience
        self.value: float | None = None
        self.epoch = 0
        self.waited = 0
        self.state: dict[str, Any] | None = None

    def see(self, record: Epoch) -> None:
        if record.validation is None:
            return
        self.waited += 1
        if self.value is None or record.validation < self.value:
            self.value, self.epoch, self.waited = record.validation, record.epoch, 0
            self.state = copy.deepcopy(self.model.state_dict())

    @property
    def exhausted(self) -> bool:
        return self.patience is not None and self.waited >= self.patience

    def restore(self) -> None:
        if self.state is not None:
            self.model.load_state_dict(self.state)


# --- Optimizer, random numbers, processes ---------------------------------------------------------------------


def parameter_groups(model: nn.Module, weight_decay: float, decay_rho: bool = False) -> list[dict[str, Any]]:
    """The trainable parameters in two groups: those that decay, and rho, which does not unless asked."""
    rhos = set() if decay_rho else {id(rho) for _, _, rho in named_gaussians(model)}
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if id(p) not in rhos], "weight_decay": weight_decay},
        {"params": [p for p in trained if id(p) in rhos], "weight_decay": 0.0},
    ]
    return [g for g in groups if g["params"]]


def _optimizer(
    model: nn.Module, optimizer: OptimizerLike | None, lr: float, weight_decay: float, decay_rho: bool
) -> torch.optim.Optimizer:
    if isinstance(optimizer, torch.optim.Optimizer):
        return optimizer
    groups = parameter_groups(model, weight_decay, decay_rho)
    return torch.optim.AdamW(groups, lr=lr) if optimizer is None else optimizer(groups)


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside DistributedDataParallel and torch.compile."""
    while True:
        if isinstance(model, DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


def _device(model: nn.Module) -> torch.device:
    for parameter in itertools.chain(model.parameters(), model.buffers()):
        return parameter.device
    raise LbnnError("the model has no parameters to train")


@dataclass(frozen=True)
class _Generators:
    data: torch.Generator  # on the CPU, so that the order of the data does not depend on the device
    kl: torch.Generator


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[_Generators]:
    """Seeded generators, and a seeded global state for DataLoaders and dropout that is put back at the end."""
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seed)
        yield _Generators(
            data=torch.Generator().manual_seed(seed),
            kl=torch.Generator(device=device).manual_seed(seed + 1),
        )


@dataclass(frozen=True)
class _Processes:
    """This process among those that train together; alone unless the model is in DistributedDataParallel."""

    rank: int = 0
    world: int = 1
    group: dist.ProcessGroup | None = None

    def part(self, rows: Tensor) -> Tensor:
        """Every world-th row, from this process' own."""
        return rows[self.rank :: self.world]

    def mean(self, values: list[float], device: torch.device) -> list[float]:
        """The mean of each value over the processes."""
        if self.group is None:
            return values
        sums = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(sums, group=self.group)
        return [float(v) / self.world for v in sums]


def _processes(model: nn.Module) -> _Processes:
    inner = getattr(model, "_orig_mod", model)
    if not isinstance(inner, DistributedDataParallel):
        return _Processes()
    group = inner.process_group
    return _Processes(dist.get_rank(group), dist.get_world_size(group), group)


# --- Progress -------------------------------------------------------------------------------------------------


def _wants_bar(progress: bool | None) -> bool:
    return sys.stderr.isatty() if progress is None else progress


@contextmanager
def _bar(shown: bool, epochs: int) -> Iterator[Callable[[Epoch], None]]:
    """A function that shows an epoch's loss and validation NLL on a progress bar, if there is one."""
    if not shown:
        yield lambda record: None
        return
    columns = [TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")]
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=epochs)
        last = ""

        def show(record: Epoch) -> None:
            nonlocal last
            if record.validation is not None:
                last = f"  validation NLL {record.validation:.4f}"
            bar.update(task, completed=record.epoch, description=f"loss {record.loss:.4f}{last}")

        yield show
