"""Class probabilities of Gaussian logits against fine quadrature."""

import numpy as np
import pytest
import torch

from gumbel import all_rows, quadrature, sigmoid_truth, softmax
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.graph.reference import NUMPY
from lbnn.nn.heads import class_moments, softmax_moments
from lbnn.ops.heads import HEADS, find_head
from lbnn.ops.softmax import GUMBEL_NORMALS, KNOTS, narrow_class, sweep_points, wide_class

COUNTS = {2: (60, 0, 20), 3: (60, 20, 20), 10: (60, 30, 20), 5: (0, 0, 20), 20: (0, 0, 20), 30: (0, 0, 20)}
COUNTS |= {50: (0, 0, 20), 100: (12, 20, 20)}
ROWS = [row for classes, counts in COUNTS.items() for row in all_rows(classes, counts)]
TRUTH = [quadrature(mean, sigma) for mean, sigma in ROWS]


def moments(mean, sigma, dtype=torch.float32):
    return Moments(*(torch.as_tensor(np.atleast_2d(part), dtype=dtype) for part in (mean, np.square(sigma))))


def test_the_oracle_has_converged():
    for mean, sigma in ROWS[::20]:
        coarse, fine = quadrature(mean, sigma), quadrature(mean, sigma, 720)
        assert np.abs(coarse.probability - fine.probability).max() < 1e-9
        assert abs(coarse.aleatoric - fine.aleatoric) < 1e-9


def test_the_oracle_is_what_sampling_gives():
    mean, sigma = np.array([0.0, 1.0, -2.0]), np.array([0.3, 2.0, 6.0])
    p = softmax(mean + sigma * np.random.default_rng(0).normal(size=(400_000, 3)))
    truth, error = quadrature(mean, sigma), p.std(0) / np.sqrt(len(p))
    assert (np.abs(p.mean(0) - truth.probability) < 4 * error).all()
    entropies = -(p * np.log(np.maximum(p, 1e-300))).sum(1)
    assert abs(entropies.mean() - truth.aleatoric) < 4 * entropies.std() / np.sqrt(len(p))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_probabilities_are_the_mean_of_the_softmax_up_to_a_standard_deviation_of_20(dtype):
    for (mean, sigma), truth in zip(ROWS, TRUTH, strict=True):
        found = softmax_moments(moments(mean, sigma, dtype))
        assert np.abs(found.probability[0].double().numpy() - truth.probability).max() < 1.5e-3, (mean, sigma)
        assert abs(float(found.probability.double().sum()) - 1) < 1e-6


def test_one_wide_class_among_a_hundred_is_where_it_belongs():
    mean, var = torch.zeros(1, 100), torch.full((1, 100), 4.0)
    mean[0, 0], var[0, 0] = 10.0, 400.0
    truth = quadrature(mean[0], var[0].sqrt()).probability[0]
    assert float(softmax_moments(Moments(mean, var)).probability[0, 0]) == pytest.approx(truth, abs=1e-3)


def test_entropy_and_its_parts_are_those_of_the_truth():
    """Each class's F errs by up to 3e-4, which adds up where many have a part in the sum."""
    for (mean, sigma), truth in zip(ROWS, TRUTH, strict=True):
        found = softmax_moments(moments(mean, sigma))
        room = max(1e-2, 3.5e-4 * len(mean))
        for name in ("entropy", "aleatoric", "epistemic"):
            assert abs(float(getattr(found, name)) - getattr(truth, name)) < room, (name, mean, sigma)
        assert float(found.entropy) == pytest.approx(float(found.aleatoric + found.epistemic), abs=1e-6)


