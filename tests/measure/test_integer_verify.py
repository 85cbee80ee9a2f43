"""What integers lose of classifiers and regressors, and how `verify` and `export` say it."""

from functools import cache
from importlib import import_module

import numpy as np
import pytest
from sklearn.datasets import load_digits

import lbnn
from int_models import network
from lbnn.base.moments import Moments
from lbnn.graph.reference import classify, predict
from lbnn.measure.integer_verify import (
    MOST_CLASS_KL,
    MOST_KL,
    expect_integers,
    integer_losses,
    ordinary_loss,
    show_integers,
    too_coarse,
    verify_integers,
)
from lbnn.measure.loss import BitLoss
from lbnn.measure.samples import Samples, draw_samples
from lbnn.model.file import read_model
from places import ROOT
from thorough import chosen

TRAINED, TESTED = slice(None, 1200), slice(1200, None)


@cache
def digits():
    """Pixels and labels in a fixed order."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(pixels))
    return pixels[order].astype(np.float32), labels[order]


@cache
def digit_classifier(variance):
    """A trained MLP 64-32-10 with a softmax head."""
    x, y = digits()
    found = lbnn.Classifier(hidden=(32,), epochs=30, batch=100, random_state=0, variance=variance)
    return read_model(found.fit(x[TRAINED], y[TRAINED]).model_, (64,))


def nll(graph, logits, labels):
    """Of the right class, by the float64 head."""
    found = classify(graph, Moments(*(np.asarray(part, np.float64) for part in logits)))
    return float(-np.log(found.probability[np.arange(len(labels)), labels]).mean())


def keeps_its_score(model, dtype, x, y):
    """Probabilities of new rows, and the score that they give."""
    samples = Samples(x, None, ("ordinary",) * len(x))
    found = expect_integers(model, samples, dtype)
    loss = integer_losses(model, samples, found)["ordinary"]
    assert loss.class_kl_mean <= MOST_CLASS_KL and loss.class_kl >= loss.class_kl_mean > 0.0
    exact = nll(model.graph, predict(model.graph, x), y)
    assert exact < 0.2 and nll(model.graph, (found.mean, found.var), y) <= exact + 0.003


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("variance", ["full", "rank1"])
def test_a_classifier_keeps_its_probabilities_and_its_score(variance, dtype):
    x, y = digits()
    keeps_its_score(digit_classifier(variance), dtype, x[TESTED], y[TESTED])


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_the_digits_example_keeps_its_score_on_the_rows_that_it_was_not_trained_on(dtype):
    x, y = digits()
    model = read_model(ROOT / "examples/digits_cnn/digits.pt")
    keeps_its_score(model, dtype, x[1300:].reshape(-1, 1, 8, 8), y[1300:])


@pytest.mark.parametrize("dtype", chosen(["int8", "int16"], "int8"))
def test_the_keyword_example_keeps_its_score_on_new_sounds(monkeypatch, dtype):
    folder = ROOT / "examples/keyword"
    monkeypatch.syspath_prepend(folder)
    x, y = import_module("sounds").recordings(96, seed=5)
    keeps_its_score(read_model(folder / "keyword.pt"), dtype, x, y)


@pytest.mark.parametrize("file", ["digits_cnn/digits.pt", "keyword/keyword.pt"])
@pytest.mark.parametrize(("dtype", "most"), [("int8", MOST_KL), ("int16", 1e-4)])
def test_the_committed_classifiers_keep_their_probabilities_and_logits(file, dtype, most):
    loss = ordinary_loss(read_model(ROOT / "examples" / file), dtype)
    assert loss.class_kl_mean <= MOST_CLASS_KL and loss.kl_mean <= most


def test_verify_holds_logits_to_the_bits_and_the_head_to_float64(capsys):
    model = digit_classifier("full")
    samples = draw_samples(model, 14, 0)
    rows = verify_integers(model, samples, ["c"], "int8")
    assert all(row.passed and row.differ == 0 and row.class_error < 1e-5 for row in rows)
    show_integers(rows, integer_losses(model, samples, expect_integers(model, samples, "int8")), {}, "digits")
    printed = capsys.readouterr().out
    for column in ("class error", "KL mean", "mean error", "variance ratio", "class KL mean"):
        assert column in printed


def loss(kl, class_kl=None):
    return BitLoss(1, kl, kl, kl, 0.0, 1.0, 1.0, class_kl, class_kl)


def test_what_is_too_much_is_told_of_predictions_or_of_classes():
    assert too_coarse(loss(MOST_KL)) == "" and too_coarse(loss(0.02)) == "KL 0.02 a prediction"
    assert too_coarse(loss(0.2, MOST_CLASS_KL)) == ""
    assert too_coarse(loss(0.0, 0.01)) == "KL 0.01 of the class probabilities"
    assert too_coarse(loss(float("nan"))) != ""


def test_a_regressor_has_no_class_error():
    model = network((3, 8, 1), "rank1")
    (row,) = verify_integers(model, draw_samples(model, 14, 0), ["c"], "int16")
    assert row.passed and row.class_error is None
