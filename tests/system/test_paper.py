"""The polynomial experiment, with few epochs: the same code that makes the committed table and figures."""

import json
import sys

import pytest
import torch

from places import ROOT

FOLDER = ROOT / "examples" / "polynomial"
sys.path.insert(0, str(FOLDER))

import figures  # noqa: E402
import networks  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402
import training  # noqa: E402

from lbnn.train.problem import IDEAL_NLL, draw, inside_grid, true_std  # noqa: E402

SEEDS = (0, 1)
X = torch.linspace(-1.5, 1.5, 9, dtype=torch.float64)


@pytest.fixture(autouse=True)
def without_compiler(monkeypatch):
    """Compiling takes longer than these tests."""
    monkeypatch.setattr(training.shutil, "which", lambda tool: None)


@pytest.mark.parametrize("activation", networks.ACTIVATIONS)
def test_copies_predict_what_ordinary_modules_predict(activation):
    copies = networks.initial(5, SEEDS).double()
    mean, var = networks.predict(networks.ACTIVATIONS[activation], copies, X[None])
    rows = [(head, seed) for head in networks.HEADS.values() for seed in SEEDS]
    for index, (head, _) in enumerate(rows):
        module = networks.unpack(copies, index, head.module(5, activation).double())
        expected = head.apply(module(X[:, None]))
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


def test_the_expected_nll_is_the_ideal_for_the_truth_and_agrees_with_samples():
    x = inside_grid(100_000)
    ideal = 0.5 * (torch.log(2 * torch.pi * true_std(x) ** 2) + 1.0).mean()
    assert float(ideal) == pytest.approx(IDEAL_NLL, abs=1e-4)

    copies = networks.initial(4, SEEDS).double()
    expected = training.expected_nll(networks.exact, copies, inside_grid(4096))
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
    assert len(every) == len(set(every)) == 2 * (6 * 10 + 4 * 3)
    costs = [job.cost for job in run.jobs()]
    assert costs == sorted(costs, reverse=True)


def test_a_quick_run_gives_results_table_and_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "CURVES", (("exact", 2), ("clamped", 4)))
    monkeypatch.setattr(report, "HERE", tmp_path)
    every = run.jobs((2, 4), epochs=50)
    for job in every:
        run.run_job(job, tmp_path)
    runs, extra = report.collect(tmp_path, every)
    assert extra["wall_seconds"] is None, "jobs run one by one"
    report.write_results(runs, extra, tmp_path)
    again, extra_again = report.read_results(tmp_path)
    assert again == runs and extra_again == json.loads(json.dumps(extra))
    table = report.Table(runs)
    assert len(runs) == 2 * 2 * 3 * 10 and table.sizes == (2, 4)
    assert all(run.scores["inside"] > IDEAL_NLL for run in runs)
    assert all(run.scores["inside"] == run.scores["inside_exact"] for run in runs if run.activation == "exact")
    assert "| 4 | 10 | 26, 36 |" in report.markdown(table, "clamped", "inside")
    figures.plt.close(figures.inside(table))


def test_the_committed_readme_is_what_the_committed_results_give():
    runs, extra = report.read_results(FOLDER)
    text = (FOLDER / "README.md").read_text()
    assert report.fill(text, report.blocks(runs, extra)) == text
