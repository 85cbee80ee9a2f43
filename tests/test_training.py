"""fit: what it optimises, on which data, what it keeps, and what it refuses."""

import copy
import itertools
import math
from functools import partial

import pytest
import torch
from scipy import optimize
from torch.utils.data import DataLoader, TensorDataset

from lbnn import nn as bnn
from lbnn.errors import LbnnError
from lbnn.losses import gaussian_nll
from lbnn.moments import Moments
from lbnn.priors import Gaussian
from lbnn.training import fit, parameter_groups

fit = partial(fit, progress=False)


def network(seed: int = 0, hidden: int = 3, dtype: torch.dtype = torch.float32) -> bnn.Sequential:
    torch.manual_seed(seed)
    return bnn.Sequential(bnn.Linear(1, hidden), bnn.LeakyReLU(0.1), bnn.Linear(hidden, 1)).to(dtype)


def line(n: int = 24, noise: float = 0.1, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 1, generator=generator) * 2 - 1
    return x, 2 * x + noise * torch.randn(n, 1, generator=generator)


def draw(generator: torch.Generator, n: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(n, 1, generator=generator)
    return x, x + torch.randn(n, 1, generator=generator)


def loader(batch_size: int = 8) -> DataLoader:
    return DataLoader(TensorDataset(*line()), batch_size, shuffle=True)


SOURCES = {
    "pair": lambda: (line(), {"batch_size": 8}),
    "loader": lambda: (loader(), {}),
    "sampler": lambda: (draw, {"steps_per_epoch": 3}),
}


def weights(model: torch.nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


# --- What is optimised ----------------------------------------------------------------------------------------


def test_it_reaches_the_minimum_of_nll_plus_weighted_kl():
    """At x = 0 a Linear is its bias: two numbers whose optimum scipy finds from the formula of the ELBO."""
    torch.manual_seed(0)
    y = 0.7 + 0.4 * torch.randn(20, 1, dtype=torch.float64)
    model = bnn.Linear(1, 1).double()
    fit(model, (torch.zeros_like(y), y), epochs=600, lr=0.03, weight_decay=0.0, prior=Gaussian(0.5))

    def elbo(p):
        mean, sigma = p[0], math.exp(p[1])
        nll = 0.5 * (math.log(2 * math.pi * sigma**2) + ((y - mean) ** 2).mean().item() / sigma**2)
        kl = (sigma**2 + mean**2) / (2 * 0.25) - 0.5 + math.log(0.5 / sigma)
        return nll + kl / len(y)

    best = optimize.minimize(elbo, [0.0, 0.0], tol=1e-10)
    assert model.bias_mu.item() == pytest.approx(best.x[0], abs=1e-4)
    assert model.bias_var.sqrt().item() == pytest.approx(math.exp(best.x[1]), abs=1e-4)
    assert model.weight_mu.item() == pytest.approx(0.0, abs=1e-3)  # unused: the prior's own moments
    assert model.weight_var.sqrt().item() == pytest.approx(0.5, abs=1e-3)


def test_a_network_with_a_learned_variance_learns_function_and_noise():
    torch.manual_seed(0)
    model = bnn.Sequential(bnn.Linear(1, 8), bnn.LeakyReLU(), bnn.Linear(8, 2), bnn.VarianceHead())
    result = fit(model, line(2000), epochs=20, batch_size=100, lr=0.03, validation=line(4000, seed=2))
    ideal = math.log(0.1) + (math.log(2 * math.pi) + 1) / 2
    assert ideal - 0.05 < result.best_validation < ideal + 0.1


def test_the_loss_of_an_epoch_is_nll_plus_weight_times_kl():
    result = fit(network(), line(), epochs=3, kl_weight=0.25)
    for e in result.epochs:
        assert e.kl_weight == 0.25
        assert e.loss == pytest.approx(e.nll + 0.25 * e.kl, rel=1e-6)


def test_the_loss_of_an_epoch_is_a_mean_over_rows_not_over_batches():
    """24 rows in batches of 20 and 4: without learning the epoch's NLL is that of all rows."""
    model = network()
    result = fit(model, line(24), epochs=1, batch_size=20, lr=0.0)
    assert result.nll[0] == pytest.approx(gaussian_nll(model(line(24)[0]), line(24)[1]).item(), rel=1e-5)


@pytest.mark.parametrize(
    "data, options, weight",
    [
        (line(24), {"batch_size": 10}, 1 / 24),
        (tuple(t.repeat(1, 2) for t in line(24)), {"batch_size": 10}, 1 / 48),  # two outputs: 48 values
        (loader(10), {}, 1 / 24),
        (DataLoader(TensorDataset(*line(24)), 10, drop_last=True), {}, 1 / 20),
        (draw, {"steps_per_epoch": 3}, 1 / (8 * 3 * 2)),  # everything drawn in two epochs
    ],
)
def test_elbo_weighs_the_kl_by_one_over_the_observed_values(data, options, weight):
    model = network() if not isinstance(data, tuple) or data[1].shape[1] == 1 else bnn.Linear(2, 2)
    assert fit(model, data, epochs=2, **options).epochs[0].kl_weight == pytest.approx(weight)


def test_the_papers_decay_halves_the_weight_at_each_step():
    result = fit(network(), draw, epochs=4, kl_weight="paper")
    assert [8 * e.kl_weight for e in result.epochs] == pytest.approx([8 / 15, 4 / 15, 2 / 15, 1 / 15])  # 8 values


def test_blundells_weights_restart_in_each_epoch():
    seen = []
    fit(network(), line(24), epochs=2, batch_size=8, kl_weight=lambda step, total: seen.append((step, total)) or 0.0)
    assert seen == [(step, 6) for step in range(6)]
    result = fit(network(), line(24), epochs=2, batch_size=8, kl_weight="blundell")
    assert [e.kl_weight for e in result.epochs] == pytest.approx([1 / 24, 1 / 24])  # a mean of 1/3 per batch of 8


# --- Which data -----------------------------------------------------------------------------------------------


def spy(seen: list[torch.Tensor]):
    def loss(moments, y):
        seen.append(y)
        return gaussian_nll(moments, y, "none")

    return loss


def test_a_pair_is_shuffled_and_every_row_comes_once_in_each_epoch():
    seen: list[torch.Tensor] = []
    x, y = line(24)
    fit(network(), (x, y), epochs=2, batch_size=10, loss=spy(seen))
    assert [len(part) for part in seen] == [10, 10, 4, 10, 10, 4]
    first, second = torch.cat(seen[:3]), torch.cat(seen[3:])
    assert not torch.equal(first, second) and not torch.equal(first, y)
    assert torch.equal(first.sort(0)[0], y.sort(0)[0]) and torch.equal(second.sort(0)[0], y.sort(0)[0])


def test_a_loader_trains_as_the_pair_it_holds():
    x, y = line()
    loader = DataLoader(TensorDataset(x, y), batch_size=len(y))
    one = fit(network(), loader, epochs=5, prior="gaussian")
    assert one.loss == pytest.approx(fit(network(), (x, y), epochs=5, prior="gaussian").loss, rel=1e-5)


def test_a_sampler_draws_a_fresh_batch_for_each_step():
    seen: list[torch.Tensor] = []
    fit(network(), draw, epochs=3, steps_per_epoch=2, loss=spy(seen))
    assert len(seen) == 6
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(seen, 2))


def test_inputs_may_be_uncertain():
    """Variance zero trains as known inputs do; without learning the NLL is that of the model on the Moments."""
    x, y = line()
    uncertain = Moments(x, torch.rand_like(x))
    known, zero = (
        fit(network(), (inputs, y), epochs=5, batch_size=8).loss for inputs in (x, Moments(x, torch.zeros_like(x)))
    )
    assert known == pytest.approx(zero, rel=1e-4)
    still = fit(network(), (uncertain, y), epochs=1, batch_size=8, lr=0.0)
    assert still.nll[0] == pytest.approx(gaussian_nll(network()(uncertain), y).item(), rel=1e-5)


@pytest.mark.parametrize("source", SOURCES)
def test_the_same_seed_gives_the_same_history_and_weights(source):
    runs = []
    for seed, noise in ((3, 0), (3, 1), (4, 2)):
        data, options = SOURCES[source]()
        model = network()
        torch.manual_seed(noise)  # the caller's random state must not matter
        runs.append((fit(model, data, epochs=3, seed=seed, **options), weights(model)))
    assert runs[0][0] == runs[1][0] and same(runs[0][1], runs[1][1])
    assert runs[0][0].loss != runs[2][0].loss


@pytest.mark.parametrize("source", SOURCES)
def test_the_callers_random_state_is_left_alone(source):
    data, options = SOURCES[source]()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    model = copy.deepcopy(MODEL)
    fit(model, data, epochs=1, **options)
    assert torch.equal(torch.get_rng_state(), before)


MODEL = network()


# --- The optimizer --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decay_rho, decays", [(False, {"mu"}), (True, {"mu", "rho"})])
def test_rho_does_not_decay_unless_asked(decay_rho, decays):
    model = network()
    names = {id(p): name.rsplit("_", 1)[1] for name, p in model.named_parameters()}
    groups = parameter_groups(model, 0.01, decay_rho)
    assert {names[id(p)] for g in groups if g["weight_decay"] == 0.01 for p in g["params"]} == decays
    assert sum(len(g["params"]) for g in groups) == len(names)


def test_decay_pulls_sigma_up_only_where_rho_decays():
    """With no gradient but decay, rho shrinks to 0 and sigma grows towards log 2 = 0.69."""
    sigmas = []
    for decay_rho in (False, True):
        model = bnn.Linear(1, 1, sigma=0.1)
        silent = lambda moments, y: 0.0 * moments.mean
        options = dict(weight_decay=1.0, decay_rho=decay_rho, kl_weight=0.0)
        fit(model, line(), epochs=50, lr=0.1, loss=silent, **options)
        sigmas.append(model.weight_var.sqrt().item())
    assert sigmas == pytest.approx([0.1, 0.69], abs=0.02)


def test_adamw_is_the_default_with_its_usual_settings():
    made = []
    model, twin = network(), network()
    default = fit(model, line(), epochs=3)
    given = fit(twin, line(), epochs=3, optimizer=lambda g: made.append(torch.optim.AdamW(g, lr=0.01)) or made[0])
    assert default == given and same(weights(model), weights(twin))


def test_an_optimizer_and_its_scheduler_can_be_given():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    fit(model, line(), epochs=3, optimizer=optimizer, on_epoch=lambda epoch: scheduler.step())
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 / 8)


