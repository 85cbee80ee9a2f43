"""make uci: every method through the protocol, scores against direct computation, rivals that get a fair hearing."""

import json

import mpmath
import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats

import uci
import uci_calibration
import uci_methods
import uci_units
from lbnn.base.moments import Moments
from lbnn.train import metrics, recipe
from places import ROOT
from uci_methods import COMPARED, OURS, PLAIN
from uci_nets import LEAST_VARIANCE, Adam, Setting, Stack, train
from uci_page import BLOCK, differences, in_units, reading, with_error
from uci_scores import LEVELS, Prediction, crps, log_density, score

RIVALS = [name for name in COMPARED if not name.startswith(OURS)]


@pytest.fixture
def quick(monkeypatch):
    """Few steps, trees and samples."""
    monkeypatch.setattr(recipe, "FEWEST_STEPS", 40)
    monkeypatch.setattr(recipe, "MOST_STEPS", 40)
    monkeypatch.setattr(uci_methods, "TREES", 20)
    monkeypatch.setattr(uci_methods, "SAMPLES", 20)


def write_set(folder, rows=40, splits=2, seed=0):
    """Two inputs and a target in the usual layout, the target in front."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(rows, 2))
    y = x[:, 0] + np.abs(x[:, 1]) + 0.1 * draw.normal(size=rows)
    folder.mkdir(parents=True)
    np.savetxt(folder / "data.txt", np.column_stack([y, x]))
    np.savetxt(folder / "index_features.txt", [1, 2], fmt="%d")
    np.savetxt(folder / "index_target.txt", [0], fmt="%d")
    for split in range(splits):
        order = draw.permutation(rows)
        np.savetxt(folder / f"index_train_{split}.txt", order[rows // 10 :])
        np.savetxt(folder / f"index_test_{split}.txt", order[: rows // 10])
    return folder


def run(root, out, *words, jobs=1):
    return uci.main([str(root), "--out", str(out), "--jobs", str(jobs), *words])


# ---- the command ------------------------------------------------------------------------------------------------


def test_every_method_gets_a_row_of_finite_scores(quick, tmp_path, capsys):
    write_set(tmp_path / "sets" / "wave")
    assert run(tmp_path / "sets", tmp_path / "out") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    rows = {cells[0]: cells[1:] for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)}
    assert list(rows) == ["method", *COMPARED]
    for method in COMPARED:
        assert rows[method][0] == "2"
        assert not any("nan" in cell or "inf" in cell for cell in rows[method])


def test_a_second_run_trains_only_what_is_missing(quick, tmp_path, capsys, monkeypatch):
    folder = write_set(tmp_path / "sets" / "wave" / "data")
    words = (tmp_path / "sets", tmp_path / "out", "--methods", f"{OURS};{PLAIN}")
    assert run(*words) == 0
    first, trained = capsys.readouterr().out, []
    monkeypatch.setattr(uci, "run", lambda job, whole=uci.run: (trained.append(str(job)), whole(job)))
    assert run(*words) == 0
    assert (capsys.readouterr().out, trained) == (first, [])
    next((tmp_path / "out").rglob(f"{PLAIN}-01-*.json")).unlink()
    assert run(*words) == 0
    assert trained == [f"{PLAIN} on wave, split 1"]
    (folder / "index_test_0.txt").write_text("0\n1\n2\n")
    assert run(*words) == 0
    assert trained[1:] == [f"{OURS} on wave, split 0", f"{PLAIN} on wave, split 0"]


def test_several_at_once_give_the_scores_of_one_after_the_other(tmp_path):
    write_set(tmp_path / "sets" / "wave")
    scores = []
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        assert run(tmp_path / "sets", out, "--methods", "Gaussian process", jobs=jobs) == 0
        kept = [json.loads(file.read_text()) for file in sorted(out.rglob("*.json"))]
        scores.append([(one["log_likelihood"], one["rmse"], one["coverage"]) for one in kept])
    assert len(scores[0]) == 2
    assert scores[0] == scores[1]


def test_choices_are_scored_on_training_rows_alone(quick, tmp_path):
    folder = write_set(tmp_path / "sets" / "wave", rows=60)
    shared = (folder / "index_train_0.txt").read_text().splitlines()
    words = (tmp_path / "sets", tmp_path / "out", "--choices", "--methods", OURS, "--splits", "1")
    assert run(*words) == 0
    before = json.loads(next((tmp_path / "out").rglob("*.json")).read_text())
    (folder / "index_test_0.txt").write_text(shared[0])  # other test rows, another name, the same scores
    next((tmp_path / "out").rglob("*.json")).unlink()
    assert run(*words) == 0
    after = json.loads(next((tmp_path / "out").rglob("*.json")).read_text())
    assert after["rows"] == 49  # 54, less a tenth
    assert all(after[key] == before[key] for key in ("log_likelihood", "rmse", "crps", "coverage"))


@pytest.mark.parametrize(
    ("break_it", "words", "message"),
    [
        (lambda root: None, ["--sets", "waves"], "holds no set waves"),
        (lambda root: None, ["--methods", "magic"], "there is no method 'magic'"),
        (lambda root: (root / "wave" / "data.txt").unlink(), [], "holds no set, that is a folder with data.txt"),
        (lambda root: (root / "wave" / "index_test_1.txt").unlink(), [], "not a whole set: index_test_1.txt"),
        (
            lambda root: (root / "wave" / "index_train_0.txt").write_text("0\n40\n"),
            [],
            "rows of data.txt, which has 40",
        ),
        (lambda root: (root / "wave" / "index_test_0.txt").write_text("-1\n"), [], "rows of data.txt"),
        (
            lambda root: (root / "wave" / "index_features.txt").write_text("1.5\n"),
            [],
            "columns of data.txt, which has 3",
        ),
        (lambda root: (root / "wave" / "index_target.txt").write_text("0\n1\n"), [], "names 2 targets"),
        (lambda root: (root / "wave" / "data.txt").write_text("1 2 nan\n" * 40), [], "not finite"),
        (lambda root: (root / "wave" / "data.txt").write_text("a,b,c\n"), [], "not a table of numbers"),
        (lambda root: (root / "data.txt").write_text("1"), [], "is a set itself; give the folder above"),
    ],
)
def test_a_wrong_folder_is_one_line_and_nothing_is_trained(break_it, words, message, tmp_path, capsys):
    write_set(tmp_path / "sets" / "wave")
    break_it(tmp_path / "sets")
    assert run(tmp_path / "sets", tmp_path / "out", *words) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("error: ") and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_there_is_one_line(tmp_path, capsys):
    assert run(tmp_path / "nowhere", tmp_path / "out") == 2
    assert "is no folder; give the one that holds the sets" in capsys.readouterr().err


# ---- the page ---------------------------------------------------------------------------------------------------


def test_the_page_gets_tables_and_a_picture_and_keeps_its_words(quick, tmp_path, capsys):
    write_set(tmp_path / "sets" / "wave")
    page = tmp_path / "page.md"
    text = "# Words\n<!-- table: make uci UCI=DIR -->\nold\n<!-- end of table -->\nmore words\n"
    page.write_text(text)
    words = (tmp_path / "sets", tmp_path / "out", "--methods", f"{OURS};{PLAIN}", "--page", str(page))
    assert run(*words) == 0
    printed = capsys.readouterr().out
    assert page.read_text() == text.replace("old\n", printed)
    assert (tmp_path / "images" / "uci.png").read_bytes()[:4] == b"\x89PNG"
    page.write_text("# Words\n")
    assert run(*words) == 2
    assert "has no place for tables" in capsys.readouterr().err


def test_differences_are_split_by_split_and_times_beside_the_plain_network():
    def result(likelihood, training, choosing, unit):
        return {"log_likelihood": likelihood, "training": training, "choosing": choosing, "unit": unit}

    methods = {
        OURS: {0: result(-1.0, 4.0, 0.0, 1.0), 1: result(-3.0, 4.0, 0.0, 1.0)},
        PLAIN: {0: result(-1.5, 1.0, 6.0, 2.0), 1: result(-3.5, 3.0, 6.0, 3.0)},
        "x": {1: result(-2.0, 5.0, 1.0, 1.0)},
    }
    assert differences(methods, PLAIN) == [-0.5, -0.5]
    assert differences(methods, "x") == [1.0]
    assert in_units(list(methods[PLAIN].values()), ("training",)) == "0.8"  # 4 s where a plain network takes 5 s
    assert in_units(list(methods[PLAIN].values()), ("training", "choosing")) == "3.2"
    assert with_error([1.0, 2.0, 3.0]) == "2.000 ± 0.577"  # 1 / sqrt(3)
    assert with_error([1.0]) == "1.000"
    assert with_error([]) == "-"


def test_the_reading_says_who_is_better_and_who_worse_and_scores_mixtures_twice():
    draw, methods = np.random.default_rng(0), {}
    base = draw.normal(size=20)
    for name, gain, gaussian in ((OURS, 0.0, 0.0), ("a", 0.5, 0.0), ("b", -0.5, 0.25), ("c", 0.0, 0.0)):
        values = base + gain + 0.1 * draw.normal(size=20) * (name != OURS)
        methods[name] = {i: {"log_likelihood": v, "gaussian": v + gaussian, "rmse": v} for i, v in enumerate(values)}
    said = reading(methods)
    assert "- log-likelihood: **better** a. **worse** b. **neither** c.\n" in said
    assert "- RMSE: **better** b. **worse** a. **neither** c.\n" in said
    mean = np.mean([one["gaussian"] for one in methods["b"].values()])
    assert said.endswith(f"as one Gaussian: b {mean:.3f}.")
    few = {name: {split: found[split] for split in range(4)} for name, found in methods.items()}
    assert reading(few) == "Fewer than 5 splits say nothing about who is better."


def test_calibration_on_public_data_counts_unseen_rows_and_covers_what_it_says(quick, tmp_path, capsys):
    """However little the networks learned in 40 steps."""
    write_set(tmp_path / "sets" / "wave", rows=600)
    assert uci_calibration.main([str(tmp_path / "sets")]) == 0
    cells = [cell.strip() for cell in capsys.readouterr().out.splitlines()[2].strip("|").split("|")]
    assert cells[:4] == ["wave", "200", "200", "20"]
    assert 0.88 < float(cells[4].split()[0]) < 0.93  # 0.9 to 0.905, 0.006 of scatter
    assert uci_calibration.main([str(tmp_path)]) == 2
    assert "holds no set" in capsys.readouterr().err


# ---- scores -----------------------------------------------------------------------------------------------------


def mixture(components, rows, seed=0):
    draw = torch.Generator().manual_seed(seed)
    mean, spread = (torch.randn(components, rows, generator=draw, dtype=torch.float64) for _ in range(2))
    return Prediction(2.0 * mean, (0.3 * spread).exp()), 3.0 * torch.randn(rows, generator=draw, dtype=torch.float64)


def test_one_gaussian_is_scored_as_lbnn_scores_it():
    prediction, target = mixture(1, 200)
    ours = metrics.summary(Moments(prediction.mean.T, prediction.var.T), target[:, None], LEVELS)
    found = score(prediction, target)
    assert found.coverage == tuple(ours.coverage.values())
    pairs = [(found.log_likelihood, -ours.nll), (found.gaussian, -ours.nll), (found.rmse, ours.rmse)]
    for one, other in [*pairs, (found.crps, ours.crps)]:
        assert one == pytest.approx(other, rel=1e-12)


def test_the_likelihood_of_a_mixture_is_that_of_its_density_far_out_too():
    prediction, target = mixture(5, 8)
    target[0] = 200.0  # where every density underflows
    for row in range(8):
        mean, var = prediction.mean[:, row].tolist(), prediction.var[:, row].tolist()
        density = sum(mpmath.npdf(float(target[row]), m, mpmath.sqrt(v)) for m, v in zip(mean, var, strict=True)) / 5
        assert float(log_density(prediction, target)[row]) == pytest.approx(float(mpmath.log(density)), rel=1e-12)


def test_crps_and_coverage_of_a_mixture_are_those_of_its_distribution():
    prediction, target = mixture(4, 12)
    values = crps(prediction, target)
    inside = np.zeros((len(LEVELS), 12))
    for row in range(12):
        mean, sigma, y = prediction.mean[:, row].numpy(), prediction.var[:, row].sqrt().numpy(), float(target[row])

        def below(t, mean=mean, sigma=sigma):
            return float(stats.norm.cdf(t, mean, sigma).mean())

        left, _ = integrate.quad(lambda t: below(t) ** 2, -40.0, y, limit=200)
        right, _ = integrate.quad(lambda t: (1.0 - below(t)) ** 2, y, 40.0, limit=200)
        assert float(values[row]) == pytest.approx(left + right, rel=1e-7)
        for i, level in enumerate(LEVELS):
            ends = (0.5 * (1.0 - level), 0.5 * (1.0 + level))
            low, high = (optimize.brentq(lambda t, p=p: below(t) - p, -40.0, 40.0) for p in ends)
            inside[i, row] = low <= y <= high
    assert 0.0 < inside.mean() < 1.0
    assert score(prediction, target).coverage == pytest.approx(tuple(inside.mean(axis=1)))


def test_the_moments_of_a_mixture_are_those_of_draws_of_it():
    prediction, _ = mixture(3, 2)
    draw = torch.Generator().manual_seed(1)
    which = torch.randint(3, (400_000,), generator=draw)
    noise = torch.randn(400_000, 2, generator=draw, dtype=torch.float64)
    draws = prediction.mean[which] + noise * prediction.var[which].sqrt()
    torch.testing.assert_close(prediction.moments().mean[0], draws.mean(dim=0), rtol=0.0, atol=0.02)
    torch.testing.assert_close(prediction.moments().var[0], draws.var(dim=0), rtol=0.01, atol=0.0)


# ---- rivals -----------------------------------------------------------------------------------------------------


def noisy(rows, seed):
    """sin(2 x) with noise of sigma 0.3."""
    draw = np.random.default_rng(seed)
    x = draw.uniform(-2.0, 2.0, size=(rows, 1))
    return x, np.sin(2.0 * x[:, 0]) + 0.3 * draw.normal(size=rows)


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_finds_the_noise_of_data_whose_noise_is_known(name, monkeypatch):
    monkeypatch.setattr(recipe, "FEWEST_STEPS", 1000)
    monkeypatch.setattr(uci_methods, "SAMPLES", 100)
    monkeypatch.setattr(uci_methods, "TREES", 200)
    (x, y), (new, target) = noisy(300, 0), noisy(2000, 1)
    method = COMPARED[name]
    found = score(method.fit(x, y, method.choose(x, y), new), torch.from_numpy(target))
    best = -0.5 * np.log(2.0 * np.pi * np.e * 0.3**2)
    assert best - 0.12 < found.log_likelihood < best + 0.05
    assert 0.86 < found.coverage[0] < 0.94
    assert 0.92 < found.coverage[1] < 0.98
    assert found.rmse < 0.34


def test_a_mean_variance_network_follows_noise_that_changes(monkeypatch):
    monkeypatch.setattr(recipe, "FEWEST_STEPS", 1000)
    draw = np.random.default_rng(0)
    x = draw.uniform(-1.0, 1.0, size=(600, 1))
    y = np.where(x[:, 0] > 0.0, 1.0, 0.1) * draw.normal(size=600)
    method = COMPARED["mean-variance network"]
    sigma = method.fit(x, y, method.choose(x, y), np.array([[-0.5], [0.5]])).var.sqrt()[0].tolist()
    assert sigma == pytest.approx([0.1, 1.0], rel=0.35)


@pytest.mark.parametrize("name", [PLAIN, "gradient boosting, constant sigma", "MC dropout"])
def test_a_constant_sigma_is_no_residual_of_the_fit(name, monkeypatch):
    """Noise alone can be learned by heart; held-out rows show it."""
    monkeypatch.setattr(recipe, "FEWEST_STEPS", 600)
    monkeypatch.setattr(uci_methods, "TREES", 100)
    monkeypatch.setattr(uci_methods, "SAMPLES", 50)
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(100, 10)), draw.normal(size=100)
    assert COMPARED[name].choose(x, y).variance > 0.6


def test_other_arguments_of_fit_begin_from_what_lbnn_train_does(quick):
    (x, y), (new, _) = noisy(50, 0), noisy(5, 1)
    rule = uci_methods.ours(x, y, None, new)
    assert torch.equal(uci_methods.with_fit(x, y, None, new).mean, rule.mean)
    assert not torch.equal(uci_methods.with_fit(x, y, None, new, averaged=0.25).mean, rule.mean)
    assert not torch.equal(uci_methods.with_fit(x, y, None, new, clip_norm=0.1).mean, rule.mean)


def test_networks_of_a_stack_do_not_touch_each_other(quick):
    (x, y), (new, _) = noisy(50, 0), noisy(5, 1)
    one, other = (train(x, y, [Setting(0.1), Setting(weight)], 2, 50).predict(new)[0][0] for weight in (0.1, 1e3))
    assert torch.equal(one[0], other[0])
    assert not torch.equal(one[1], other[1])
    assert not torch.equal(one[0], one[1])  # another start, another order of rows


@pytest.mark.parametrize(("sizes", "dropout"), [((3, 5, 1), 0.0), ((3, 5, 2), 0.0), ((3, 5, 4, 2), 0.3)])
def test_the_slopes_of_a_stack_are_those_of_autograd(sizes, dropout):
    draw = np.random.default_rng(0)
    stack = Stack(sizes, [Setting(0.5, dropout), Setting(2.0, dropout)], draw)
    x, y = draw.normal(size=(2, 7, 3)).astype(np.float32), draw.normal(size=(2, 7)).astype(np.float32)
    stack.draw = np.random.default_rng(1)
    stack.descend(x, y, 20)
    layers = [[torch.tensor(part.copy(), requires_grad=True) for part in layer] for layer in stack.layers]
    masks, out = np.random.default_rng(1), torch.from_numpy(x)
    for i, (weight, bias) in enumerate(layers):
        out = torch.nn.functional.leaky_relu(out, recipe.SLOPE) if i else out
        if dropout:
            out = out * torch.from_numpy(masks.random(out.shape, np.float32) < 1.0 - dropout) / (1.0 - dropout)
        out = out @ weight + bias
    target = torch.from_numpy(y)
    variance = torch.nn.functional.softplus(out[..., 1]) + LEAST_VARIANCE if sizes[-1] == 2 else torch.ones(2, 7)
    loss = torch.nn.functional.gaussian_nll_loss(out[..., 0], target, variance, reduction="none", eps=0.0)
    squares = sum(weight.square().sum(dim=(1, 2)) for weight, _ in layers)
    (loss.mean(dim=1) + torch.tensor([0.5, 2.0]) * squares / 2 / 20).sum().backward()
    for layer, slopes in zip(layers, stack.layer_slopes, strict=True):
        for part, slope in zip(layer, slopes, strict=True):
            torch.testing.assert_close(torch.from_numpy(slope.copy()), part.grad, rtol=2e-4, atol=2e-6)


def test_a_stack_moves_as_by_the_adam_of_torch():
    stack = Stack((2, 3, 1), [Setting(0.0)], np.random.default_rng(0))
    values = torch.nn.Parameter(torch.from_numpy(stack.flat.copy()))
    ours, theirs = Adam(stack), torch.optim.Adam([values], lr=0.01)
    for seed in range(5):
        stack.slopes[:] = np.random.default_rng(seed).normal(size=stack.flat.shape)
        values.grad = torch.from_numpy(stack.slopes.copy())
        ours.step(0.01)
        theirs.step()
    torch.testing.assert_close(torch.from_numpy(stack.flat), values.detach(), rtol=1e-4, atol=1e-6)


def test_units_are_times_of_whole_trainings(quick, monkeypatch):
    x, y = noisy(50, 0)
    monkeypatch.setattr(uci_units, "timed", lambda step, steps: (step(), steps)[1])
    assert uci_units.torch_unit(x, y) == uci_units.numpy_unit(x, y) == 40


# ---- the committed page -----------------------------------------------------------------------------------------


def test_the_committed_tables_hold_every_method():
    tables = BLOCK.search((ROOT / "docs" / "uci.md").read_text())[0]
    rows = [[cell.strip() for cell in line.split("|")] for line in tables.splitlines() if line.startswith("| ")]
    assert [row[1] for row in rows] == ["method", *COMPARED] * 4
    assert {row[2] for row in rows if row[1] == OURS} == {"20"}
