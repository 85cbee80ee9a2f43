"""Moments: arithmetic of independent variables, rows, intervals, what torch and a reader see of them."""

import copy
from statistics import NormalDist

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel.scatter_gather import gather, scatter
from torch.utils import _pytree as pytree

from lbnn import LbnnError, Moments
from lbnn import nn as bnn
from lbnn.base.moments import LAYER_INSTEAD, NoMomentsError


def some(*shape: int, seed: int = 0) -> Moments[torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return Moments(torch.randn(shape, generator=draw), torch.rand(shape, generator=draw))


def same(one: Moments, other: Moments) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_arithmetic_on_moments_is_that_of_independent_variables():
    x, y = Moments(torch.tensor([1.0]), torch.tensor([2.0])), Moments(torch.tensor([5.0]), torch.tensor([3.0]))
    assert (x + y, x - y) == (Moments(6.0, 5.0), Moments(-4.0, 5.0))
    assert (x + 1.0, 1.0 - x, 3 * x, x / 2, -x) == (
        Moments(2.0, 2.0), Moments(0.0, 2.0), Moments(3.0, 18.0), Moments(0.5, 0.5), Moments(-1.0, 2.0)
    )  # fmt: skip


OPERATIONS = {
    "m + x": lambda m, x: m + x,
    "x + m": lambda m, x: x + m,
    "m - x": lambda m, x: m - x,
    "x - m": lambda m, x: x - m,
    "m * x": lambda m, x: m * x,
    "x * m": lambda m, x: x * m,
    "m / x": lambda m, x: m / x,
    "-m": lambda m, x: -m,
    "m - m": lambda m, x: m - m,
    "torch.sub": lambda m, x: torch.sub(x, m),
    "flatten": lambda m, x: torch.flatten(m, 0),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_with_tensors_is_that_of_numbers_and_compiles(name):
    m, x, operation = some(2, 2), torch.tensor([[2.0, -3.0], [0.5, 1.0]]), OPERATIONS[name]
    out = operation(m, x)
    torch._dynamo.reset()
    compiled = torch.compile(operation, fullgraph=True, backend="eager")(m, x)
    for part, other in zip(out, compiled, strict=True):
        torch.testing.assert_close(part, other)
    if "torch" not in name and name != "flatten":
        signs = torch.tensor([[1.0, 1.0], [-1.0, -1.0]]) if name != "m - m" else torch.ones(2, 2)
        for sign in (1.0, -1.0):  # a two-point distribution has exactly these moments
            moved = operation(m.mean + sign * signs * m.sd, x)
            spread = (moved - out.mean).abs()
            expected = torch.zeros(2, 2) if name == "m - m" else out.sd
            torch.testing.assert_close(spread, expected, atol=1e-6, rtol=1e-5)


def test_autograd_takes_them_as_a_tuple_of_tensors():
    m = Moments(torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True))
    slopes = torch.autograd.grad((m.mean * m.var).sum(), m)
    assert [slope.tolist() for slope in slopes] == [[2.0] * 3, [1.0] * 3]
    torch.autograd.backward(m * 2, grad_tensors=(torch.ones(3), torch.ones(3)))
    assert m.mean.grad.tolist() == [2.0] * 3 and m.var.grad.tolist() == [4.0] * 3


def test_other_functions_of_torch_are_refused_with_what_to_do():
    for wrong in (lambda m: torch.relu(m), lambda m: torch.mul(m, m), lambda m: torch.div(torch.ones(4, 3), m)):
        with pytest.raises(LbnnError, match=r"has no moments|known values|times itself"):
            wrong(some(4, 3))
    with pytest.raises(TypeError):
        torch.ones(4, 3) @ some(4, 3)
    assert torch.ones(4, 3) != some(4, 3)


@pytest.mark.parametrize(
    "rows", [0, -1, slice(2, 5), [3, 1], torch.tensor([True, False] * 3), (slice(None), 1), ..., (2, 1), None]
)
def test_an_index_takes_rows_of_both_parts(rows):
    m = some(6, 2)
    assert same(m[rows], Moments(m.mean[rows], m.var[rows]))
    array = m.numpy()
    assert type(array[0]) is Moments and array[0].var.tolist() == m.var[0].tolist()


def test_one_number_has_no_rows_and_says_how_to_get_its_parts():
    for one in (some(3)[0], Moments(1.0, 2.0)):
        with pytest.raises(IndexError, match=r"tuple\(m\)"):
            one[0]
    with pytest.raises(IndexError, match="out of bounds"):
        some(3)[3]


def test_a_comparison_by_number_is_refused_rather_than_made_of_two_rows():
    """torch.testing takes elements of tuples by number."""
    with pytest.raises(IndexError, match=r"tuple\(m\)"):
        torch.testing.assert_close(some(4, 3), some(4, 3))
    torch.testing.assert_close(tuple(some(4, 3)), tuple(some(4, 3)))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.999])
