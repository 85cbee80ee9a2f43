"""The paper's experiment: its data, and with few epochs the same code that makes the committed tables and figures."""

import itertools
import json
import math
import sys

import numpy as np
import pytest
import torch
from scipy import integrate

from places import ROOT

FOLDER = ROOT / "examples" / "polynomial"
sys.path.insert(0, str(FOLDER))

import figures  # noqa: E402
import findings  # noqa: E402
import networks  # noqa: E402
import report  # noqa: E402
import results  # noqa: E402
import run  # noqa: E402
import statements  # noqa: E402
import training  # noqa: E402
from choices import CHOICES, CHOSEN, PRINTED, TOGETHER  # noqa: E402

from lbnn.cli import demo_story as demo  # noqa: E402
from lbnn.train.problem import IDEAL_NLL, draw, inside_grid, true_mean, true_std  # noqa: E402

SEEDS = (0, 1)
X = torch.linspace(-1.5, 1.5, 9, dtype=torch.float64)


@pytest.fixture(autouse=True)
def without_compiler(monkeypatch):
    """Compiling takes longer than these tests."""
    monkeypatch.setattr(training.shutil, "which", lambda tool: None)


# --- the problem -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "mean", "std"),
    [(-0.5, 0.5, 0.3), (-1 / 6, 5 / 6, 0.0), (0.0, 1.0, 0.1), (0.25, 1.25, 0.1), (1 / 3, 4 / 3, 0.2), (1.5, 2.5, 0.3)],
)
def test_the_data_are_the_papers(x, mean, std):
    """y = x + eps(x) + 1 with deviation 0.1 + 0.2 sin(2 pi x - pi/2), which is negative in the middle."""
    point = torch.tensor(x, dtype=torch.float64)
    assert float(true_mean(point)) == pytest.approx(mean, abs=1e-12)
    assert float(true_std(point)) == pytest.approx(std, abs=1e-12)
    assert float(true_std(point)) == pytest.approx(abs(0.1 + 0.2 * math.sin(2 * math.pi * x - math.pi / 2)), abs=1e-12)


def test_drawn_data_are_uniform_in_the_training_range_with_the_noise_of_their_place():
    x, y = (value.double() for value in draw(1, 100_000, torch.Generator().manual_seed(0)))
    assert -0.5 <= float(x.min()) < -0.499 and 0.499 < float(x.max()) <= 0.5
    assert float(x.var()) == pytest.approx(1 / 12, rel=0.02)
    z = (y - x - 1.0) / true_std(x)
    assert abs(float(z.mean())) < 0.02 and float(z.var()) == pytest.approx(1.0, abs=0.02)


def test_the_ideal_nll_is_the_entropy_averaged_over_the_training_range():
    def entropy(x):
        return math.log(abs(0.1 - 0.2 * math.cos(2 * math.pi * x))) + 0.5 * (math.log(2 * math.pi) + 1)

    zeros = (-0.5, -1 / 6, 1 / 6, 0.5)
    quadrature = sum(integrate.quad(entropy, a, b)[0] for a, b in itertools.pairwise(zeros))
    assert quadrature == pytest.approx(IDEAL_NLL, abs=1e-6)
    assert f"{IDEAL_NLL:.4f}" == "-0.8836"


def test_the_worth_of_knowing_the_noise_is_measured_from_the_best_constant_variance():
    x = inside_grid(4096)
    best = min(
        0.5 * float((math.log(2 * math.pi * v) + true_std(x) ** 2 / v).mean()) for v in np.linspace(0.02, 0.04, 401)
    )
    assert best == pytest.approx(findings.CONSTANT_NLL, abs=1e-6)
    assert findings.share(best) == pytest.approx(0.0, abs=1e-5) and findings.share(IDEAL_NLL) == 1.0


def test_the_demos_network_follows_the_noise_inside_and_widens_outside():
    model, result = demo.train(epochs=1500)
    x = torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0])[:, None]
    with torch.no_grad():
        mean, std = model(x).mean[:, 0], model(x).std[:, 0]
    assert IDEAL_NLL < result.best_validation < findings.CONSTANT_NLL
    assert ((mean - true_mean(x)[:, 0]).abs() < std).all(), "the true mean stays in the band"
    assert std[2] < 0.15 and (std[[1, 3]] > 0.2).all(), "narrow in the middle, wide at the edges"
    assert std[0] > 1.5 * std[1] and std[4] > 1.5 * std[3]


