"""A value that is added to itself: the variance of the multiple that it is, on every backend."""

from __future__ import annotations

import re
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import lbnn
from lbnn import Moments
from lbnn import nn as bnn
from lbnn.graph import GraphBuilder
from lbnn.graph.passes import prepare
from lbnn.graph.reference import predict
from lbnn.measure.samples import draw_samples
from lbnn.model.file import read_model
from lbnn.model.trace import trace
from network_checks import AGREES, compare, runners

SHAPE = (2, 3)
COLUMN = torch.tensor([[0.5], [-3.0]])


class Sum(nn.Module):
    """Two random values of one input, and what a forward makes of them."""

    def __init__(self, make):
        super().__init__()
        torch.manual_seed(0)
        self.x, self.y, self.same = bnn.Conv1d(2, 2, 1, sigma=0.5), bnn.Conv1d(2, 2, 3, padding=1), nn.Identity()
        self.add, self.pad, self.act = bnn.Add(), bnn.ZeroPad1d((1, 0)), bnn.ReLU()
        self.copy, self.line, self.window = bnn.UpsampleNearest(1), bnn.LeakyReLU(1.0), bnn.AvgPool1d(1)
        self.make = make

    def forward(self, x):
        return self.make(self, self.x(x), self.y(x))


# forward, and the factors of x and y in what it means
SUMS = {
    "x + x": (lambda net, x, y: x + x, 2.0, 0.0),
    "x - x": (lambda net, x, y: x - x, 0.0, 0.0),
    "Add": (lambda net, x, y: net.add(x, x), 2.0, 0.0),
    "a multiple": (lambda net, x, y: x + x * 2, 3.0, 0.0),
    "two multiples": (lambda net, x, y: (1.0 + 3 * x) - x / 2, 2.5, 0.0),
    "through a layer that does nothing": (lambda net, x, y: x + net.same(x), 2.0, 0.0),
    "through an upsampling by 1": (lambda net, x, y: net.copy(x) + x, 2.0, 0.0),
    "through a slope of 1 and a window of 1": (lambda net, x, y: net.line(x) + net.window(x), 2.0, 0.0),
    "three times": (lambda net, x, y: x + x + x, 3.0, 0.0),
    "a factor for each channel": (lambda net, x, y: x + x * COLUMN, 1.0 + COLUMN, 0.0),
    "flattened": (lambda net, x, y: (x * 3).flatten(1) + x.flatten(1), 4.0, 0.0),
    "multiples flattened": (lambda net, x, y: (x * 3).flatten(1) + (x * COLUMN).flatten(1), 3.0 + COLUMN, 0.0),
    "padded": (lambda net, x, y: net.pad(x) - net.pad(x * 2 + 1.0), -1.0, 0.0),
    "with another between": (lambda net, x, y: (x + y) + x, 2.0, 1.0),
    "both twice": (lambda net, x, y: (x + y) - (y - x * 2), 3.0, 0.0),
    "none twice": (lambda net, x, y: x + y, 1.0, 1.0),
    "a function of it": (lambda net, x, y: net.act(x) + y, None, None),
}
MULTIPLES = {name: case for name, case in SUMS.items() if case[1] is not None}
INPUT = torch.randn(4, *SHAPE, generator=torch.Generator().manual_seed(1))


def expected(net, factors, shape):
    """The variance of a x + b y for x and y independent, in the place where the forward puts it."""
    variance = sum(factor**2 * part(INPUT).var for factor, part in zip(factors, (net.x, net.y), strict=True))
    if shape == (4, 2, 4):
        variance = nn.functional.pad(variance, (1, 0))
    return variance.reshape(shape).detach().numpy()


@pytest.mark.parametrize("name", MULTIPLES)
def test_the_variance_is_that_of_the_multiple(name):
    make, *factors = SUMS[name]
    net = Sum(make)
    out, told = predict(trace(net, SHAPE), INPUT.numpy()), net(INPUT)
    np.testing.assert_allclose(out.var, expected(net, factors, out.var.shape), rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(out.mean, told.mean.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["x + x", "x - x", "Add", "through a layer that does nothing", "none twice"])
def test_the_module_itself_knows_the_same_value(name):
    make, *factors = SUMS[name]
    net = Sum(make)
    np.testing.assert_allclose(net(INPUT).var.detach().numpy(), expected(net, factors, (4, 2, 3)), rtol=1e-5)


@pytest.mark.parametrize("name", SUMS)
def test_every_backend_agrees(name):
    model = read_model(Sum(SUMS[name][0]), SHAPE)
    samples, ways = draw_samples(model, 14, 0, True), runners(nn.Identity(), 1)
    for backend in ("torch", "onnx", "onnx-reference", *(["c"] if name in ("x + x", "both twice") else [])):
        assert compare(backend, ways[backend], model, samples).status == AGREES, backend


def test_a_file_may_hold_the_sum_itself():
    builder = GraphBuilder("sum", (3,), random=True)
    graph = builder.finish(builder.add("sum", "add", ["input", "input"]))
    x = Moments(np.ones((1, 3)), np.ones((1, 3)))
    out, folded = (predict(each, x.mean, x.var) for each in (graph, prepare(graph, True)))
    assert out.var.tolist() == folded.var.tolist() == [[4.0] * 3]
    assert [node.op for node in prepare(graph, True).nodes] == ["affine"]


def test_a_saved_network_is_right_where_its_module_can_not_know(tmp_path):
    make, *factors = SUMS["a multiple"]
    net = Sum(make)
    lbnn.save(net, tmp_path / "model.pt", SHAPE)
    loaded = lbnn.load(tmp_path / "model.pt")
    np.testing.assert_allclose(loaded(INPUT).var.detach().numpy(), expected(net, factors, (4, 2, 3)), rtol=1e-5)
    again = partial(predict, trace(loaded, SHAPE))
    np.testing.assert_allclose(again(INPUT.numpy()).var, loaded(INPUT).var.detach().numpy(), rtol=1e-5)


def test_elements_that_were_moved_apart_do_not_meet_themselves():
    net = Sum(lambda net, x, y: net.pad(x) + bnn.ZeroPad1d((0, 1))(x))
    out, var = predict(trace(net, SHAPE), INPUT.numpy()), net.x(INPUT).var.detach()
    apart = nn.functional.pad(var, (1, 0)) + nn.functional.pad(var, (0, 1))
    np.testing.assert_allclose(out.var, apart.numpy(), rtol=1e-5)


SAME_ALONE = ("x + x", "x - x", "Add", "through a layer that does nothing", "none twice", "a function of it")
"""Where the module has the variance of its graph."""


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_that_the_module_takes_for_independent_is_told_of_once(name, tmp_path):
    net = Sum(SUMS[name][0])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        lbnn.save(net, tmp_path / "model.pt", SHAPE)
        differs = not np.allclose(net(INPUT).var.detach(), lbnn.load(tmp_path / "model.pt")(INPUT).var.detach())
        trace(lbnn.load(tmp_path / "model.pt"), SHAPE)
    assert differs == (name not in SAME_ALONE)
    assert len(told) == differs
    if differs:
        assert re.match(r"add: a value is added to a multiple of itself.* write one multiple", str(told[0].message))
        assert "\n" not in str(told[0].message)


def test_nothing_is_told_of_parts_that_do_not_meet(recwarn):
    mask = torch.tensor([[1.0], [0.0]])
    net = Sum(lambda net, x, y: x * mask + x * (1.0 - mask))
    np.testing.assert_allclose(predict(trace(net, SHAPE), INPUT.numpy()).var, net(INPUT).var.detach(), rtol=1e-5)
    assert not recwarn.list
