"""What a model file and its report tell of the training."""

import re

import pytest
import torch

import lbnn
from lbnn.base.terminal import kilobytes
from lbnn.exporters import wasm
from lbnn.measure.inspection import inspect_model
from lbnn.measure.story import training_lines
from lbnn.model.file import read_model
from lbnn.train.csvfile import CsvFormat
from lbnn.train.datafile import file_sha256
from lbnn.train.large import train_large
from lbnn.train.recipe import recipe_for
from lbnn.train.record import how_chosen, library_versions, training_record
from lbnn.train.table import Choice
from lbnn.train.training import Job, train_file
from reports import HOSTILE, Elements, report, save_named, write_csv


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """The model inside the page has tests of its own."""
    monkeypatch.setattr(wasm, "missing", lambda: "pip install ziglang")


def trained(folder, train=train_file, **job):
    data = write_csv(folder / "rows.csv", 2)
    recipe = {"epochs": 2, **job.pop("recipe", {})}
    train(Job(data, ("out0",), job.pop("choice", Choice()), folder / "m.pt", recipe=recipe, **job), lambda text: None)
    return folder / "m.pt", data


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Trained on some of 60 rows: a fifth is for the test, and some of the rest decide when to stop."""
    return trained(tmp_path_factory.mktemp("story"), test_share=0.2, seed=3, recipe={"patience": 1, "hidden": (4,)})


def test_a_model_file_says_which_rows_it_was_fitted_to_and_how(model):
    path, data = model
    metadata = lbnn.load(path).metadata
    record = metadata["training"]
    assert metadata["data_sha256"] == file_sha256(data) and record["data"] == "rows.csv"
    assert record["rows"] == {"fitted": 41, "watched to stop": 7, "for the test": 12, "in all": 60}
    assert record["chosen"] == "drawn by seed 3" and record["epochs"] <= 2
    wanted = {"hidden": [4], "epochs": 2, "patience": 1, "lr": 0.02, "prior": "gaussian", "seed": 3}
    assert wanted.items() <= record["settings"].items()
    assert record["versions"] == library_versions() and record["versions"]["torch"] == torch.__version__


def test_all_rows_are_fitted_unless_some_are_kept_out(tmp_path):
    path, _ = trained(tmp_path)
    metadata = lbnn.load(path).metadata
    assert metadata["training"]["rows"] == {"fitted": 60, "watched to stop": 0, "for the test": 0, "in all": 60}
    assert "chosen" not in metadata["training"]
    assert dict(training_lines(metadata))["rows"] == "all 60 rows of it were fitted"


def test_rows_on_the_disk_are_counted_too(tmp_path):
    path, _ = trained(tmp_path, train_large, choice=Choice(form=CsvFormat()), test_share=0.3)
    rows = lbnn.load(path).metadata["training"]["rows"]
    assert rows["fitted"] + rows["for the test"] == rows["in all"] == 60 and 30 < rows["fitted"] < 55


def test_how_rows_are_told_apart():
    assert how_chosen(Choice(), 2) == "drawn by seed 2"
    assert how_chosen(Choice(group="house"), 2) == "whole groups of house, by seed 2"
    assert how_chosen(Choice(time="day"), 2) == "the latest by day are not fitted"


def test_a_prior_is_written_in_words_that_are_the_same_each_time():
    class Own:
        def log_prob(self, w):
            return w

    recipe = recipe_for(10, (1,), prior=lbnn.priors.Gaussian(0.5))
    assert training_record(recipe, {}, 0)["settings"]["prior"] == "Gaussian(sigma=0.5)"
    assert training_record(recipe_for(10, (1,), prior=Own()), {}, 0)["settings"]["prior"] == "Own"


def test_estimators_say_it_too(tmp_path):
    x = torch.randn(40, 2).numpy()
    for kind, y in ((lbnn.Regressor, x[:, 0]), (lbnn.Classifier, x[:, 0] > 0)):
        fitted = kind(epochs=1, patience=3, random_state=5).fit(x, y)
        record = lbnn.load(fitted.save(tmp_path / "e.pt")).metadata["training"]
        assert record["rows"] == {"fitted": 34, "watched to stop": 6, "in all": 40}
        assert record["chosen"] == "drawn by seed 5" and record["settings"]["seed"] == 5


def test_the_page_tells_of_the_training_and_has_the_date_that_it_is_given(model, tmp_path):
    path, data = model
    text = Elements(report(path, tmp_path / "r.html", date="2026-11-18")).text
    rows = "41 of 60 were fitted; 7 watched to stop; 12 for the test; drawn by seed 3"
    for word in (
        "On rows that were kept out of training",
        "test rows",
        "Training",
        "rows.csv",
        file_sha256(data),
        rows,
        f"torch {torch.__version__}",
        "2026-11-18",
    ):
        assert word in text
    assert "2026-11-18" not in Elements(report(path, tmp_path / "s.html")).text


def test_scores_on_the_file_that_it_was_trained_on_are_called_that(model, tmp_path):
    path, data = model
    same = Elements(report(path, tmp_path / "a.html", data=data)).text
    assert "This is the file that the model was trained on" in same and "test rows 12" in same
    other = tmp_path / "other.csv"
    other.write_text("\n".join(data.read_text().splitlines()[:30]))
    assert "was trained on" not in Elements(report(path, tmp_path / "b.html", data=other)).text


def test_scores_of_cross_validation_are_called_that_and_not_rows_that_were_kept_out(tmp_path):
    """All rows were fitted, as the page says below: none of them was a test row of this network."""
    path, data = trained(tmp_path)
    how = "On 60 rows in 3-fold cross-validation, each predicted by a network that had not seen it, as the model file"
    page = Elements(report(path, tmp_path / "r.html")).text
    assert how in page and "all 60 rows of it were fitted" in page
    assert "test rows" not in page and "kept out" not in page
    assert how[1:] in Elements(report(path, tmp_path / "d.html", data=data)).text


def test_a_file_that_says_nothing_has_no_lines(tmp_path):
    assert training_lines({}) == () == training_lines({"training": [1]})
    assert "says nothing of its training" in Elements(report(save_named(tmp_path), tmp_path / "r.html")).text


def test_what_a_hostile_file_says_stays_text_and_short(tmp_path):
    record = {"data": HOSTILE, "rows": {HOSTILE: 1, "fitted": "x"}, "chosen": HOSTILE, "versions": {HOSTILE: HOSTILE},
              "settings": {HOSTILE: HOSTILE, "long": "x" * 1000, **{f"s{i}": i for i in range(1000)}}}  # fmt: skip
    page = report(save_named(tmp_path, training=record, data_sha256=[HOSTILE]), tmp_path / "r.html", date=HOSTILE)
    assert "<script>alert" not in page and HOSTILE in Elements(page).text and "x" * 201 not in page
    assert len(training_lines({"training": record})) <= 40


def test_numbers_of_the_page_are_those_of_inspect(tmp_path):
    path = save_named(tmp_path, 3, 2)
    found = inspect_model(read_model(path)).as_plain()
    text = " ".join(re.sub(r"<[^>]*>", " ", report(path, tmp_path / "r.html")).split())
    flash, ram = found["weight_bytes"] + found["code_bytes"], found["work_bytes"] + found["stack_bytes"]
    tiles = {
        "Gaussian weights": found["parameters"],
        "multiply-accumulates": found["macs"],
        "flash at most": kilobytes(flash),
        "RAM at most": kilobytes(ram),
        "known parts": f"{sum(part['fits'] for part in found['parts'])} of {len(found['parts'])}",
    }
    for name, number in tiles.items():
        assert f"{number} {name}" in text
    for layer in found["layers"]:
        assert f"{layer['name']} {layer['op']} {layer['output']} {layer['parameters']} {layer['macs']}" in text
    for name, form in found["forms"].items():
        ram = form["work_bytes"] + form["stack_bytes"]
        assert f"{form['weight_bytes']:,} {form['code_bytes']:,} {ram:,} {len(form['fits'])} of" in text, name
