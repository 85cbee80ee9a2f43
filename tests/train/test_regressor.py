"""lbnn.Regressor: scikit-learn's conventions, the rule of `lbnn train`, and a model file at the end."""

import dataclasses
import inspect
import multiprocessing

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import lbnn
from commands import lbnn as command
from estimator_checks import SCIKIT_LEARN, check_name, checks_of
from lbnn.train import descent
from lbnn.train.estimator import seed_of, wanted_bar
from lbnn.train.recipe import Recipe, recipe_for, train_network

QUICK = {"hidden": (8,), "epochs": 30, "batch": 50, "lr": 0.1}


@SCIKIT_LEARN
@pytest.mark.parametrize("check", checks_of(lbnn.Regressor(**QUICK)), ids=check_name)
def test_scikit_learns_own_checks(check):
    check()


def rows(count=60):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 2))
    return x, 3 * x[:, 0] - x[:, 1] + 20 + 0.1 * rng.normal(size=count)


def weights(model):
    return torch.cat([part.detach().flatten() for part in model.parameters()])


def test_parameters_are_the_fields_of_a_recipe_and_the_seed():
    fields = [field.name for field in dataclasses.fields(Recipe)]
    assert list(inspect.signature(lbnn.Regressor).parameters) == [*fields, "random_state"]
    x, y = rows()
    given = {"hidden": (3, 2), "epochs": 2, "batch": 11, "lr": 0.05, "patience": 1, "prior": "spike_slab",
             "kl_weight": 0.5, "head": True, "variance": "rank1"}  # fmt: skip
    assert dataclasses.asdict(lbnn.Regressor(**given).fit(x, y).recipe_) == given


@pytest.mark.parametrize("given", [{"epochs": 2}, {"epochs": 3, "random_state": 5, "patience": 1, "head": True}])
def test_it_is_the_network_of_lbnn_train(given, tmp_path):
    """Through the command itself, for the same rows: the rule, the scaling, the seed, and the rows that are watched."""
    x, y = rows(800)
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(y=y).astype(np.float32)
    frame.to_csv(tmp_path / "data.csv", index=False)
    words = [f"--epochs={given['epochs']}", f"--seed={given.get('random_state', 0)}"]
    words += ["--patience=1", "--variance-head"] if "head" in given else []
    done = command("train", "data.csv", "--target=y", "--test-share=0.001", *words, folder=tmp_path)
    assert done.status == 0, done
    kept = np.random.default_rng(given.get("random_state", 0)).permutation(800)[:1]
    left = np.setdiff1d(np.arange(800), kept)
    fitted = lbnn.Regressor(**given).fit(frame[["a", "b"]].iloc[left], frame["y"].iloc[left])
    assert fitted.recipe_.hidden == (50, 50)
    torch.testing.assert_close(weights(fitted.model_), weights(lbnn.load(tmp_path / "model.pt")))


def test_one_seed_gives_one_network_and_another_another():
    x, y = rows()
    first, again, other = (lbnn.Regressor(**QUICK, random_state=s).fit(x, y).predict(x) for s in (3, 3, 4))
    assert (first == again).all() and not np.allclose(first, other)
    drawn = [seed_of(state) for state in (np.random.RandomState(1), np.random.RandomState(1), None, None)]
    assert drawn[0] == drawn[1] and drawn[2] != drawn[3]


def test_it_learns_the_mean_and_where_the_noise_is():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 1))
    noise = np.where(x[:, 0] < 0, 0.1, 1.0)
    y = 1000 + np.sin(3 * x[:, 0]) * 5 + noise * rng.normal(size=400)
    fitted = lbnn.Regressor(epochs=120).fit(x, y)
    assert fitted.score(x, y) > 0.95
    _, std = fitted.predict([[-0.5], [0.5]], return_std=True)
    assert 0.05 < std[0] < 0.4 < 0.6 < std[1] < 1.5


