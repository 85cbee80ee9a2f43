"""lbnn.Classifier: scikit-learn's conventions, probabilities and how unsure they are, and a model file at the end."""

import dataclasses
import inspect

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import lbnn
from commands import lbnn as command
from estimator_checks import SCIKIT_LEARN, check_name, checks_of
from lbnn import nn as bnn
from lbnn.train.priors import Gaussian
from lbnn.train.recipe import Recipe, build_classes, class_recipe_for, train_classes

QUICK = {"hidden": (8,), "epochs": 20, "batch": 50, "lr": 0.1}


@SCIKIT_LEARN
@pytest.mark.parametrize("check", checks_of(lbnn.Classifier(**QUICK)), ids=check_name)
def test_scikit_learns_own_checks(check):
    check()


def blobs(count=90):
    """Three classes with text for names; the first is apart, the two others overlap."""
    rng = np.random.default_rng(0)
    labels = np.arange(count) % 3
    x = rng.normal(size=(count, 2)) + np.array([[-9.0, 0.0], [2.0, 0.0], [3.0, 1.0]])[labels]
    return x * [1, 100] + [0, 1000], np.array(["far", "near", "next"])[labels]


def test_parameters_are_the_fields_of_a_recipe_and_the_seed():
    fields = [field.name for field in dataclasses.fields(Recipe) if field.name != "head"]
    assert list(inspect.signature(lbnn.Classifier).parameters) == [*fields, "random_state"]
    given = {"hidden": (3, 2), "epochs": 2, "batch": 11, "lr": 0.05, "patience": 1, "prior": "spike_slab",
             "kl_weight": 0.5, "variance": "row"}  # fmt: skip
    fitted = lbnn.Classifier(**given).fit(*blobs())
    assert dataclasses.asdict(fitted.recipe_) == {**given, "head": False}
    assert [epoch for epoch, _ in fitted.history_.validation] == [1, 2]  # on rows that are watched


