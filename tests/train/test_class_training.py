"""Training on classes from a data file: scored on rows it never saw, the network of lbnn.Classifier, and pictures."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import lbnn
from lbnn.base.classes import Classes
from lbnn.base.errors import LbnnError
from lbnn.train import large, training
from lbnn.train.outcome import picture, plain_scores, summary_lines
from lbnn.train.rowfile import RowFile
from lbnn.train.table import Choice, Column, Table
from trainings import interrupt

QUICK = {"hidden": (8,), "epochs": 30, "batch": 50, "lr": 0.1}
NAMES = ("far", "near", "next")


def blobs(rows=90):
    """Three classes; the first is apart, the two others overlap."""
    rng = np.random.default_rng(0)
    labels = np.arange(rows) % 3
    x = rng.normal(size=(rows, 2)) + np.array([[-9.0, 0.0], [2.0, 0.0], [3.0, 1.0]])[labels]
    y = labels[:, None].astype(np.float32)
    return Table((x * [1, 100]).astype(np.float32), y, (Column("a"), Column("b")), ("kind",), classes=NAMES)


def test_unseen_rows_are_scored_and_the_network_is_that_of_the_classifier():
    table = blobs()
    found = training.train_table(table, seed=3, **QUICK)
    assert isinstance(found.test, Classes) and len(found.target) == 90
    assert sorted(found.target.tolist()) == sorted(table.labels.tolist())
    assert 0.66 < found.scores.accuracy < 0.95 and found.scores.log_loss < 0.7
    same = lbnn.Classifier(**QUICK, random_state=3).fit(table.x, np.array(NAMES)[table.labels])
    for ours, theirs in zip(found.model.parameters(), same.model_.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert set(plain_scores(found)) == {"rows", "how", "accuracy", "nll", "brier", "ece"}
    assert "accuracy" in summary_lines(found) and "90 rows in 3-fold cross-validation" in summary_lines(found)


def test_each_row_is_scored_by_a_network_that_did_not_see_it(monkeypatch):
    table, seen = blobs(30), []
    train = training.train_classes
    monkeypatch.setattr(training, "train_classes", lambda x, *rest: seen.append(x) or train(x, *rest))
    found = training.train_table(table, hidden=(2,), epochs=1)
    assert [len(x) for x in seen] == [30, 20, 20, 20] and len(found.target) == 30
    for part, x in zip(training.folds(table, 3, 0), seen[1:], strict=True):
        assert not set(map(tuple, table.x[part])) & set(map(tuple, x))
        assert np.bincount(table.labels[part]).tolist() in ([3, 3, 4], [3, 4, 3], [4, 3, 3])


def test_a_share_of_test_rows_has_its_share_of_each_class():
    found = training.train_table(blobs(), hidden=(2,), epochs=1, test_share=0.2)
    assert found.how == "18 test rows" and np.abs(np.bincount(found.target.numpy()) - 6).max() <= 1


def test_patience_watches_some_rows_of_each_class(monkeypatch):
    watched = []
    train = training.train_classes
    monkeypatch.setattr(training, "train_classes", lambda *given: watched.append(given[5]) or train(*given))
    found = training.train_table(blobs(), hidden=(2,), epochs=2, patience=1, test_share=0.2)
    assert len(watched[0]) == round(0.15 * 72) and found.history.validation


@pytest.mark.parametrize(("when", "scored"), [(0, 0), (1, 0), (3, 20)])
def test_ctrl_c_keeps_the_model_and_scores_what_is_done(when, scored, monkeypatch):
    calls = interrupt(monkeypatch, "train_classes", when)
    found = training.train_table(blobs(30), hidden=(2,), epochs=1)
    assert len(calls) == when + 1 and len(found.target) == scored
    assert (plain_scores(found) is None) == (scored == 0)


def test_groups_and_times_hold_for_classes_too():
    table = replace(blobs(60), groups=np.arange(60) // 6)
    for part in training.folds(table, 3, 0):
        assert set(np.bincount(table.groups[part], minlength=10)) == {0, 6}
    found = training.train_table(replace(blobs(60), ordered=True), hidden=(2,), epochs=1)
    assert found.target.tolist() == (np.arange(60) % 3)[15:].tolist()


def test_a_class_of_two_rows_is_refused():
    table = blobs(30)
    table.y[:, 0] = [0, 0, *[1] * 14, *[2] * 14]
    with pytest.raises(LbnnError, match=r"at least 3 rows: far \(2\)"):
        training.train_table(table, hidden=(2,), epochs=1)


@pytest.mark.parametrize("count", [3, 100])
def test_the_picture_names_the_classes(tmp_path, count):
    found = training.train_table(blobs(30), hidden=(2,), epochs=1)
    many = torch.nn.functional.pad(found.test.probability, (0, count - 3))
    found = replace(found, test=found.test._replace(probability=many))
    names = [*NAMES, *(f"$other_{i}" for i in range(count - 3))]
    assert picture(found, names, tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def written_rows(path):
    table = blobs(120)
    lines = (f"{x[0]},{x[1]},{NAMES[k]}\n" for x, k in zip(table.x, table.labels, strict=True))
    path.write_text("a,b,kind\n" + "".join(lines))
    return path


def test_rows_on_the_disk_train_the_same_kind_of_model(tmp_path):
    data = written_rows(tmp_path / "d.csv")
    recipe = {"hidden": (8,), "epochs": 40, "lr": 0.1, "patience": 40}
    job = training.Job(data, ("kind",), Choice(), tmp_path / "m.pt", stream=True, test_share=0.3, recipe=recipe)
    lines = []
    found = large.train_large(job, lines.append)
    assert found["classes"] == list(NAMES) and found["test"]["accuracy"] > 0.6
    assert "target: kind, 3 classes: far, near, next" in "\n".join(lines) and "accuracy" in lines[1]
    out = lbnn.load(tmp_path / "m.pt")(torch.tensor([[-9.0, 0.0]]))
    assert out.label.tolist() == [0] and (tmp_path / "m.png").exists()


def test_rows_on_the_disk_are_refused_for_a_class_of_two_rows(tmp_path):
    data = written_rows(tmp_path / "d.csv")
    data.write_text(data.read_text() + "1,2,rare\n3,4,rare\n")
    job = training.Job(data, ("kind",), Choice(), tmp_path / "m.pt", stream=True)
    with pytest.raises(LbnnError, match=r"at least 3 rows: rare \(2\)"):
        large.train_large(job, print)
    assert not (tmp_path / "m.pt").exists()
    with pytest.raises(LbnnError, match="--variance-head"):
        large.train_large(replace(job, recipe={"head": True}), print)


def test_a_file_of_rows_gives_class_numbers(tmp_path):
    np.array([[0.5, 2], [1.5, 0]], np.float32).tofile(tmp_path / "rows")
    x, y = RowFile(tmp_path / "rows", 2, 1, 1, classes=True).pair(RowFile(tmp_path / "rows", 2, 1, 1).read(0, 2))
    assert x.tolist() == [[0.5], [1.5]] and y.tolist() == [2, 0] and y.dtype == torch.int64