def test_predictions_are_the_networks_and_have_the_shape_of_y():
    x, y = rows()
    both = np.stack([y, -2 * y + 5], axis=1)
    for target in (y, both[:, :1], both):
        fitted = lbnn.Regressor(**QUICK).fit(x, target)
        mean, std = fitted.predict(x, return_std=True)
        out = fitted.model_(torch.from_numpy(x.astype(np.float32)))
        assert mean.shape == std.shape == target.shape and mean.dtype == std.dtype == np.float64
        for part, ours in ((out.mean, mean), (out.std, std)):
            np.testing.assert_allclose(part.detach().numpy().reshape(target.shape), ours, rtol=1e-4)


def test_a_prediction_does_not_depend_on_the_rows_beside_it():
    x, y = rows(200)
    fitted = lbnn.Regressor(epochs=2).fit(x, y)
    whole = np.stack(fitted.predict(x, return_std=True))
    alone = np.stack([fitted.predict(one[None], return_std=True) for one in x])[:, :, 0].T
    np.testing.assert_allclose(alone, whole, rtol=1e-12)


def test_scores_and_intervals_are_those_of_the_gaussian():
    x, y = rows()
    for target in (y, np.stack([y, y**2], axis=1)):
        fitted = lbnn.Regressor(**QUICK).fit(x, target)
        mean, std = fitted.predict(x, return_std=True)
        assert fitted.score(x, target) == pytest.approx(r2_score(target, mean))
        assert fitted.log_score(x, target) == pytest.approx(norm.logpdf(target, mean, std).mean())
        low, high = fitted.interval(x, level=0.8)
        np.testing.assert_allclose(norm.cdf(low, mean, std), 0.1)
        np.testing.assert_allclose(norm.cdf(high, mean, std), 0.9)
    column = lbnn.Regressor(**QUICK).fit(x, y)
    assert column.log_score(x, y[:, None]) == pytest.approx(column.log_score(x, y))
    with pytest.raises(ValueError, match="between 0 and 1"):
        column.interval(x, level=90)


def test_pipelines_and_searches_choose_by_the_log_likelihood():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(90, 1))
    y = x[:, 0] ** 2 + 0.05 * rng.normal(size=90)
    pipe = make_pipeline(PolynomialFeatures(2, include_bias=False), lbnn.Regressor(**QUICK))
    grid = {"regressor__epochs": [1, 60]}
    search = GridSearchCV(pipe, grid, scoring=lbnn.Regressor.log_score, cv=2).fit(x, y)
    assert search.best_params_ == {"regressor__epochs": 60}
    mean, std = search.best_estimator_.predict(x, return_std=True)
    assert search.score(x, y) == pytest.approx(norm.logpdf(y, mean, std).mean())
    assert cross_val_score(pipe, x, y, cv=2, scoring="r2").min() > 0.5


def test_a_fitted_one_is_dumped_and_a_clone_is_not_fitted(tmp_path):
    x, y = rows()
    fitted = lbnn.Regressor(**QUICK, prior=lbnn.priors.Gaussian(0.5)).fit(x, y)
    joblib.dump(fitted, tmp_path / "it.joblib")
    again = joblib.load(tmp_path / "it.joblib")
    assert (again.predict(x) == fitted.predict(x)).all() and again.history_ == fitted.history_
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params() and not hasattr(fresh, "model_")
    assert fresh.set_params(lr=0.02).lr == 0.02


def test_frames_give_names_and_refuse_others(tmp_path):
    x, y = rows()
    frame, target = pd.DataFrame(x, columns=["warm", "wet"]), pd.Series(y, name="mood")
    fitted = lbnn.Regressor(**QUICK).fit(frame, target)
    assert list(fitted.feature_names_in_) == ["warm", "wet"]
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[["wet", "warm"]])
    about = lbnn.read_model(fitted.save(tmp_path / "mood.pt")).metadata
    assert (about["inputs"], about["targets"], about["rows"]) == (["warm", "wet"], ["mood"], 60)
    two = pd.DataFrame({"p": y, "q": -y})
    assert lbnn.read_model(lbnn.Regressor(**QUICK).fit(frame, two).save(tmp_path / "m.pt")).metadata["targets"] == [
        "p",
        "q",
    ]


