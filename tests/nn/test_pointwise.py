"""Pointwise: a function becomes a table, says how good it is, and comes back from a file without the function."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn


def test_known_values_are_those_of_the_function_and_beyond_the_range_of_its_lines():
    layer, x = bnn.Pointwise(torch.sin, range=(-3.0, 3.0)), torch.linspace(-3.0, 3.0, 50)[None]
    torch.testing.assert_close(layer(x), torch.sin(x), rtol=0.0, atol=1e-6)
    beyond = torch.tensor([[3.5, -5.0]])
    wanted = [np.sin(3.0) + 0.5 * np.cos(3.0), -np.sin(3.0) - 2.0 * np.cos(3.0)]
    torch.testing.assert_close(layer(beyond)[0], torch.tensor(wanted, dtype=torch.float32), rtol=0.0, atol=1e-5)


def test_a_layer_prints_its_name_its_range_and_its_cells():
    assert repr(bnn.Pointwise(F.mish)) == "Pointwise(mish, range=(-8, 8), cells=128)"
    assert repr(bnn.Pointwise(lambda x: x**2, (-1, 1.5), 40)) == "Pointwise(range=(-1, 1.5), cells=40)"
    assert repr(bnn.Pointwise(torch.sin, name="wave")) == "Pointwise(wave, range=(-8, 8), cells=128)"


def test_the_error_says_how_far_values_and_moments_are_from_the_function():
    fine, coarse = (bnn.Pointwise(torch.sinc, cells=cells).error() for cells in (256, 64))
    assert 0.0 < fine.value < 1e-6 < 5e-5 < coarse.value < 1e-3
    assert fine.sd < 1e-2 and coarse.sd > 3.0 * fine.sd and fine.wide_sd < 2e-4
    assert coarse.narrow == pytest.approx(1.0954 * 0.25, rel=1e-4) and "of the extent" in str(fine)


def test_a_kink_gets_a_warning_and_a_jump_an_error():
    with pytest.warns(UserWarning, match=r"abs: moments are up to .* take more cells, or Piecewise for kinks"):
        bnn.Pointwise(torch.abs)
    with pytest.raises(LbnnError, match="f jumps near x = "):
        bnn.Pointwise(torch.round)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.Pointwise(torch.log), r"f is not finite at x = -.*give a range in which it is"),
        (lambda: bnn.Pointwise(lambda x: x.sum()), r"f must return a tensor of the shape that it is given"),
        (lambda: bnn.Pointwise(lambda x: 3.0), "got float"),
        (lambda: bnn.Pointwise(lambda x: x - x.mean()), "a function of each number by itself"),
        (lambda: bnn.Pointwise(lambda x: x @ x @ x), "f can't be computed on a float64 tensor"),
        (lambda: bnn.Pointwise(3), "f must be a function of a tensor, got int"),
        (lambda: bnn.Pointwise(torch.exp, range=(0.0, 30.0)), "f passes 1e\\+06 within the range"),
        (lambda: bnn.Pointwise(lambda x: torch.sin(40.0 * x)), "% off, near x = .*take more cells"),
        (lambda: bnn.Pointwise(torch.sin, range=(2.0, 2.0)), "range must rise between"),
        (lambda: bnn.Pointwise(torch.sin, range=4.0), "range must be two numbers"),
        (lambda: bnn.Pointwise(torch.sin, cells=4), "cells must be an integer from 8 to 1024, got 4"),
    ],
)
def test_what_makes_no_sense_gets_one_line(call, message):
    with pytest.raises(LbnnError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_file_holds_numbers_alone_and_gives_the_layer_back(tmp_path):
    net = bnn.Sequential(bnn.Linear(3, 4), bnn.Pointwise(lambda x: torch.sin(x) + 0.1 * x), bnn.Linear(4, 2)).eval()
    lbnn.save(net, tmp_path / "net.pt", (3,))
    loaded, x = lbnn.load(tmp_path / "net.pt").eval(), torch.randn(5, 3)
    assert repr(loaded["1"]) == "Pointwise(range=(-8, 8), cells=128)"
    torch.testing.assert_close(tuple(loaded(x)), tuple(net(x)), rtol=0.0, atol=0.0)
    error = loaded["1"].error()
    assert error.value == 0.0 and 0.0 < error.wide_sd < 1e-4
    node = lbnn.read_model(tmp_path / "net.pt").graph.nodes[1]
    assert set(node.attrs) == {"start", "step", "values", "slopes"}
    assert {type(value) for value in (*node.attrs["values"], *node.attrs["slopes"])} == {float}
    assert len(str(node)) < 200


@pytest.mark.parametrize(
    ("f", "rises"), [(F.tanhshrink, True), (torch.atan, True), (F.softsign, True), (F.mish, False), (torch.cos, False)]
)
def test_a_layer_rises_if_no_cubic_falls(f, rises):
    assert bnn.Pointwise(f).rises is rises


def test_moments_train_through_it():
    net = bnn.Sequential(bnn.Linear(1, 8), bnn.Pointwise(torch.sin), bnn.Linear(8, 1))
    x = torch.randn(16, 1)
    out = net(Moments(x, torch.rand(16, 1)))
    (out.mean.square().sum() + out.var.sum()).backward()
    assert all(bool(torch.isfinite(p.grad).all()) and bool(p.grad.any()) for p in net.parameters())