# --- the networks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", networks.ACTIVATIONS)
def test_copies_predict_what_ordinary_modules_predict(activation):
    copies = networks.initial(5, SEEDS).double()
    mean, var = networks.predict(networks.ACTIVATIONS[activation], copies, X[None])
    rows = [(head, seed) for head in networks.HEADS.values() for seed in SEEDS]
    for index, (head, _) in enumerate(rows):
        module = networks.unpack(copies, index, head.module(5, activation).double())
        expected = head.apply(module(X[:, None]), "softplus")
        torch.testing.assert_close(mean[index], expected.mean[:, 0])
        torch.testing.assert_close(var[index], expected.var[:, 0])


def test_parameter_counts_are_the_papers():
    counts = {name: head.parameters(128) for name, head in networks.HEADS.items()}
    assert counts == {"embedded": 770, "learned": 1028, "learned_a": 1028}
    for name, head in networks.HEADS.items():
        assert sum(p.numel() for p in head.module(128, "exact").parameters()) == counts[name]


def test_the_kl_leaves_out_the_output_that_the_embedded_network_does_not_have():
    flags = networks.used(networks.initial(128, SEEDS))
    per_copy = flags.units.sum((1, 2)) + flags.bias.sum(1)
    assert (2 * per_copy).tolist() == [770] * 2 + [1028] * 4


def test_the_expected_nll_agrees_with_samples():
    copies = networks.initial(4, SEEDS).double()
    expected = training.expected_nll(training.Job(4, "exact", SEEDS, 1), copies, inside_grid(4096)).mean(1)
    x, y = (value.double() for value in draw(1, 200_000, torch.Generator().manual_seed(0)))
    mean, var = networks.predict(networks.exact, copies, x)
    samples = 0.5 * (torch.log(2 * torch.pi * var) + (y - mean) ** 2 / var)
    error = samples.std(1) / samples.shape[1] ** 0.5
    assert ((samples.mean(1) - expected).abs() < 4 * error).all()


def test_every_network_of_a_seed_sees_the_same_data():
    small, large = training.Job(2, "exact", (0, 1, 2), 3), training.Job(1024, "clamped", (1,), 3)
    for (x, y), (x_large, y_large) in zip(training.batches(small), training.batches(large), strict=True):
        assert x.shape == (9, 64) and x_large.shape == (3, 64)
        for row in (1, 4, 7):
            assert torch.equal(x[row], x_large[0]) and torch.equal(y[row], y_large[2])


def test_jobs_cover_every_size_activation_and_seed_once():
    every = [(job.hidden, job.activation, seed) for job in run.jobs() for seed in job.seeds]
    assert len(every) == len(set(every)) == 2 * (6 * 10 + 4 * 5)
    costs = [job.cost for job in run.jobs()]
    assert costs == sorted(costs, reverse=True)


def test_every_choice_is_tried_once_at_both_sizes_with_a_file_of_its_own():
    tried = run.tries()
    assert {(label, job.hidden, job.activation) for job in tried for label in job.labels} == {
        *(
            (label, size, form)
            for label in CHOICES
            if label != CHOSEN
            for size in (4, 64)
            for form in ("exact", "clamped")
        ),
        *((CHOSEN, size, "mirrored") for size in (4, 64)),
    }
    assert len({job.name for job in tried + run.jobs()}) == len(tried) + len(run.jobs())


def test_the_printed_sign_mirrors_the_activation():
    far = torch.tensor([-40.0, 40.0], dtype=torch.float64)
    mean, var = networks.mirrored(far, torch.ones(2, dtype=torch.float64), 0.01)
    assert mean[0] == pytest.approx(-40.0, rel=0.01) and abs(mean[1]) < 1.0, "slope 1 where it should be 0.01, and back"
    assert (var > 0).all()


def test_scoring_in_chunks_changes_nothing(monkeypatch):
    job, copies = training.Job(4, "clamped", SEEDS, 1), networks.initial(4, SEEDS).double()
    whole = training.expected_nll(job, copies, X)
    monkeypatch.setattr(training, "CHUNK", 1)
    torch.testing.assert_close(training.expected_nll(job, copies, X), whole, rtol=1e-14, atol=0)


