"""What an export with fewer bits loses: KL against its integral, and the columns against what was put in."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from lbnn import Moments
from lbnn import nn as bnn
from lbnn.measure.loss import ALL, class_kl, element_kl, losses_by_kind, measure_loss, plain_losses, show_losses
from lbnn.model.file import read_model


def moments(mean, var):
    return Moments(np.array(mean, np.float64), np.array(var, np.float64))


@pytest.mark.parametrize(
    ("exact", "stored"), [((0.3, 1.5), (0.1, 1.1)), ((-2.0, 0.2), (-2.1, 0.9)), ((5.0, 1e-6), (5.0004, 1.3e-6))]
)
def test_kl_is_the_integral_over_both_densities(exact, stored):
    p, q = (stats.norm(mean, np.sqrt(var)) for mean, var in (exact, stored))
    ends = [exact[0] + side * 12.0 * np.sqrt(exact[1]) for side in (-1.0, 1.0)]
    want, _ = integrate.quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), *ends, points=[exact[0]], limit=200)
    found = element_kl(moments([exact[0]], [exact[1]]), moments([stored[0]], [stored[1]]))
    np.testing.assert_allclose(found, want, rtol=1e-7)


def test_kl_keeps_its_digits_where_two_predictions_are_close():
    found = element_kl(moments([1.0], [1.0]), moments([1.0], [1.0 + 1e-9]))
    np.testing.assert_allclose(found, 0.25e-18, rtol=1e-6)


def test_a_known_number_is_itself_or_infinitely_far():
    zero, one = moments([2.0], [0.0]), moments([2.0], [1.0])
    assert element_kl(zero, zero) == 0.0
    assert element_kl(zero, moments([2.1], [0.0])) == element_kl(zero, one) == element_kl(one, zero) == np.inf


@pytest.mark.parametrize("part", ["mean", "var"])
def test_what_is_not_a_number_is_infinitely_far(part):
    stored = moments([[1.0, 2.0]], [[1.0, 1.0]])
    getattr(stored, part)[0, 1] = np.nan
    assert measure_loss(moments([[1.0, 2.0]], [[1.0, 1.0]]), stored).kl_worst == np.inf


def test_the_columns_are_what_was_put_in():
    mean, var = np.zeros((200, 2)), np.full((200, 2), 4.0)
    other_mean, other_var = mean.copy(), var.copy()
    other_mean[7, 1], other_var[3, 0], other_var[4, 1] = 0.5, 3.0, 6.0
    loss = measure_loss(Moments(mean, var), Moments(other_mean, other_var))
    each = [0.5 * 0.25 / 4.0, 0.5 * (4 / 3 - 1 - np.log(4 / 3)), 0.5 * (4 / 6 - 1 - np.log(4 / 6))]
    assert (loss.samples, loss.mean_error, loss.least_ratio, loss.largest_ratio) == (200, 0.25, 0.75, 1.5)
    np.testing.assert_allclose([loss.kl_mean, loss.kl_worst], [sum(each) / 200, max(each)])
    np.testing.assert_allclose(loss.kl_99, sorted(each)[0])  # 2 of 200 are beyond


def test_outputs_of_a_prediction_are_taken_together():
    one = measure_loss(moments([[0.0]], [[1.0]]), moments([[0.1]], [[1.0]])).kl_worst
    three = measure_loss(moments([[0.0] * 3], [[1.0] * 3]), moments([[0.1] * 3], [[1.0] * 3])).kl_worst
    np.testing.assert_allclose(three, 3.0 * one)


def test_each_kind_of_sample_has_a_row(capsys):
    exact, stored = moments([[0.0]] * 3, [[1.0]] * 3), moments([[0.0], [0.1], [0.0]], [[1.0]] * 3)
    rows = losses_by_kind(exact, stored, ("ordinary", "1e6", "ordinary"))
    assert {kind: row.samples for kind, row in rows.items()} == {"ordinary": 2, "1e6": 1, ALL: 3}
    assert rows["ordinary"].kl_worst == 0.0 < rows["1e6"].kl_worst == rows[ALL].kl_worst
    assert plain_losses(rows)["loss"]["1e6"]["mean_error"] == pytest.approx(0.1)
    show_losses(rows, "lost")
    assert "1.0e-01 sd" in capsys.readouterr().out


def test_probabilities_of_one_class_out_of_many():
    p, q = np.array([[0.5, 0.5, 0.0]]), np.array([[0.25, 0.5, 0.25]])
    np.testing.assert_allclose(class_kl(p, q), 0.5 * np.log(2.0))
    assert class_kl(q, p) == np.inf
    assert class_kl(p, np.full((1, 3), np.nan)) == np.inf


@pytest.mark.parametrize(("head", "outputs"), [(bnn.SoftmaxHead, 3), (bnn.SigmoidHead, 2)])
def test_a_head_is_judged_by_its_probabilities(head, outputs):
    torch.manual_seed(0)
    graph = read_model(bnn.Sequential(bnn.Linear(2, outputs), head()), (2,)).graph
    exact = moments([[0.0] * outputs], [[1e-30] * outputs])
    stored = moments([[1.0] + [0.0] * (outputs - 1)], [[1e-30] * outputs])
    e = np.e
    softmax = -np.log(3.0 * (e / (2 + e)) ** (1 / 3) * (1 / (2 + e)) ** (2 / 3))
    sigmoid = -np.log(2.0) - 0.5 * (np.log(e / (1 + e)) + np.log(1 / (1 + e)))
    want = softmax if outputs == 3 else sigmoid
    np.testing.assert_allclose(measure_loss(exact, stored, graph).class_kl, want, rtol=1e-4)  # heads integrate by rules