def test_the_model_file_goes_to_c_and_to_the_commands(tmp_path):
    x, y = rows()
    frame = pd.DataFrame(x.astype(np.float32), columns=["a", "b"])
    fitted = lbnn.Regressor(**QUICK).fit(frame, y)
    assert fitted.save(tmp_path / "mood.pt") == tmp_path / "mood.pt"
    mean, std = fitted.predict(frame, return_std=True)
    out = lbnn.compile(tmp_path / "mood.pt")(frame.to_numpy())
    np.testing.assert_allclose(out.mean[:, 0], mean, rtol=1e-5)
    np.testing.assert_allclose(out.var[:, 0], std**2, rtol=1e-5)
    assert lbnn.export(tmp_path / "mood.pt", target="c", out=tmp_path / "firmware")
    header = (tmp_path / "firmware" / "mood.h").read_text()
    assert "mood_out_of_range" in header  # the range of the inputs is in the file
    frame[["b", "a"]].to_csv(tmp_path / "rows.csv", index=False)
    done = command("predict", "mood.pt", "rows.csv", "-o", "out.csv", folder=tmp_path)
    assert done.status == 0, done
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["sd"], std, rtol=1e-5)


BAD = {
    "hidden": [(), 50, "16", (0,), (16, 10**6), (2.5,)],
    "epochs": [0, -1, 2.5, True],
    "batch": [0, "many"],
    "patience": [0],
    "lr": [0.0, -1, float("nan"), "high"],
    "kl_weight": [-0.1, float("inf"), float("nan")],
    "prior": ["flat", 1.0],
    "variance": ["diagonal"],
    "random_state": [-1, 2**32],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_parameter_that_makes_no_sense_is_a_value_error_of_one_line(name, value):
    with pytest.raises(lbnn.LbnnError) as error:
        lbnn.Regressor(**{name: value}).fit(*rows())
    assert isinstance(error.value, ValueError) and "\n" not in str(error.value)
    assert name in str(error.value)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, before the error
def test_numbers_that_a_device_can_not_hold_are_refused():
    x, y = rows()
    for bad in ((x * 1e300, y), (x, y * 1e300)):
        with pytest.raises(ValueError, match="too large for dtype"):
            lbnn.Regressor(**QUICK).fit(*bad)


def test_ctrl_c_keeps_what_was_learned_and_ends_a_search(monkeypatch):
    x, y = rows()
    epoch = descent.Descent.epoch

    def struck(self, number, score):
        if number == 3:
            raise KeyboardInterrupt
        return epoch(self, number, score)

    monkeypatch.setattr(descent.Descent, "epoch", struck)
    estimator = lbnn.Regressor(**QUICK)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(x, y)
    assert len(estimator.history_.epochs) == 2 and estimator.predict(x).shape == (60,)
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(lbnn.Regressor(**QUICK), x, y)


def test_threads_and_random_numbers_are_left_as_they_were():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        state = torch.random.get_rng_state()
        lbnn.Regressor(**QUICK).fit(*rows()).predict(rows()[0])
        assert torch.get_num_threads() == 2 and (torch.random.get_rng_state() == state).all()
    finally:
        torch.set_num_threads(before)


def test_only_the_main_process_draws_a_bar(monkeypatch):
    assert wanted_bar() is None
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: object())
    assert wanted_bar() is False


def test_the_recipe_alone_decides_the_network():
    x, y = rows()
    fitted = lbnn.Regressor(**QUICK, random_state=7).fit(x, y)
    single, target = x.astype(np.float32), y.astype(np.float32)[:, None]
    model, _ = train_network(single, target, recipe_for(60, (2,), **QUICK), 7)
    assert torch.equal(weights(model), weights(fitted.model_))