def test_an_interval_holds_its_share_of_a_gaussian(level):
    m = some(5, 2).to(torch.float64)
    low, high = m.interval(level)
    for mean, sd, a, b in zip(*(part.flatten().tolist() for part in (m.mean, m.sd, low, high)), strict=True):
        normal = NormalDist(mean, sd)
        assert normal.cdf(a) == pytest.approx((1 - level) / 2) and normal.cdf(b) == pytest.approx((1 + level) / 2)


def test_an_interval_is_of_nine_tenths_and_refuses_what_is_no_share():
    m = some(2, 2)
    assert all(torch.equal(a, b) for a, b in zip(m.interval(), m.interval(0.9), strict=True))
    for level in (0.0, 1.0, 90, float("nan")):
        with pytest.raises(LbnnError, match="between 0 and 1"):
            m.interval(level)


def test_detach_to_and_numpy_are_those_of_both_parts():
    weight = torch.ones(2, requires_grad=True)
    m = Moments(weight * 2, weight * 3)
    assert m.mean.requires_grad and not m.detach().mean.requires_grad and not m.detach().var.requires_grad
    wide = m.to(torch.float64)
    assert (wide.mean.dtype, wide.var.dtype) == (torch.float64, torch.float64)
    for narrow in (m, m.to(torch.bfloat16)):
        array = narrow.numpy()
        assert type(array) is Moments and isinstance(array.mean, np.ndarray) and array.var.tolist() == [3.0, 3.0]
    assert torch.equal(m.sd, m.var.sqrt()) and torch.equal(m.std, m.sd)


@pytest.mark.parametrize(
    ("mean", "var", "text"),
    [
        (23.4, 0.64, "Moments(23.40 ± 0.80)"),
        (1234.5, 400.0, "Moments(1234 ± 20)"),
        (0.0123456, 1e-6, "Moments(0.0123 ± 0.0010)"),
        (5.0, 0.0, "Moments(5 ± 0)"),
        (1e20, 1.0, "Moments(1e+20 ± 1)"),
        (float("nan"), float("inf"), "Moments(nan ± inf)"),
        ([1.0, -2.0], [0.25, 4.0], "Moments([1.00 ± 0.50, -2.0 ± 2.0])"),
    ],
)
def test_it_reads_mean_and_sd(mean, var, text):
    parts = Moments(torch.tensor(mean, dtype=torch.float64), torch.tensor(var, dtype=torch.float64))
    assert repr(parts) == repr(parts.numpy()) == text


def test_large_moments_print_their_ends_and_their_shape():
    text = repr(some(100_000, 10))
    assert len(text) < 1000 and "..." in text and text.endswith("shape=(100000, 10))")


def test_what_has_no_numbers_prints_its_parts():
    seen = []
    torch.func.vmap(lambda x: seen.append(repr(Moments(x, x))) or x)(torch.ones(2, 2))
    assert (
        seen[0].startswith("Moments(mean=BatchedTensor") and repr(Moments("a", None)) == "Moments(mean='a', var=None)"
    )


class Both(torch.nn.Module):
    """Moments in and out: by name, unpacked and by rows."""

    def forward(self, x: Moments) -> Moments:
        mean, var = x
        return Moments(mean + x.var, var) + x[:1]


def test_torch_sees_through_them():
    m, expected = some(4, 3), Both()(some(4, 3))
    assert same(pytree.tree_map(lambda part: part * 2, m), Moments(m.mean * 2, m.var * 2))
    assert same(torch.func.vmap(lambda x: Moments(x.mean, x.var))(m), m)
    assert same(torch.compile(Both(), fullgraph=True, backend="aot_eager")(m), expected)
    for strict in (False, True):
        assert same(torch.export.export(Both(), (m,), strict=strict).module()(m), expected)
    assert same(torch.utils.data.default_collate([m[i] for i in range(4)]), m)
    for copied in (copy.deepcopy(m), m._replace()):
        assert type(copied) is Moments and same(copied, m)


def test_data_parallel_divides_and_joins_them(monkeypatch):
    """By the functions that it uses, with the copying between GPUs replaced."""
    module = torch.nn.parallel.scatter_gather
    monkeypatch.setattr(module.Scatter, "apply", lambda gpus, sizes, dim, x: x.chunk(len(gpus), dim))
    monkeypatch.setattr(module.Gather, "apply", lambda device, dim, *parts: torch.cat(parts, dim))
    m = some(4, 3)
    halves = scatter((m,), [0, 1])
    assert [half.shape for (half,) in halves] == [(2, 3), (2, 3)]
    assert same(gather([half for (half,) in halves], "cpu"), m)
    model = bnn.Linear(3, 2)
    assert same(torch.nn.DataParallel(model)(m), model(m))