@pytest.mark.parametrize("kind", ["exact", "fast"])
def test_known_logits_give_the_softmax_exactly(kind):
    mean = torch.randn(50, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 4
    found = softmax_moments(Moments(mean, torch.zeros_like(mean)), kind)
    torch.testing.assert_close(found.probability, torch.softmax(mean, -1), rtol=1e-12, atol=1e-13)
    assert float(found.epistemic.max()) < 5e-4
    torch.testing.assert_close(softmax_moments(mean, kind).probability, found.probability)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_fast_kind_is_the_rule_of_thumb_that_the_docs_state(classes):
    """Near the truth it says little: a rule with another constant would be near, too."""
    rng = np.random.default_rng(classes)
    mean, sigma = rng.normal(size=(40, classes)) * 3, rng.uniform(0, 4, size=(40, classes))
    found, p = softmax_moments(moments(mean, sigma, torch.float64), "fast"), softmax(mean)
    np.testing.assert_allclose(found.probability, softmax(mean / np.sqrt(1 + np.pi * sigma**2 / 8)), atol=1e-12)
    information = 0.5 * np.log1p(sigma**2 * p * (1 - p)).sum(1)
    kept = information < found.entropy.numpy()  # where there is less entropy than that, all of it is epistemic
    assert kept.sum() > 10
    np.testing.assert_allclose(found.epistemic[kept], information[kept], atol=1e-9)


def test_the_fast_kind_is_near_for_small_variances():
    mean, sigma = np.array([0.3, -0.4, 1.0]), np.full(3, 0.1)
    truth, found = quadrature(mean, sigma), softmax_moments(moments(mean, sigma, torch.float64), "fast")
    assert np.abs(found.probability[0].numpy() - truth.probability).max() < 4e-4
    assert float(found.epistemic) == pytest.approx(truth.epistemic, rel=0.02)


@pytest.mark.parametrize("sigma", [0.0, 0.05, 0.3, 1.0, 3.0, 20.0])
def test_labels_have_the_mean_of_the_logistic_function_and_of_its_entropy(sigma):
    for mean in (-30.0, -5.0, -1.0, 0.0, 0.2, 2.0, 8.0):
        probability, aleatoric = sigmoid_truth(mean, sigma)
        found = class_moments(moments([mean], [sigma], torch.float64), "sigmoid")
        assert abs(float(found.probability) - probability) < 6e-6
        assert abs(float(found.aleatoric) - aleatoric) < 6e-5


def test_labels_are_independent_so_that_entropies_add():
    mean, sigma = np.array([0.5, -1.0, 3.0]), np.array([1.0, 0.2, 5.0])
    together = class_moments(moments(mean, sigma, torch.float64), "sigmoid")
    each = [class_moments(moments([m], [s], torch.float64), "sigmoid") for m, s in zip(mean, sigma, strict=True)]
    for part in ("entropy", "aleatoric", "epistemic"):
        assert float(getattr(together, part)) == pytest.approx(sum(float(getattr(one, part)) for one in each), abs=1e-4)


EXTREMES = [0.0, 1e-38, 1e-30, 1e-12, 1e-4, 0.49999, 0.5, 0.7, 400.0, 1e6, 1e20, 1e38]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("scale", [0.0, 1.0, 50.0, 1e4, 1e10])
def test_results_and_gradients_are_finite_everywhere(head, scale):
    draw = torch.Generator().manual_seed(1)
    var = torch.tensor(EXTREMES)[torch.randint(len(EXTREMES), (200, 4), generator=draw)]
    check_finite(torch.randn(200, 4, generator=draw) * scale, var, head)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(("classes", "scale"), [(100, 1e12), (200, 1e9)])
def test_so_are_those_of_many_classes_of_all_magnitudes(head, classes, scale):
    """Where one class is 1e18 wide, the gradient of the logarithm of another's 1e-23 is beyond float32."""
    draw = torch.Generator().manual_seed(3)
    var = 10 ** (torch.rand(100, classes, generator=draw) * 76 - 38)
    random = torch.randint(0, 2, var.shape, generator=draw)
    check_finite(torch.randn(100, classes, generator=draw) * scale, var * random, head)


def check_finite(mean, var, head):
    """Everything a head gives, and its gradients."""
    mean.requires_grad_()
    var.requires_grad_()
    found = class_moments(Moments(mean, var), head)
    for part in tuple(found)[:4]:
        assert torch.isfinite(part).all()
        assert (part >= 0).all()
    likely = found.probability.clamp_min(1e-24).log()
    for part in (found.probability.square().sum(), found.entropy.sum(), found.epistemic.sum(), likely.sum()):
        for grad in torch.autograd.grad(part, (mean, var), retain_graph=True):
            assert torch.isfinite(grad).all()


@pytest.mark.parametrize("head", HEADS)
def test_gradients_are_those_of_finite_differences(head):
    mean = torch.tensor([[0.3, -1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    var = torch.tensor([[0.2, 3.0, 30.0]], dtype=torch.float64, requires_grad=True)

    def parts(m, v):
        found = class_moments(Moments(m, v), head)
        return found.probability, found.entropy, found.aleatoric

    assert torch.autograd.gradcheck(parts, (mean, var), rtol=1e-4)


@pytest.mark.parametrize("head", HEADS)
def test_torch_in_float32_and_numpy_in_float64_agree(head):
    for mean, sigma in ROWS[:180:5]:
        logits = moments(mean, sigma)
        found = class_moments(logits, head)
        want = find_head(head).formula(NUMPY, Moments(*(part.double().numpy() for part in logits)))
        for one, other in zip(tuple(found)[:4], tuple(want)[:4], strict=True):
            assert np.abs(one.double().numpy() - other).max() < 1e-5


def test_both_forms_of_a_class_agree_where_they_meet():
    logits = Moments(np.array([[0.0, 1.0]]), np.array([[0.5, 0.5]]))
    rest, _ = sweep_points(NUMPY, logits)
    assert rest.shape == (1, KNOTS, 2)
    for one, other, room in zip(
        narrow_class(NUMPY, rest, logits), wide_class(NUMPY, rest, logits), (7e-4, 1.5e-3, 4e-3), strict=True
    ):
        assert np.abs(one - other).max() < room


def test_the_normals_have_the_mean_and_the_variance_of_gumbel_noise():
    weight, mean, sd = np.array(GUMBEL_NORMALS).T
    assert weight.sum() == pytest.approx(1, abs=1e-12)
    centre = weight @ mean
    assert centre == pytest.approx(0.5772156649, abs=1e-5)
    assert weight @ (sd**2 + mean**2) - centre**2 == pytest.approx(np.pi**2 / 6, abs=1e-5)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: softmax_moments(torch.zeros(3, 1)), "2 or more logits.*SigmoidHead"),
        (lambda: softmax_moments(torch.zeros(3)), r"shape \(N, K\)"),
        (lambda: softmax_moments(torch.zeros(3, 2), "quick"), "exact or fast"),
        (lambda: softmax_moments(Moments(torch.zeros(3, 2), torch.zeros(3, 1))), "variances of the same"),
        (lambda: find_head("argmax"), "softmax, softmax_fast, sigmoid"),
    ],
)
def test_what_has_no_classes_is_refused_in_one_line(call, says):
    with pytest.raises(LbnnError, match=says) as error:
        call()
    assert "\n" not in str(error.value)
