"""Transposed convolutions: torch's own in the mean, the moments of drawn weights, and what they refuse."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn

LAYERS = [
    (1, (4, 6, 4, 2, 1), (4, 5)),
    (1, (4, 2, 3, 5, 0, 3, 2), (4, 3)),  # a stride beyond the kernel, groups
    (2, (3, 4, (3, 2), (2, 1), (1, 0), (1, 0), 1, False), (3, 3, 4)),
    (2, (4, 4, 2, 2, 0, (1, 1), 4, True, (3, 2)), (4, 2, 3)),
]


def pair(rank, arguments):
    """A layer of ours and one of torch with its means."""
    torch.manual_seed(3)
    ours = getattr(bnn, f"ConvTranspose{rank}d")(*arguments)
    theirs = getattr(nn, f"ConvTranspose{rank}d")(*arguments)
    with torch.no_grad():
        theirs.weight.copy_(ours.weight_mu)
        if theirs.bias is not None:
            theirs.bias.copy_(ours.bias_mu)
    return ours, theirs


@pytest.mark.parametrize(("rank", "arguments", "shape"), LAYERS)
def test_the_mean_is_that_of_torch(rank, arguments, shape):
    ours, theirs = pair(rank, arguments)
    x = torch.randn(3, *shape)
    torch.testing.assert_close(ours(x).mean, theirs(x))
    torch.testing.assert_close(ours(Moments(x, torch.ones_like(x))).mean, theirs(x))


@pytest.mark.parametrize(("rank", "arguments", "shape"), LAYERS)
def test_drawn_weights_and_inputs_have_these_moments(rank, arguments, shape):
    """20,000 draws: a mean within 5 of its standard errors, a variance within a tenth."""
    ours, _ = pair(rank, arguments)
    draws, generator = 20_000, torch.Generator().manual_seed(4)
    x = Moments(torch.randn(1, *shape), 0.2 + torch.rand(1, *shape))
    params = ours.op_params()

    def drawn(value):
        noise = torch.randn((draws, *value.mean.shape), generator=generator)
        return value.mean + value.var.sqrt() * noise

    with torch.no_grad():
        function = F.conv_transpose1d if rank == 1 else F.conv_transpose2d
        geometry = (ours.stride, ours.padding, ours.output_padding, ours.groups, ours.dilation)
        one = lambda x, w: function(x, w, None, *geometry)
        bias = drawn(params["bias"]).reshape(draws, 1, -1, *[1] * rank)
        out = torch.vmap(one)(drawn(x), drawn(params["weight"])) + bias
        mean, var = ours(x)
    assert ((out.mean(0) - mean).abs() <= 5.0 * (var / draws).sqrt() + 1e-6).all()
    torch.testing.assert_close(out.var(0), var, rtol=0.1, atol=1e-6)


class Parts(nn.Module):
    """What torch.jit.trace can return: tensors."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return tuple(self.layer(x))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(("rank", "arguments", "shape"), LAYERS)
def test_a_traced_layer_gives_the_same(rank, arguments, shape):
    """It is written with slices there, which converters know."""
    ours, _ = pair(rank, arguments)
    x = torch.randn(2, *shape)
    traced = torch.jit.trace(Parts(ours), (x,), check_trace=False)
    torch.testing.assert_close(traced(x), tuple(ours(x)))


def test_a_new_layer_begins_as_torch_begins_its_own():
    torch.manual_seed(0)
    ours, theirs = bnn.ConvTranspose2d(64, 16, 4, 2, groups=4), nn.ConvTranspose2d(64, 16, 4, 2, groups=4)
    for mine, own in ((ours.weight_mu, theirs.weight), (ours.bias_mu, theirs.bias)):
        assert mine.shape == own.shape
        assert mine.abs().max().item() == pytest.approx(own.abs().max().item(), rel=0.2)
    assert ours.weight_var[0, 0, 0, 0].sqrt().item() == pytest.approx(0.1)
    assert ours.bias_rho.shape == (16,)


@pytest.mark.parametrize(("rank", "arguments", "shape"), LAYERS)
def test_a_saved_layer_comes_back(rank, arguments, shape, tmp_path):
    ours, _ = pair(rank, arguments)
    lbnn.save(ours, tmp_path / "net.pt", input_shape=shape)
    loaded = lbnn.load(tmp_path / "net.pt")
    (layer,) = loaded.layers
    assert type(layer) is type(ours) and repr(layer) == repr(ours)
    x = torch.randn(2, *shape)
    torch.testing.assert_close(tuple(loaded(x)), tuple(ours(x)), rtol=0.0, atol=0.0)


def test_all_its_gaussians_are_trained():
    torch.manual_seed(1)
    x = torch.randn(64, 2, 5)
    target = F.conv_transpose1d(x, torch.randn(2, 1, 4), None, 2, 1).flatten(1)
    model = bnn.Sequential(bnn.ConvTranspose1d(2, 1, 4, 2, 1), bnn.Flatten())
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    lbnn.fit(model, (x, target), epochs=80, batch_size=16, lr=0.05)
    assert all((parameter != before[name]).all() for name, parameter in model.named_parameters())
    with torch.no_grad():
        assert (model(x).mean - target).square().mean() < 0.1 * target.square().mean()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.ConvTranspose1d(2, 2, 3, padding_mode="reflect"), "padding_mode 'reflect'"),
        (lambda: bnn.ConvTranspose2d(3, 4, 3, groups=2), "can't be divided into 2 groups"),
        (lambda: bnn.ConvTranspose1d(2, 2, 0), "every size must be at least 1"),
        (lambda: bnn.ConvTranspose1d(2, 2, (1, 2)), "expected one number or 1"),
        (lambda: bnn.ConvTranspose1d(2, 2, 3)(torch.zeros(1, 3, 4)), "3 channels do not fit weight"),
        (lambda: bnn.ConvTranspose1d(2, 2, 3)(torch.zeros(1, 2)), "does not fit weight"),
        (lambda: bnn.ConvTranspose1d(2, 2, 3, 2, 0, 2)(torch.zeros(1, 2, 4)), "output_padding .* less than stride"),
        (lambda: bnn.ConvTranspose1d(2, 2, 3, 1, 3)(torch.zeros(1, 2, 4)), "leaves nothing of the result"),
        (lambda: bnn.ConvTranspose1d(2, 2, 3, 0)(torch.zeros(1, 2, 4)), "stride, dilation and groups must be"),
        (lambda: bnn.ConvTranspose1d(2, 2, 3, 1, -1)(torch.zeros(1, 2, 4)), "padding at least 0"),
    ],
)
def test_a_transposed_convolution_that_makes_no_sense_is_refused(call, message):
    with pytest.raises(LbnnError, match=message):
        call()
