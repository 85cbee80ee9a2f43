"""Metrics of classes against scikit-learn, against cases counted by hand, and against calibrated draws."""

import pytest
import torch
from sklearn import metrics as peers

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.nn.heads import class_moments, softmax_moments
from lbnn.train import class_metrics as cm

DRAW = torch.Generator().manual_seed(0)
LOGITS = 2 * torch.randn(4000, 5, generator=DRAW, dtype=torch.float64)
PROBABILITY = torch.softmax(LOGITS, -1)
CALIBRATED = torch.multinomial(PROBABILITY, 1, generator=DRAW)[:, 0]


def test_the_usual_metrics_are_those_of_scikit_learn():
    p, y = PROBABILITY.numpy(), CALIBRATED.numpy()
    assert cm.accuracy(PROBABILITY, CALIBRATED) == pytest.approx(peers.accuracy_score(y, p.argmax(1)))
    assert cm.log_loss(PROBABILITY, CALIBRATED) == pytest.approx(peers.log_loss(y, p))
    flat = torch.nn.functional.one_hot(CALIBRATED, 5).double()
    assert cm.brier(PROBABILITY, CALIBRATED) == pytest.approx(float((PROBABILITY - flat).square().sum(1).mean()))
    assert cm.confusion(PROBABILITY, CALIBRATED).tolist() == peers.confusion_matrix(y, p.argmax(1)).tolist()


def test_the_area_under_the_roc_is_that_of_scikit_learn_with_ties_too():
    wrong = PROBABILITY.argmax(-1) != CALIBRATED
    entropy = cm.entropy_rows(PROBABILITY)
    for score in (entropy, (3 * entropy).round(), -entropy):
        assert cm.auroc(score, wrong) == pytest.approx(peers.roc_auc_score(wrong.numpy(), score.numpy()))
    assert cm.auroc(wrong.double(), wrong) == 1.0


def test_calibrated_draws_have_a_small_calibration_error_and_bold_ones_a_large_one():
    assert cm.expected_calibration_error(PROBABILITY, CALIBRATED) < 0.03
    bold = torch.softmax(3 * LOGITS, -1)
    assert cm.expected_calibration_error(bold, CALIBRATED) > 0.15


def test_the_calibration_error_of_a_case_counted_by_hand():
    p = torch.tensor([[0.95, 0.05], [0.95, 0.05], [0.35, 0.65], [0.25, 0.75]], dtype=torch.float64)
    y = torch.tensor([0, 1, 1, 1])
    sure, hits, rows = cm.reliability(p, y, bins=10)
    assert rows.tolist() == [1.0, 1.0, 2.0]
    assert hits.tolist() == [1.0, 1.0, 0.5]
    assert sure.tolist() == pytest.approx([0.65, 0.75, 0.95])
    assert cm.expected_calibration_error(p, y, bins=10) == pytest.approx((0.35 + 0.25 + 2 * 0.45) / 4)


def test_risk_falls_where_wrong_rows_are_the_unsure_ones():
    p = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.6, 0.4], [0.5, 0.5]])
    y = torch.tensor([0, 0, 0, 1])
    coverage, risk = cm.risk_coverage(p, y)
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert risk.tolist() == [0.0, 0.0, 0.0, 0.25]
    assert cm.area_under_risk(p, y) == pytest.approx(0.0625)
    _, turned = cm.risk_coverage(p, y, score=torch.tensor([3.0, 2.0, 1.0, 0.0]))
    assert turned.tolist() == [1.0, 0.5, pytest.approx(1 / 3), 0.25]


def test_rows_of_one_score_are_answered_together_in_whatever_order_they_come():
    p, y = torch.tensor([[0.8, 0.2]] * 4), torch.tensor([0, 1, 0, 1])
    for order in ([0, 1, 2, 3], [1, 3, 0, 2]):
        coverage, risk = cm.risk_coverage(p[order], y[order])
        assert coverage.tolist() == [1.0]
        assert risk.tolist() == [0.5]


def test_a_class_thought_impossible_costs_a_bounded_number_of_nats():
    assert cm.log_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1])) == pytest.approx(27.631, abs=1e-3)


def test_classes_of_a_head_are_scored_like_their_probabilities_and_one_label_like_two_classes():
    logits = Moments(LOGITS, torch.ones_like(LOGITS))
    found = softmax_moments(logits)
    assert cm.class_summary(found, CALIBRATED) == cm.class_summary(found.probability, CALIBRATED)
    one = class_moments(Moments(LOGITS[:, :1], torch.ones_like(LOGITS[:, :1])), "sigmoid")
    flag = (LOGITS[:, 0] > 0).long()
    assert cm.accuracy(one, flag) == 1.0


def test_the_limit_of_unsure_leaves_the_share_that_was_asked_for_above_it():
    found = softmax_moments(Moments(LOGITS, torch.ones_like(LOGITS)))
    limit = cm.unsure_limit(found, 0.1)
    assert float((found.entropy > limit).double().mean()) == pytest.approx(0.1, abs=1e-3)
    assert cm.unsure_limit(PROBABILITY, 0.1) == pytest.approx(float(cm.entropy_rows(PROBABILITY).quantile(0.9)))


def test_the_summary_prints_a_line_for_each_metric_and_is_plain_data():
    found = cm.class_summary(PROBABILITY, CALIBRATED)
    assert len(str(found).splitlines()) == len(found.as_dict()) == 6


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: cm.accuracy(PROBABILITY, CALIBRATED[:-1]), r"probabilities \(N, K\)"),
        (lambda: cm.accuracy(PROBABILITY, CALIBRATED.double()), "whole numbers"),
        (lambda: cm.accuracy(PROBABILITY[:0], CALIBRATED[:0]), "empty"),
        (lambda: cm.accuracy(PROBABILITY * float("nan"), CALIBRATED), "NaN"),
        (lambda: cm.accuracy(PROBABILITY, CALIBRATED + 1), "numbered from 0 to 4"),
        (lambda: cm.reliability(PROBABILITY, CALIBRATED, bins=0), "bins"),
        (lambda: cm.risk_coverage(PROBABILITY, CALIBRATED, torch.zeros(3)), "one finite number"),
        (lambda: cm.unsure_limit(PROBABILITY, 1.5), "false_alarms"),
        (lambda: cm.auroc(torch.zeros(2), torch.tensor([True, True])), "both kinds"),
    ],
)
def test_what_can_not_be_scored_is_refused_in_one_line(call, says):
    with pytest.raises(LbnnError, match=says) as error:
        call()
    assert "\n" not in str(error.value)