@pytest.mark.parametrize("decay_rho", [True, False])
def test_decay_reaches_rho_only_where_it_is_chosen(decay_rho):
    copies = networks.Copies(*(part.requires_grad_() for part in networks.initial(4, SEEDS)))
    before = networks.Copies(*(part.detach().clone() for part in copies))
    job = training.Job(4, "exact", SEEDS, 1, (CHOSEN if decay_rho else "ρ not decayed",))
    training.stepper(copies, job)(sum((0.0 * part).sum() for part in copies))
    for old, new in zip(before, copies, strict=True):
        torch.testing.assert_close(new[:, 0].detach(), old[:, 0] * (1 - 1e-4))
        torch.testing.assert_close(new[:, 1].detach(), old[:, 1] * (1 - 1e-4 if decay_rho else 1))


@pytest.mark.parametrize("label", ["exp in the head", "no KL", "slope 0.2", "σ 0.5 at the start"])
def test_a_choice_changes_the_training(label):
    base, other = (training.train(training.Job(4, "exact", SEEDS, 50, (name,))) for name in (CHOSEN, label))
    changed = [bool((base["inside"][h] != other["inside"][h]).all()) for h in range(3)]
    assert changed == ([False, True, True] if label == "exp in the head" else [True] * 3)


@pytest.mark.parametrize("activation", networks.ACTIVATIONS)
def test_choices_trained_together_are_those_trained_alone(activation, monkeypatch):
    monkeypatch.setattr(training, "KL_WEIGHT", lambda *_: 0.0)  # one sample for all copies: another one for each alone
    together = training.train(training.Job(4, activation, SEEDS, 50, TOGETHER[0]))
    for index, label in enumerate(TOGETHER[0]):
        alone = training.train(training.Job(4, activation, SEEDS, 50, (label,)))
        part = slice(2 * index, 2 * index + 2)
        np.testing.assert_allclose(together["left"][:, part], alone["left"], rtol=1e-3, err_msg=label)


# --- results, verdicts, page -----------------------------------------------------------------------------------


def test_a_quick_run_gives_results_tables_and_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "SHOWN", (2, 4))
    monkeypatch.setattr(figures, "SHOWN", (2, 4))
    monkeypatch.setattr(results, "DRAWN", 100)
    every = run.jobs((2, 4), epochs=50)
    for job in every:
        run.run_job(job, tmp_path)
    runs, extra = results.collect(tmp_path, every)
    assert extra["times"]["wall_seconds"] is None, "jobs run one by one"
    assert extra["times"]["cpu_seconds"] > 0
    results.write(results.Results(runs, [], extra), tmp_path)
    again = results.read(tmp_path)
    assert again.runs == runs and again.tried == [] and again.extra == json.loads(json.dumps(extra))
    table = results.Table(runs)
    assert len(runs) == 2 * 2 * 3 * 10 and table.sizes == (2, 4)
    assert all(run.scores["inside"] > IDEAL_NLL for run in runs)
    assert all(run.scores["left"] == run.scores["left_exact"] for run in runs if run.activation == "exact")
    assert "| 4 | 10 | 26, 36 |" in report.inside_table(table, "clamped", "inside")
    figures.draw_all(table, extra["curves"], tmp_path)
    assert {path.stem for path in tmp_path.glob("*.png")} == {"fig1a", "fig1b", "fig2a", "fig2b", "fig2c", "outside"}


def test_measures_of_a_network_that_knows_the_truth_but_for_a_doubled_deviation():
    points = training.curve_points()
    mean, var = true_mean(points).numpy(), 4 * (true_std(points) ** 2 + 1e-6).numpy()
    found = results._measures({"curve_mean": mean, "curve_var": var}, "")
    assert found["mean_error"] == pytest.approx(0.0, abs=1e-12)
    assert found["z_left"] == pytest.approx(0.5, rel=0.05) and found["z_right"] == pytest.approx(0.5, rel=0.05)
    assert found["std_-0.5"] == pytest.approx(0.6, rel=1e-3) and found["std_0"] == pytest.approx(0.2, rel=1e-3)