def test_clip_norm_bounds_the_step():
    model = network()
    before = torch.cat([p.flatten() for p in weights(model)])
    fit(model, line(), epochs=1, optimizer=lambda g: torch.optim.SGD(g, lr=1.0), weight_decay=0.0, clip_norm=1e-3)
    moved = (torch.cat([p.flatten() for p in weights(model)]) - before).norm().item()
    assert moved == pytest.approx(1e-3, rel=1e-3)


# --- Validation and stopping ----------------------------------------------------------------------------------


def scripted(values):
    """A validation that returns given numbers."""
    numbers = iter(values)
    return lambda model: next(numbers)


def test_the_weights_of_the_best_epoch_are_put_back():
    model, seen = network(), []
    result = fit(
        model,
        line(),
        epochs=4,
        validation=scripted([3.0, 1.0, 2.0, 1.5]),
        on_epoch=lambda epoch: seen.append(weights(model)),
    )
    assert (result.best_epoch, result.best_validation) == (2, 1.0)
    assert result.validation == [(1, 3.0), (2, 1.0), (3, 2.0), (4, 1.5)]
    assert same(weights(model), seen[1]) and not same(seen[1], seen[3])
    assert not model.training


def test_without_validation_the_last_weights_stay():
    model, seen = network(), []
    result = fit(model, line(), epochs=3, on_epoch=lambda epoch: seen.append(weights(model)))
    assert (result.best_epoch, result.best_validation, result.validation) == (3, None, [])
    assert same(weights(model), seen[2])


