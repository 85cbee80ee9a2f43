"""Learning rates: what each schedule gives, and that a training follows it."""

import math

import pytest
import torch

from lbnn.base.errors import LbnnError
from lbnn.train.rates import RATES, ConstantRate, CosineRate, PlateauRate, WarmupRate, as_rate, named_rate
from trainings import fit, line, network


def test_a_cosine_falls_from_one_to_zero():
    factors = [CosineRate()(step, 100) for step in (0, 25, 50, 75, 100)]
    assert factors == pytest.approx([1.0, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125), 0.0])


def test_a_warm_up_rises_and_never_starts_at_zero():
    for rate in (WarmupRate(0.1), CosineRate(0.1)):
        factors = [rate(step, 100) for step in range(12)]
        assert factors == sorted(factors)[: len(factors)] or factors[10] == 1.0
        assert 0.0 < factors[0] < 0.2 and max(factors) == pytest.approx(1.0)
    assert CosineRate(0.1)(99, 100) < 1e-3


@pytest.mark.parametrize(
    ("validations", "factors"),
    [
        ((3.0, 2.0, 2.0, 2.5, 1.0, 1.0, 1.0), [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25]),
        # Better than the last is not better than the best.
        ((1.0, 3.0, 2.0, 2.5, 1.5, 0.5, 0.6), [1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25]),
    ],
)
def test_a_plateau_waits_for_validations_in_vain_and_then_anew(validations, factors):
    rate, seen = PlateauRate(factor=0.5, patience=2), []
    for value in validations:
        rate.see(value)
        seen.append(rate(0, 1))
    assert seen == factors


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("cosine", [1.0, 0.75, 0.25]),
        ("constant", [1.0] * 3),
        (None, [1.0] * 3),  # that of the optimizer
        (lambda step, total: step / total, [0.0, 1 / 3, 2 / 3]),
    ],
)
def test_the_optimizer_gets_the_rate_of_each_step(schedule, rates):
    optimizer, seen = [], []

    def make(groups):
        optimizer.append(torch.optim.SGD(groups, lr=0.1))
        return optimizer[0]

    watch = lambda epoch: seen.append([group["lr"] for group in optimizer[0].param_groups])
    fit(network(), line(), epochs=3, optimizer=make, on_epoch=watch, lr_schedule=schedule)
    assert seen == [pytest.approx([0.1 * rate] * 2) for rate in rates]


def test_a_plateau_lowers_the_rate_of_a_training():
    scores = iter([1.0, 2.0, 3.0, 4.0])
    rate = PlateauRate(factor=0.1, patience=1)
    fit(network(), line(), epochs=4, validation=lambda model: next(scores), lr_schedule=rate)
    assert rate.now == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: named_rate("linear"), "unknown lr_schedule 'linear'; known: constant, cosine"),
        (lambda: named_rate(ConstantRate), "is not an lr_schedule"),
        (lambda: named_rate(0.1), "is not an lr_schedule"),
        (lambda: CosineRate(1.0), "0 <= warmup < 1"),
        (lambda: WarmupRate(0.0), "0 < fraction <= 1"),
        (lambda: PlateauRate(1.0), "0 < factor < 1"),
        (lambda: fit(network(), line(), epochs=1, lr_schedule="plateau"), "needs a validation set"),
    ],
)
def test_nonsense_gets_a_clear_error(wrong, message):
    with pytest.raises(LbnnError, match=message):
        wrong()


def test_every_schedule_has_a_name():
    rates = [ConstantRate(), CosineRate(), WarmupRate(), CosineRate(warmup=0.05), PlateauRate()]
    assert [named_rate(name) for name in RATES] == rates
    assert as_rate(None, None, None) == CosineRate()