def made_up(score):
    """Results in which every score is `score(hidden, activation, head, name)`."""
    every = [(h, a, k) for h in run.SIZES for a in networks.ACTIVATIONS for k in networks.HEADS]
    runs = [
        results.Run(CHOSEN, *case, seed, 0, {name: score(*case, name) for name in results.COLUMNS})
        for case in every
        for seed in range(5)
    ]
    tried = [
        results.Run(label, h, a, k, seed, 0, {name: score(h, a, k, name) for name in results.TRIED_COLUMNS})
        for label in (*CHOICES, PRINTED)
        for h, a, k in every
        for seed in range(5)
    ]
    sampled = [dict(activation=a, error=0.01, noise=0.01, largest_ratio=1.0) for a in networks.ACTIVATIONS]
    return results.Results(runs, tried, {"montecarlo": sampled})


def judged(judge, score, form="exact", head="learned"):
    return judge(statements.views(made_up(score))[form, head])


def better(gap):
    """Scores in which embedded is better by `gap(hidden)`."""
    return lambda hidden, activation, head, name: -0.7 - (gap(hidden) if head == "embedded" else 0.0)


@pytest.mark.parametrize(
    ("gap", "verdict"),
    [
        (lambda h: 0.1, statements.YES),
        (lambda h: 0.1 if h < 8 else -0.1, statements.PART),
        (lambda h: -0.1, statements.NO),
    ],
)
def test_lightweight_networks_are_judged_size_by_size(gap, verdict):
    assert judged(statements.lighter_is_better, better(gap)) == verdict


@pytest.mark.parametrize(
    ("gap", "verdict"),
    [
        (lambda h: 0.1 if h <= 64 else -0.1, statements.YES),
        (lambda h: 0.1 if h <= 8 else -0.1, statements.PART),
        (lambda h: 0.1, statements.NO),
    ],
)
def test_the_crossover_is_found_where_it_is(gap, verdict):
    assert judged(statements.crosses_at_128, better(gap)) == verdict


@pytest.mark.parametrize(("z", "verdict"), [(3.0, statements.YES), (1.0, statements.NO)])
def test_overconfidence_is_an_error_of_more_than_two_claimed_deviations(z, verdict):
    score = lambda hidden, activation, head, name: z if name.startswith("z_") else 0.0
    assert judged(statements.small_learned_is_overconfident, score) == verdict


@pytest.mark.parametrize(("nll", "verdict"), [(-0.88, statements.YES), (-0.7, statements.PART), (-0.4, statements.NO)])
def test_accuracy_is_a_share_of_what_knowing_the_noise_is_worth(nll, verdict):
    score = lambda hidden, activation, head, name: nll if name == "inside" else 0.0
    assert judged(statements.small_embedded_is_accurate, score) == verdict


def test_the_clamp_is_judged_by_what_its_networks_score_with_exact_moments():
    score = lambda hidden, activation, head, name: 5.0 if (head, name) == ("embedded", "inside_exact") else -0.7
    assert judged(statements.clamp_is_numerical, score, "clamp") == statements.PART
    assert judged(statements.clamp_is_numerical, lambda *case: -0.7, "clamp") == statements.YES
    assert judged(statements.clamp_is_numerical, score, "exact") == statements.NONE


def test_every_statement_has_a_place_a_verdict_for_each_view_and_numbers():
    found = made_up(lambda hidden, activation, head, name: 0.5)
    assert len(statements.STATEMENTS) >= 9
    for statement in statements.STATEMENTS:
        assert any(word in statement.place for word in ("abstract", "section", "figure", "conclusion"))
        for view in statements.views(found).values():
            verdict = statement.judge(view)
            assert verdict in (statements.YES, statements.PART, statements.NO, statements.NONE)
            assert verdict == statements.NONE or any(c.isdigit() or c in "ns" for c in statement.cell(view))


def test_the_order_of_two_heads_under_a_choice_is_compared_with_that_as_chosen():
    found = made_up(better(lambda h: 0.1))
    turned = [r for r in found.tried if r.label == "slope 0.1"]
    assert "no order changes" in findings._one_choice(found, "slope 0.1")
    for one in turned:
        one.scores["inside"] += 0.3 if one.head == "embedded" else 0.0
    assert "the order changes at 4 units, exact" in findings._one_choice(found, "slope 0.1")
    assert "+0.300 nats (embedded" in findings._one_choice(found, "slope 0.1")


def test_the_committed_readme_is_what_the_committed_results_give():
    text = (FOLDER / "README.md").read_text()
    assert report.fill(text, report.blocks(results.read(FOLDER))) == text