def test_patience_stops_after_so_many_validations_without_improvement():
    result = fit(network(), line(), epochs=10, patience=2, validation=scripted([3.0, 1.0, 2.0, 0.5, 0.6, 0.5]))
    assert (len(result.loss), result.best_epoch, result.stopped_early) == (6, 4, True)


def test_the_callback_stops_the_training():
    result = fit(network(), line(), epochs=10, on_epoch=lambda epoch: epoch.epoch == 3)
    assert len(result.loss) == 3 and result.stopped_early


def test_validate_every_skips_epochs_but_never_the_last():
    result = fit(network(), line(), epochs=7, validate_every=3, validation=line(8))
    assert [epoch for epoch, _ in result.validation] == [3, 6, 7]


@pytest.mark.parametrize("form", ["pair", "loader"])
def test_validation_is_the_mean_nll_of_the_model(form):
    x, y = line(20_000, seed=5)
    validation = (x, y) if form == "pair" else DataLoader(TensorDataset(x, y), 3000)
    model = network()
    result = fit(model, line(), epochs=1, validation=validation)
    assert result.best_validation == pytest.approx(gaussian_nll(model(x), y).item(), rel=1e-5)


def test_the_model_trains_in_training_mode_and_is_validated_in_evaluation_mode():
    model, modes = network(), []
    loss = lambda moments, y: modes.append(model.training) or gaussian_nll(moments, y, "none")
    fit(model, line(), epochs=2, loss=loss, validation=line(4))
    assert modes == [True, False, True, False]


