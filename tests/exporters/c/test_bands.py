"""Convolutions computed by bands of rows: less memory and the same bits, with every kernel that may stand in a loop."""

import numpy as np
import pytest
import torch
from torch import nn

import lbnn
from lbnn import nn as bnn
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.bands import loops_of
from lbnn.model.file import read_model
from uneven import uneven


class Around(nn.Module):
    """A residual layer with something on elements in it."""

    def __init__(self, channels, *inner, turned=False):
        super().__init__()
        first, second = (bnn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.body, self.turned = bnn.Sequential(first, bnn.ReLU(), second, *inner), turned

    def forward(self, x):
        return x + self.body(x) if self.turned else self.body(x) + x


def affine(channels):
    ramp = torch.linspace(0.5, 1.5, channels).reshape(-1, 1, 1)
    return bnn.Affine(ramp, -ramp)


NETWORKS = {
    "averages": lambda: [bnn.Conv2d(2, 5, 3, padding=1), bnn.LeakyReLU(0.1), bnn.AvgPool2d(2)],
    "largest": lambda: [bnn.Conv2d(2, 5, 3, padding=1), bnn.LeakyReLU(0.1), bnn.MaxPool2d(2)],
    "gaps": lambda: [bnn.Conv2d(2, 5, 3, padding=2, dilation=2), affine(5), bnn.ELU(), bnn.AvgPool2d((2, 3), (3, 2))],
    "strides": lambda: [bnn.Conv2d(2, 5, (4, 2), stride=(2, 1), padding=(3, 0)), bnn.MaxPool2d((2, 1))],
    "pairs": lambda: [bnn.Conv2d(2, 8, 3, padding=1), bnn.LeakyReLU(0.1), bnn.AvgPool2d(2)],
    "groups": lambda: [bnn.Conv2d(2, 6, 3, padding=1, groups=2), bnn.ReLU(), bnn.AvgPool2d((3, 2))],
    "sum": lambda: [bnn.Conv2d(2, 5, 3, padding=1), bnn.ReLU(), Around(5), bnn.ReLU()],
    "sum turned": lambda: [bnn.Conv2d(2, 5, 3, padding=1), bnn.ReLU(), Around(5, bnn.ReLU(), turned=True)],
}
SHAPE = (2, 12, 9)


def model_of(name, variance="full"):
    torch.manual_seed(5)
    return read_model(uneven(bnn.Sequential(*NETWORKS[name](), bnn.Flatten()), variance), SHAPE)


@pytest.fixture
def unbanded(monkeypatch):
    """Exports without bands from here on."""

    def start():
        monkeypatch.setattr("lbnn.exporters.c.bands._candidates", lambda graph, small: iter(()))

    return start


FORMS = {
    "lanes": ("-O2",),
    "scalar": ("-O2", "-DLBNN_NO_SIMD"),
    "strict": ("-O2", "-DLBNN_NO_SIMD", "-DLBNN_STRICT"),
    "small": ("-Os", "-DLBNN_NO_SIMD", "-DLBNN_OPTIMIZE_SIZE"),
}
CHOSEN = [("full", form) for form in ("lanes", "scalar")] + [("rank1", form) for form in FORMS]


@pytest.mark.parametrize(("variance", "form"), CHOSEN)
@pytest.mark.parametrize("name", NETWORKS)
def test_bands_take_less_memory_and_give_the_same_bits(name, variance, form, unbanded):
    flags = FORMS[form]
    model, rng = model_of(name, variance), np.random.default_rng(3)
    x = rng.normal(size=(4, *SHAPE)).astype(np.float32)
    banded, got = lower(model, COptions()), lbnn.compile(model, flags=flags)(x)
    unbanded()
    whole, want = lower(model, COptions()), lbnn.compile(model, flags=flags)(x)
    assert loops_of(banded) and not loops_of(whole)
    assert banded.work_len < whole.work_len
    assert np.array_equal(got.mean, want.mean) and np.array_equal(got.var, want.var)


def test_a_pool_whose_windows_share_rows_has_no_band():
    """It would compute them twice."""
    layers = [bnn.Conv2d(2, 8, 3, padding=1), bnn.MaxPool2d(3, stride=2)]
    assert not loops_of(lower(read_model(bnn.Sequential(*layers), SHAPE), COptions()))


def test_bands_are_as_high_as_the_memory_allows():
    """The first convolution has more than it needs, because of the second, which does not."""
    layers = [bnn.Conv2d(1, 8, 3, padding=1), bnn.ReLU(), bnn.AvgPool2d(2)]
    layers += [bnn.Conv2d(8, 16, 3, padding=1), bnn.ReLU(), bnn.AvgPool2d(2), bnn.Flatten(), bnn.Linear(256, 10)]
    text = "\n".join(str(each) for layer in lower(read_model(bnn.Sequential(*layers), (1, 16, 16)), COptions()).layers
                     for each in layer.calls)  # fmt: skip
    assert "band < 4; band++) { const lbnn_conv_shape rows = lbnn_conv_band(&model_layer_0_shape, 4 * band, 4)" in text
    assert "band < 4; band++) { const lbnn_conv_shape rows = lbnn_conv_band(&model_layer_3_shape, 2 * band, 2)" in text


def test_one_call_averages_a_band_of_all_channels():
    """A call for each channel would cost M2 1.2 % of its instructions."""
    text = "\n".join(str(each) for layer in lower(model_of("averages"), COptions()).layers for each in layer.calls)
    assert "for (int band" in text and "for (int i" not in text


@pytest.mark.parametrize("options", [{"optimize": "size"}, {"dtype": "int8"}], ids=str)
def test_other_kernels_have_no_bands(options):
    assert not loops_of(lower(model_of("pairs"), COptions(**options)))
