"""Every layer of torch.nn that `lbnn.from_torch` replaces, with arguments that it takes and some that it refuses."""

from __future__ import annotations

from draws import Draw
from layer_choices import LAYERS, SLOPES, Arguments, Maker
from lbnn.ops import Shape

OURS = ("sigma", "clamp", "correlated", "dtype", "variance")
"""Arguments that torch's layers do not have."""


def _like(name: str, **refused: object) -> Maker:
    """The arguments of lbnn's own layer that torch's has too, and odd ones that only from_torch looks at.

    Torch's own constructor gets none that it would refuse itself.
    """

    def arguments(draw: Draw, shape: Shape) -> Arguments | None:
        made = LAYERS[name](draw.plain(), shape)
        if made is None:
            return None
        odd = {key: draw.odd(made.get(key), value) for key, value in refused.items()}
        return {key: value for key, value in {**made, **odd}.items() if key not in OURS}

    return arguments


def _batch_norm(draw: Draw, shape: Shape) -> Arguments:
    momentum, tracked = draw.odd(draw.pick([0.1, 0.5]), None), draw.odd(True, False)
    return dict(
        num_features=shape[0],
        eps=draw.pick([1e-5, 0.1]),
        momentum=momentum,
        affine=draw.flag(),
        track_running_stats=tracked,
    )


def _leaky_relu(draw: Draw, shape: Shape) -> Arguments:
    return dict(negative_slope=draw.odd(draw.pick(SLOPES), -0.1, 2.0), inplace=draw.flag())


def _relu(draw: Draw, shape: Shape) -> Arguments:
    return dict(inplace=draw.flag())


def _prelu(draw: Draw, shape: Shape) -> Arguments:
    """One slope; one for each channel is refused."""
    return dict(num_parameters=draw.odd(1, shape[0] + 1), init=draw.pick([0.25, -0.5, 1.5]))


def _threshold(draw: Draw, shape: Shape) -> Arguments:
    """Without a jump; with one it is refused."""
    place = draw.pick([0.0, 0.5])
    return dict(threshold=place, value=draw.odd(place, place + 1.0))


def _dropout(draw: Draw, shape: Shape) -> Arguments:
    return dict(p=draw.pick([0.1, 0.5]))


def _upsample(draw: Draw, shape: Shape) -> Arguments | None:
    made = LAYERS["Upsample"](draw.plain(), shape)
    return None if made is None else {**made, "mode": draw.odd("nearest", "bilinear")}


def _flatten(draw: Draw, shape: Shape) -> Arguments | None:
    if not draw.chance(3):
        return None
    return dict(start_dim=draw.odd(1, 0, 2), end_dim=draw.odd(-1, 1, -2))


def _elu(draw: Draw, shape: Shape) -> Arguments:
    return dict(alpha=draw.odd(draw.pick([1.0, 0.2, 3.0]), -1.0), inplace=draw.flag())


def _softshrink(draw: Draw, shape: Shape) -> Arguments:
    return dict(lambd=draw.pick([0.5, 0.1, 2.0]))


def _plain(draw: Draw, shape: Shape) -> Arguments:
    return {}


def _unknown(draw: Draw, shape: Shape) -> Arguments | None:
    """A layer that has no moments."""
    return {} if draw.odd(False, True) else None


TORCH_LAYERS: dict[str, Maker] = {
    "Linear": _like("Linear"),
    "Conv1d": _like("Conv1d", padding_mode="reflect"),
    "Conv2d": _like("Conv2d", padding_mode="circular"),
    "ConvTranspose1d": _like("ConvTranspose1d"),
    "ConvTranspose2d": _like("ConvTranspose2d"),
    "AvgPool1d": _like("AvgPool1d"),
    "AvgPool2d": _like("AvgPool2d", divisor_override=3),
    "MaxPool1d": _like("MaxPool1d"),
    "MaxPool2d": _like("MaxPool2d", return_indices=True),
    "AdaptiveAvgPool1d": _like("AdaptiveAvgPool1d", output_size=2),
    "AdaptiveAvgPool2d": _like("AdaptiveAvgPool2d", output_size=None),
    "ZeroPad1d": _like("ZeroPad1d"),
    "ZeroPad2d": _like("ZeroPad2d"),
    "BatchNorm1d": _batch_norm,
    "BatchNorm2d": _batch_norm,
    "LeakyReLU": _leaky_relu,
    "ReLU": _relu,
    "ReLU6": _relu,
    "Hardtanh": _like("Hardtanh"),
    "Hardsigmoid": _relu,
    "PReLU": _prelu,
    "Threshold": _threshold,
    "Flatten": _flatten,
    "Identity": _plain,
    "Dropout": _dropout,
    "Dropout1d": _dropout,
    "Dropout2d": _dropout,
    "Upsample": _upsample,
    "UpsamplingNearest2d": _like("UpsamplingNearest2d"),
    "Sigmoid": _plain,
    "Tanh": _plain,
    "SiLU": _relu,
    "GELU": _like("GELU"),
    "Softplus": _like("Softplus", threshold=2.0),
    "Softsign": _unknown,
    "ELU": _elu,
    "CELU": _elu,
    "SELU": _relu,
    "Hardswish": _relu,
    "Mish": _relu,
    "Tanhshrink": _plain,
    "LogSigmoid": _plain,
    "Softshrink": _softshrink,
}