@pytest.mark.parametrize(
    ("rows", "hidden", "steps", "sigma"), [(30, 1, 2000, 0.3), (500, 1, 2000, 0.1), (5000, 2, 5000, 0.1)]
)
def test_the_rule_follows_from_the_rows(rows, hidden, steps, sigma):
    recipe = class_recipe_for(rows, (4,))
    batches = -(-rows // recipe.batch)
    assert recipe.hidden == (50,) * hidden and steps <= recipe.epochs * batches < steps + batches
    assert (recipe.prior, recipe.kl_weight, recipe.lr, recipe.patience) == (Gaussian(sigma), 0.1, 0.01, None)
    assert class_recipe_for(rows, (4,), epochs=3, prior=Gaussian(2.0), lr=None).epochs == 3


def test_weights_begin_nearly_known_and_inputs_are_scaled_inside():
    x = blobs()[0].astype(np.float32)
    model = build_classes(x, 3, (5,))
    kinds = [bnn.Standardize, bnn.Linear, bnn.LeakyReLU, bnn.Linear, bnn.SoftmaxHead]
    assert [type(layer) for layer in model] == kinds
    assert all(layer.weight_var.sqrt().max().item() == pytest.approx(0.02) for layer in (model[1], model[3]))
    assert model[0](torch.from_numpy(x)).std(0, correction=0).tolist() == pytest.approx([1, 1], rel=1e-4)


def test_it_is_the_training_of_the_recipe():
    x, y = blobs()
    fitted = lbnn.Classifier(**QUICK, random_state=7).fit(x, y)
    classes, labels = np.unique(y, return_inverse=True)
    model, _ = train_classes(x.astype(np.float32), labels, 3, class_recipe_for(90, (2,), **QUICK), 7)
    assert list(fitted.classes_) == list(classes)
    for ours, theirs in zip(fitted.model_.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_probabilities_classes_and_uncertainty_are_those_of_the_head():
    x, y = blobs()
    fitted = lbnn.Classifier(**QUICK).fit(x, y)
    out = fitted.model_(torch.from_numpy(x.astype(np.float32)))
    p, unsure = fitted.predict_proba(x), fitted.uncertainty(x)
    np.testing.assert_allclose(p, out.probability.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (fitted.predict(x) == fitted.classes_[p.argmax(axis=1)]).all()
    np.testing.assert_allclose(unsure.total, -(p * np.log(p)).sum(axis=1), atol=1e-6)
    np.testing.assert_allclose(unsure.aleatoric + unsure.epistemic, unsure.total, atol=1e-9)
    np.testing.assert_allclose(unsure.epistemic, out.epistemic.detach().numpy(), atol=1e-4)


def test_it_learns_and_is_unsure_where_classes_overlap():
    x, y = blobs()
    fitted = lbnn.Classifier(epochs=100).fit(x, y)
    assert fitted.score(x, y) > 0.8 and (fitted.predict(x) == "far")[y == "far"].all()
    apart = fitted.uncertainty(x[y == "far"]).total.mean()
    assert apart < 0.5 * fitted.uncertainty(x[y != "far"]).total.mean()
    assert fitted.uncertainty([[2.5, 1050.0]]).aleatoric[0] > 0.3


def test_iris_is_known_by_a_few_folds():
    x, y = load_iris(return_X_y=True)
    model = lbnn.Classifier(epochs=60)  # 240 steps instead of 2,000
    assert cross_val_score(model, x, y, cv=3).mean() > 0.93
    assert cross_val_score(model, x, y, cv=3, scoring="neg_log_loss").mean() > -0.25


def test_pipelines_searches_clones_and_dumps(tmp_path):
    x, y = blobs()
    pipe = make_pipeline(StandardScaler(), PolynomialFeatures(2), lbnn.Classifier(**QUICK))
    search = GridSearchCV(pipe, {"classifier__epochs": [1, 30]}, scoring="neg_log_loss", cv=2).fit(x, y)
    assert search.best_params_ == {"classifier__epochs": 30}
    p = search.predict_proba(x)
    assert -search.score(x, y) == pytest.approx(log_loss(y, p))
    joblib.dump(search.best_estimator_, tmp_path / "it.joblib")
    assert (joblib.load(tmp_path / "it.joblib").predict_proba(x) == p).all()
    fresh = clone(search.best_estimator_[-1])
    assert fresh.get_params() == search.best_estimator_[-1].get_params() and not hasattr(fresh, "classes_")


def test_the_model_file_knows_names_and_gives_the_same_probabilities(tmp_path):
    x, y = blobs()
    frame = pd.DataFrame(x.astype(np.float32), columns=["a", "b"])
    fitted = lbnn.Classifier(**QUICK).fit(frame, pd.Series(y, name="place"))
    path = fitted.save(tmp_path / "place.pt")
    about = lbnn.read_model(path).metadata
    assert (about["inputs"], about["targets"], about["classes"]) == (["a", "b"], ["place"], ["far", "near", "next"])
    assert np.shape(about["input_range"]) == (2, 2)
    again = lbnn.load(path)(torch.tensor(frame.to_numpy()))
    np.testing.assert_allclose(again.probability.detach().numpy(), fitted.predict_proba(frame), atol=1e-5)
    lbnn.export(path, target="c", out=tmp_path / "firmware")
    assert "place_classify(" in (tmp_path / "firmware" / "place.h").read_text()
    done = command("verify", "place.pt", "--backends", "torch,onnx,c", "--samples", "7", folder=tmp_path)
    assert done.status == 0, done


def test_one_class_and_bad_parameters_are_value_errors_of_one_line():
    x, y = blobs()
    for bad, given in ((y, {"lr": -1}), (y, {"prior": "flat"}), (np.full(90, "all"), {})):
        with pytest.raises(lbnn.LbnnError) as error:
            lbnn.Classifier(**QUICK | given).fit(x, bad)
        assert isinstance(error.value, ValueError) and "\n" not in str(error.value)
