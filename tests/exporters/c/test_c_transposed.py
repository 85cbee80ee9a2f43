"""Transposed convolutions in C: their weights, what they count, and every way to write them."""

import numpy as np
import pytest
import torch

from c_models import generated
from lbnn import LbnnError, Moments
from lbnn import nn as bnn
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.footprint import footprint
from lbnn.exporters.c.shapes import TransposedShape
from lbnn.exporters.c.transposed import gathered
from lbnn.graph.reference import predict
from lbnn.model.file import read_model
from network_checks import assert_within_bound


def decoder():
    """An input with and without variance to it, batch norm behind it, groups, and one of stride 1."""
    torch.manual_seed(2)
    return bnn.Sequential(
        bnn.Standardize(0.5, 2.0),
        bnn.ConvTranspose2d(2, 6, 3, 2, 1, 1),
        bnn.BatchNorm(6),
        bnn.LeakyReLU(0.1),
        bnn.ConvTranspose2d(6, 9, (2, 3), (3, 2), (0, 1), groups=3),
        bnn.ReLU(),
        bnn.ConvTranspose2d(9, 1, 3, padding=1),
    ).eval()


def test_taps_are_turned_around_and_channels_stand_together():
    rows = np.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2)
    assert gathered(rows)[0].tolist() == [[[3, 7, 11], [2, 6, 10]], [[1, 5, 9], [0, 4, 8]]]


@pytest.mark.parametrize(("layer", "shape", "macs"), [
    (bnn.ConvTranspose1d(2, 3, 4, 2), (2, 5), 2 * 5 * 3 * 4),
    (bnn.ConvTranspose2d(4, 6, 2, 3, groups=2), (4, 3, 5), 4 * 15 * 3 * 4),
])  # fmt: skip
def test_every_input_meets_the_taps_of_its_channel(layer, shape, macs):
    assert footprint(lower(read_model(layer, shape), COptions())).macs == macs


@pytest.mark.parametrize("input_variance", [False, True])
@pytest.mark.parametrize("options", [dict(optimize="size"), dict(weights="binary"), {}], ids=str)
def test_a_network_of_them_is_the_same_however_it_is_written(options, input_variance, tmp_path):
    model = read_model(decoder(), (2, 3, 4))
    net = generated(model, tmp_path / "c", input_variance=input_variance, **options)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 2, 3, 4)).astype(np.float32)
    var = rng.exponential(size=x.shape).astype(np.float32) if input_variance else None
    flat = [part.reshape(4, -1) for part in (x, var) if part is not None]
    found = run_model("c", net, *flat, flags=("-DLBNN_OPTIMIZE_SIZE",) if "optimize" in options else ())
    true = predict(model.graph, x, var)
    got = Moments(*(part.reshape(true.mean.shape) for part in (found.mean, found.variance)))
    assert_within_bound(model.graph, got, x, var)


def test_kernels_are_chosen_by_stride_and_batch_norm_is_folded():
    program = lower(read_model(decoder(), (2, 3, 4)), COptions(input_variance=True))
    kernels = [call.kernel for layer in program.layers for call in layer.calls]
    assert [kernel for kernel in kernels if kernel != "lbnn_copy"] == [
        *("lbnn_affine", "lbnn_conv_transposed", "lbnn_leaky_relu"),
        *("lbnn_conv_transposed", "lbnn_leaky_relu", "lbnn_conv2d_3x3"),
    ]


def test_the_largest_number_of_a_shape_is_where_its_last_tap_lies():
    shape = TransposedShape(1, 1, 2, 1, 1, 90, 1, 30, 1, 7, 0, 2, 1, 3, 1)
    positions = [column + 2 - 29 * 3 + tap * 3 for column in range(90) for tap in range(31)]
    assert max(map(abs, positions)) <= shape.largest <= 4 * max(map(abs, positions))


def test_a_stream_refuses_them():
    model = read_model(bnn.ConvTranspose1d(2, 3, 4, 2), (2, 5))
    with pytest.raises(LbnnError, match=r"\(conv_transposed_point\) computes across time"):
        lower(model, COptions(stream=True))
