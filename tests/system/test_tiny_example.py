"""The four networks of MLPerf Tiny: their data, a short training of one of them, and what is kept of the long one."""

from __future__ import annotations

import csv
import importlib
import math
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import softplus

import lbnn
from lbnn.nn import BayesianLayer
from places import ROOT

FOLDER = ROOT / "examples" / "mlperf_tiny"


@pytest.fixture(scope="module")
def example():
    """The modules of the example, on one thread as it runs itself."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    sys.path.insert(0, str(FOLDER))
    yield {name: importlib.import_module(name) for name in ("tiny_data", "tiny_networks")} | {
        "train": load("train", FOLDER / "train.py")
    }
    sys.path.remove(str(FOLDER))
    torch.set_num_threads(threads)


def load(name, path):
    """By its place: other examples have a train.py too."""
    spec = importlib.util.spec_from_file_location(f"tiny_{name}", path)
    module = sys.modules[f"tiny_{name}"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_keywords_are_always_the_same_and_each_class_is_there(example):
    keywords = example["tiny_data"].keywords
    first, second = keywords(24, 12), keywords(24, 12)
    assert torch.equal(first.train[0], second.train[0]) and first.train[0].shape == (24, 1, 49, 10)
    assert sorted(first.train[1].tolist()) == sorted(2 * list(range(12)))
    assert not torch.equal(first.train[0][:12], first.test[0])


def test_scenes_hold_an_item_somewhere_and_foreign_ones_hold_none(example):
    scenes = example["tiny_data"].scenes
    empty, full = scenes(None, 3, seed=5), scenes(torch.ones(3, 1, 28, 28), 3, seed=5)
    assert empty.shape == full.shape == (3, 3, 96, 96)
    changed = (empty != full).float().mean((1, 2, 3))
    assert torch.all(changed > 0.1) and torch.all(changed < 0.7)


def test_a_short_training_of_the_autoencoder_tells_faults_and_its_c_agrees(example, tmp_path):
    train, data = example["train"], example["tiny_data"]
    task = data.anomalies(400, 60)
    loud = replace(task, foreign=task.test[0] + 0.5 * torch.randn(task.test[0].shape, generator=torch.manual_seed(0)))
    model = train.train("ad", loud, replace(train.SCHEDULES["ad"], trained=400, tested=60, epochs=3))
    found = train.measure("ad", model, loud, tmp_path, "c")
    assert found.auroc > 0.8 and found.verified
    train.write_results(tmp_path / "results.csv", [found])
    assert (tmp_path / "results.csv").read_text().splitlines()[1].startswith("ad,")


@pytest.mark.parametrize("name", ["kws", "ic", "vww", "ad"])
def test_every_weight_starts_with_the_stated_sigma_and_inputs_are_standardised(example, name):
    train, shape = example["train"], example["tiny_networks"].NETWORKS[name][1]
    x = 5.0 + 3.0 * torch.randn((8, *shape), generator=torch.manual_seed(0))
    model = train.build(name, example["tiny_data"].Task((x, x), (x, x), x))
    with torch.no_grad():
        assert abs(float(model[0](x).mean())) < 1e-4 and float(model[0](x).std()) == pytest.approx(1.0, rel=1e-4)
    rhos = [rho for layer in model.modules() if isinstance(layer, BayesianLayer) for *_, rho in layer.named_gaussians()]
    assert all(torch.allclose(softplus(rho), torch.tensor(train.SIGMA)) for rho in rhos)
    assert (lbnn.read_model(model.eval(), shape).graph.head is None) == (name == "ad")


def test_scores_of_known_answers_are_those_by_hand(example):
    """Four examples, one of them wrong; both foreign ones are less sure than three of the four."""
    train, data = example["train"], example["tiny_data"]
    x, foreign = torch.tensor([0.9, 0.8, 0.7, 0.4])[:, None], torch.tensor([0.55, 0.65])[:, None]

    def model(some):
        probability = torch.cat([some, 1.0 - some], 1)
        return SimpleNamespace(probability=probability, entropy=-(probability * probability.log()).sum(1))

    task = data.Task((x, x), (x, torch.zeros(4, dtype=torch.long)), foreign)
    right, nll, auroc = train.classes_known(model, task)
    assert right == 0.75 and nll == pytest.approx(-sum(math.log(p) for p in (0.9, 0.8, 0.7, 0.4)) / 4)
    assert auroc == pytest.approx(7 / 8)  # of eight pairs only 0.65 beside 0.4 is the other way round


def test_the_kept_results_are_of_all_four_verified_and_better_than_guessing():
    with (FOLDER / "results.csv").open(newline="") as file:
        kept = {row["network"]: row for row in csv.DictReader(file)}
    assert list(kept) == ["kws", "ic", "vww", "ad"] and all(row["verified"] == "True" for row in kept.values())
    assert all(max(float(row[key]) for key in ("mean_error", "variance_error")) < 1e-4 for row in kept.values())
    for name, guess in {"kws": 1 / 12, "ic": 1 / 10, "vww": 1 / 2}.items():
        assert float(kept[name]["right"]) > 1.3 * guess
    assert float(kept["ad"]["auroc"]) > 0.8


def test_without_fashion_mnist_the_others_are_trained_and_one_line_says_so(example, monkeypatch, capsys):
    train, data = example["train"], example["tiny_data"]
    monkeypatch.setattr(data.fashion, "fashion_lacks", lambda: "no pictures; install them")
    assert train.with_data(["kws", "ic", "vww", "ad"]) == ["kws", "ad"]
    assert capsys.readouterr().err == "left out: ic, vww; no pictures; install them\n"
    with pytest.raises(lbnn.LbnnError, match="left out: ic; no pictures"):
        train.with_data(["ic"])


def test_without_fashion_mnist_one_line_names_the_package(example, tmp_path):
    task = "from pathlib import Path; from tiny_data import clothes; clothes(1, 1, Path('/nowhere'))"
    done = subprocess.run([sys.executable, "-c", task], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode and "apt-get install dataset-fashion-mnist" in done.stderr
