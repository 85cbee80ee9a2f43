"""Layers have the names and the arguments of torch.nn: whoever writes torch's gets that, or an error that says what."""

import inspect

import pytest
import torch
from torch import nn

import lbnn
from lbnn import LbnnError
from lbnn import nn as bnn

MIRRORED = [name for name in bnn.__all__ if isinstance(getattr(nn, name, None), type)]
OTHERWISE = {
    ("Hardtanh", "min_value"): "which torch itself no longer wants: min_val",
    ("Hardtanh", "max_value"): "which torch itself no longer wants: max_val",
    ("BatchNorm1d", "bias"): "of newer torch alone; from_torch takes such layers",
    ("BatchNorm2d", "bias"): "of newer torch alone; from_torch takes such layers",
}
"""Arguments of torch that a layer does not have, and why."""


def positions(kind):
    """The names of arguments that have a place."""
    found = inspect.signature(kind).parameters.values()
    return [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


@pytest.mark.parametrize("name", MIRRORED)
def test_a_layer_takes_torch_s_arguments_in_torch_s_places(name):
    own, others = positions(getattr(bnn, name)), positions(getattr(nn, name))
    expected = [other for other in others if (name, other) not in OTHERWISE]
    assert own[: len(expected)] == expected


def test_every_exception_is_an_argument_that_torch_has_or_had():
    assert {name for name, _ in OTHERWISE} <= set(MIRRORED)
    assert not [key for key in OTHERWISE if key[1] in positions(getattr(bnn, key[0]))]


@pytest.mark.parametrize(
    "name",
    ["ReLU", "LeakyReLU", "ReLU6", "Hardtanh", "Hardsigmoid", "Hardswish", "ELU", "CELU", "SELU", "SiLU", "Dropout"],
)
def test_inplace_changes_nothing(name):
    x = torch.randn(4, 3)
    before, kind = x.clone(), getattr(bnn, name)
    torch.testing.assert_close(tuple(kind(inplace=True)(x)), tuple(kind()(x)))
    assert torch.equal(x, before)
    if not issubclass(kind, bnn.LeakyReLU):  # whose clamp may stand there
        with pytest.raises(LbnnError, match=r"inplace must be True or False, got 2\.0"):
            kind(inplace=2.0)


def test_torch_s_habits_are_understood():
    x = torch.tensor([[-2.0, 3.0]])
    assert bnn.ReLU(True)(x).tolist() == [[0.0, 3.0]] and bnn.LeakyReLU(0.5, True)(x).tolist() == [[-1.0, 3.0]]
    assert bnn.ReLU(2.0).clamp == bnn.LeakyReLU(0.1, 2.0).clamp == 2.0 and bnn.LeakyReLU(0.1, None).clamp is None
    assert bnn.ReLU(True).clamp is None and bnn.ELU(1.0, True).beta == 1.0
    assert bnn.Upsample(scale_factor=2, mode="nearest")(torch.ones(1, 1, 3)).shape == (1, 1, 6)
    assert bnn.BatchNorm2d(3, dtype=torch.float64).running_var.dtype is torch.float64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.ReLU6(2.0), r"ReLU6: inplace must be True or False, got 2.0; name other arguments"),
        (lambda: bnn.ReLU(clamp=True), "clamp must be a number or None, got True; torch's inplace=True"),
        (
            lambda: bnn.Upsample(2),
            r"Upsample: only mode=\"nearest\" .* as in scale_factor=2; the first argument is size",
        ),
        (lambda: bnn.UpsamplingNearest2d(2), "UpsamplingNearest2d: only .* as in scale_factor=2"),
        (lambda: bnn.Upsample(scale_factor=2, mode="bilinear"), 'only mode="nearest"'),
        (lambda: bnn.Upsample(scale_factor=2, align_corners=True), 'only mode="nearest"'),
        (lambda: bnn.Upsample(), "with a scale_factor"),
        (lambda: bnn.PReLU(0.25), "num_parameters must be 1, one learned slope .* got 0.25; .* init=0.25"),
        (lambda: bnn.PReLU(3), "num_parameters must be 1, one learned slope for all channels, got 3"),
        (lambda: bnn.Flatten(0), r"only Flatten\(1, -1\)"),
        (lambda: bnn.BatchNorm1d(3, affine=False), "affine=False is not supported"),
        (lambda: bnn.BatchNorm1d(3, momentum=None), "without running statistics and momentum"),
        (lambda: bnn.BatchNorm1d(3, track_running_stats=False), "without running statistics and momentum"),
        (lambda: bnn.AvgPool2d(2, divisor_override=3), "put an lbnn.nn.Affine behind the pool"),
    ],
)
def test_what_torch_s_arguments_would_mean_is_refused_in_a_line(call, message):
    with pytest.raises(LbnnError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_network_written_for_torch_needs_another_namespace_only():
    def network(nn):
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4, 1e-5, 0.1, True), nn.ReLU(True),
            nn.Upsample(None, 2, "nearest"), nn.MaxPool2d(2, 2), nn.PReLU(1, 0.1), nn.Flatten(1), nn.Linear(64, 2),
        )  # fmt: skip

    own, other = lbnn.from_torch(network(nn), pool_first=False), network(bnn)
    assert [type(layer) for layer in own] == [type(layer) for layer in other]
    x = torch.randn(3, 1, 4, 4)
    assert own.eval()(x).mean.shape == other.eval()(x).mean.shape == (3, 2)