# --- Progress and wrappers ------------------------------------------------------------------------------------


def test_the_progress_bar_shows_loss_and_validation_on_stderr_only_if_wanted(capsys):
    result = fit(network(), line(), epochs=2, validation=line(8), progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "2/2" in err
    assert f"loss {result.loss[-1]:.4f}" in err and f"{result.validation[-1][1]:.4f}" in err
    fit(network(), line(), epochs=2, progress=None)
    assert capsys.readouterr() == ("", "")


def test_a_compiled_model_trains_as_the_plain_one():
    model, twin = network(), network()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert fit(compiled, line(), epochs=3).loss == pytest.approx(fit(twin, line(), epochs=3).loss, rel=1e-5)
    for a, b in zip(weights(model), weights(twin), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


# --- Nonsense -------------------------------------------------------------------------------------------------


class Zero(torch.nn.Module):
    """A model whose output variance is whatever it is told."""

    def __init__(self, var: float) -> None:
        super().__init__()
        self.layer, self.var = bnn.Linear(1, 1), var

    def forward(self, x):
        out = self.layer(x)
        return Moments(out.mean, 0.0 * out.var + self.var)


X, Y = line()
NAN = torch.full_like(X, math.nan)


@pytest.mark.parametrize(
    "model, data, options, message",
    [
        (network(), (NAN, Y), {}, r"inputs hold NaN or infinity \(first in row 0\)"),
        (network(), (X, torch.cat([Y[:5], NAN[:1], Y[6:]])), {}, r"targets hold NaN or infinity \(first in row 5\)"),
        (network(), DataLoader(TensorDataset(X, NAN), 4), {}, "targets hold NaN"),
        (network(), lambda generator: (NAN, Y), {}, "inputs hold NaN"),
        (network(), (Moments(X, NAN), Y), {}, "input variances hold NaN"),
        (network(), (X, Y), {"validation": (X, NAN)}, "targets hold NaN"),
        (network(), (X, Y), {"validation": lambda model: math.nan}, "validation NLL is NaN"),
        (network(), (X, Y[:-1]), {}, "same number of rows"),
        (network(), (X[:0], Y[:0]), {}, "at least one"),
        (network(), (X, Y[:, 0]), {}, "reshape the target to match"),
        (network(), X, {}, "data must be a pair"),
        (network(), (X.numpy(), Y.numpy()), {}, "use torch.as_tensor"),
        (network(), lambda generator: X, {}, "the result of the sampler must be a pair"),
        (network(), lambda generator: (X, Y), {"batch_size": 4}, "the sampler decides"),
        (network(), DataLoader(TensorDataset(X, Y)), {"batch_size": 4}, "the DataLoader decides"),
        (network(), (X, Y), {"batch_size": 0}, "batch_size must be at least 1"),
        (network(), (X, Y), {"epochs": 0}, "epochs must be at least 1"),
        (network(), (X, Y), {"patience": 3}, "patience needs a validation set"),
        (network(), (X, Y), {"prior": "horseshoe"}, "unknown prior 'horseshoe'; known: spike_slab, gaussian"),
        (network(), (X, Y), {"kl_weight": "cosine"}, "unknown KL weight 'cosine'"),
        (network(), (X, Y), {"kl_weight": -1.0}, "finite and not negative"),
        (network(), (X, Y), {"loss": gaussian_nll}, "unreduced"),
        (network(), (X, Y), {"lr": 1e30, "epochs": 9}, "the loss is .* in epoch .*lower the learning rate"),
        (Zero(-1.0), (X, Y), {}, "predicted variance is negative"),
        (Zero(0.0), (X, Y), {}, "predicted variance is zero"),
        (torch.nn.Linear(1, 1), (X, Y), {}, "must return Moments, not Tensor"),
        (torch.nn.ReLU(), (X, Y), {}, "no parameters to train"),
    ],
)
def test_nonsense_gets_a_clear_error(model, data, options, message):
    with pytest.raises(LbnnError, match=message):
        fit(model, data, **{"epochs": 1, **options})
