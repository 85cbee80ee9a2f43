"""ELBO training of any module that returns Moments: batches in, the best model and its history out.

Validation compares epochs on the same points; the weights of the best epoch are put back at the end, also where Ctrl-C
is that end. Then `interrupted` of the result is True, and a loop over trainings has to look at it. In the first epoch
there is nothing to keep yet, and Ctrl-C is a KeyboardInterrupt as elsewhere. Where many processes train together, the
end of one is to the others what Ctrl-C is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from torch import nn

from lbnn.nn.heads import logits_only
from lbnn.nn.wrapped import unwrap
from lbnn.train.batches import Data, as_source, check_counts
from lbnn.train.compiled import compiled_step
from lbnn.train.descent import Descent, Elbo, default_loss
from lbnn.train.flat import flattened
from lbnn.train.optimizer import OptimizerLike, as_optimizer
from lbnn.train.priors import Prior, Schedule, as_prior
from lbnn.train.processes import PeerLost, device_of, in_step, seeded
from lbnn.train.progress import epoch_bar
from lbnn.train.rates import RateSchedule, as_rate
from lbnn.train.result import Epoch, FitResult
from lbnn.train.validation import Best, Loss, Score, Validation, as_score, check_patience

OnEpoch = Callable[[Epoch], bool | None]


def fit(
    model: nn.Module, data: Data, *, epochs: int, batch_size: int | None = None, steps_per_epoch: int = 1,
    lr: float = 0.01, lr_schedule: str | RateSchedule | None = None, weight_decay: float = 0.01,
    decay_rho: bool = False, optimizer: OptimizerLike | None = None, clip_norm: float | None = None,
    prior: str | Prior = "gaussian", kl_weight: str | float | Schedule = "warmup", kl_samples: int = 1,
    loss: Loss | None = None, validation: Validation | None = None, validate_every: int = 1,
    patience: int | None = None, seed: int = 0, compile: bool = False,
    progress: bool | None = None, on_epoch: OnEpoch | None = None,
) -> FitResult:  # fmt: skip
    """Trains `model` in place by the ELBO and returns its history; docs/training.md has more on the settings.

    data: a pair (x, y) cut into shuffled batches of `batch_size` (all rows at once if None), a DataLoader of pairs,
        or f(generator) -> (x, y), called `steps_per_epoch` times an epoch. x is a tensor, or Moments if uncertain.
    lr_schedule: a name or a schedule of lbnn.train.rates; None is "cosine", or that of the optimizer that was given.
    optimizer: None for AdamW(lr, weight_decay), which leaves rho alone unless decay_rho: decay pulls rho to 0, that
        is sigma UP to 0.69. Or an optimizer, or a function of the parameter groups that makes one.
    kl_weight: "warmup" (0 to 1/N over the first half, N the observed values), "elbo" (1/N), "paper", "blundell", a
        number, or a schedule of lbnn.train.priors.
    loss: None for the Gaussian NLL, or that of the model's head by the delta rule; or f(moments, y) -> NLL, unreduced.
    validation: a pair, a DataLoader, or a function of the model that returns its NLL. The weights of the epoch with the
        lowest value are restored; without it the last ones stay. `patience` stops after so many in vain.
    seed: same seed, same data, same history; the global random state is left as it was.
    compile: the whole step by one torch.compile, for batches of the first one's size.
    progress: a bar with loss and validation NLL; None shows it on a terminal only.
    on_epoch: called after each epoch; returns True to stop. Ctrl-C stops too.
    """
    check_counts(epochs=epochs, steps_per_epoch=steps_per_epoch, kl_samples=kl_samples, validate_every=validate_every)
    check_patience(patience, validation)
    start, best, rate = time.perf_counter(), Best(unwrap(model), patience), as_rate(lr_schedule, optimizer, validation)
    with seeded(seed, device_of(best.model)) as generators, flattened(model) as flat, in_step(model) as processes:
        source = as_source(data, batch_size, steps_per_epoch, generators.data, processes)
        elbo = Elbo(loss or default_loss(best.model), as_prior(prior), kl_weight, kl_samples, generators.kl)
        chosen = as_optimizer(optimizer, best.model, flat, lr, weight_decay, decay_rho)
        step = compiled_step(best.model, flat, chosen, elbo.loss, elbo.prior, clip_norm) if compile else None
        descent = Descent(model, source, elbo, chosen, clip_norm, epochs, flat, step, rate)
        history, stopped = _watched(descent, validation, validate_every, best, progress, on_epoch)
    best.restore()
    model.eval()
    held, seconds = best.epoch or history[-1].epoch, time.perf_counter() - start
    return FitResult(tuple(history), held, best.value, len(history) < epochs, seconds, stopped)


def _watched(
    descent: Descent, validation: Validation | None, validate_every: int, best: Best, progress: bool | None,
    on_epoch: OnEpoch | None,
) -> tuple[list[Epoch], bool]:  # fmt: skip
    """The epochs under a bar, and whether Ctrl-C ended them."""
    score = as_score(validation, descent.elbo.loss, descent.device)
    with epoch_bar(progress, descent.processes.rank, descent.epochs) as show, logits_only(best.model):
        return _until_interrupted(_epochs(descent, score, validate_every), best, show, on_epoch)


def _epochs(descent: Descent, score: Score | None, validate_every: int) -> Iterator[Epoch]:
    """All epochs; every so many, and the last one, are validated."""
    for number in range(1, descent.epochs + 1):
        due = number % validate_every == 0 or number == descent.epochs
        yield descent.epoch(number, score if due else None)


def _until_interrupted(
    records: Iterator[Epoch], best: Best, show: Callable[[Epoch], None], on_epoch: OnEpoch | None
) -> tuple[list[Epoch], bool]:
    """The epochs that ended before Ctrl-C, and whether it came; in the first epoch there is nothing to keep."""
    history: list[Epoch] = []
    try:
        _watch(records, history, best, show, on_epoch)
    except (KeyboardInterrupt, PeerLost):
        if not history:
            raise
        return history, True
    return history, False


def _watch(
    records: Iterator[Epoch], history: list[Epoch], best: Best, show: Callable[[Epoch], None], on_epoch: OnEpoch | None
) -> None:
    """Adds the epochs to `history`, up to the one after which the user or patience says stop."""
    for record in records:
        history.append(record)
        best.see(record)
        show(record)
        if (on_epoch is not None and on_epoch(record)) or best.exhausted:
            return