INSTEAD = {
    "a layer": (lambda m: nn.ReLU()(m), NoMomentsError, r"torch's relu has no moments; make it .*: lbnn.nn.ReLU\(\)$"),
    "a pool": (lambda m: F.max_pool2d(m, 2), NoMomentsError, r"lbnn.nn.MaxPool2d\(size\)$"),
    "in place": (lambda m: torch.relu_(m), NoMomentsError, r"lbnn.nn.ReLU\(\)$"),
    "a view": (lambda m: m.view(m.shape[0], -1), AttributeError, r"no 'view'; use x.flatten\(1\)$"),
    "a shape": (lambda m: torch.reshape(m, (3, -1)), NoMomentsError, r"use x.flatten\(1\)$"),
    "a size": (lambda m: m.size(0), AttributeError, "no 'size'; use x.shape$"),
    "a device": (lambda m: m.cpu(), AttributeError, r"no 'cpu'; use x.to\("),
    "another function": (lambda m: torch.sin(m), NoMomentsError, "torch's sin has no moments; use a layer of lbnn.nn"),
    "a norm": (
        lambda m: nn.BatchNorm1d(2)(m),
        AttributeError,
        "batch norms use lbnn.nn.BatchNorm1d",
    ),
    "a linear layer": (lambda m: nn.Linear(2, 3)(m), NoMomentsError, r"lbnn.nn.Linear\(inputs, outputs\)$"),
    "a convolution": (lambda m: nn.Conv1d(2, 3, 1)(m), NoMomentsError, r"lbnn.nn.Conv1d\(channels, filters, size\)$"),
    "a transposed one": (lambda m: nn.ConvTranspose2d(2, 3, 1)(m), NoMomentsError, "lbnn.nn.ConvTranspose2d"),
    "dropout": (lambda m: nn.Dropout()(m), NoMomentsError, r"lbnn.nn.Dropout\(p\)$"),
    "@": (lambda m: m @ torch.ones(2, 2), NoMomentsError, r"^@ has no moments; make it .*: lbnn.nn.Linear\("),
    "@ behind": (lambda m: torch.ones(2, 3) @ m, NoMomentsError, r"^@ has no moments; make it .*: lbnn.nn.Linear\("),
    "**": (lambda m: m**2, NoMomentsError, r"^\*\* has no moments; .* lbnn.nn.Pointwise\(torch.square"),
    "a random exponent": (lambda m: 2**m, NoMomentsError, "exponent has no moments; use a layer of lbnn.nn"),
    "abs": (lambda m: abs(m), NoMomentsError, r"^abs has no moments; .* lbnn.nn.Abs\(\)$"),
    "float": (lambda m: float(m), NoMomentsError, r"use float\(m.mean\)"),
    "int": (lambda m: int(m), NoMomentsError, r"use float\(m.mean\)"),
    "a division": (lambda m: 1 / m, NoMomentsError, "division by a random value has no moments"),
    "a recurrent layer": (lambda m: nn.LSTM(2, 3)(m), AttributeError, r"use causal Conv1d \(docs/streams.md\)"),
    "attention": (lambda m: nn.MultiheadAttention(2, 1)(m, m, m), AttributeError, "for attention use convolutions"),
    "a layer norm": (lambda m: nn.LayerNorm(2)(m), NoMomentsError, "layer_norm has no .* use BatchNorm1d"),
    "a method": (lambda m: m.relu(), AttributeError, r"no 'relu'; make it .*: lbnn.nn.ReLU\(\)$"),
    "cat": (lambda m: torch.cat([m, m]), NoMomentsError, "use lbnn.cat"),
    "softmax": (lambda m: nn.Softmax(1)(m), NoMomentsError, "end the network in lbnn.nn.SoftmaxHead"),
    "a loss": (lambda m: nn.MSELoss()(m, torch.zeros(3, 2)), NoMomentsError, "use lbnn.losses.gaussian_nll"),
    "classes": (lambda m: nn.CrossEntropyLoss()(m, torch.zeros(3).long()), NoMomentsError, "losses.categorical_nll"),
}


@pytest.mark.parametrize("what", INSTEAD)
def test_what_takes_tensors_alone_says_what_to_use(what):
    call, kind, message = INSTEAD[what]
    with pytest.raises(kind, match=message):
        call(Moments(torch.zeros(3, 2), torch.ones(3, 2)))


def test_every_layer_that_is_named_in_place_of_a_function_is_there():
    assert all(hasattr(bnn, layer.partition("(")[0]) for layer in LAYER_INSTEAD.values())
