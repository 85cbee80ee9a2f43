"""Layers that mirror `torch.nn` and carry a mean and a variance."""

from typing import Any

from torch import nn as _of_torch
from torch.nn import Identity, Sequential

from lbnn.base.advice import instead_of as _instead_of
from lbnn.nn.activations import Abs, LeakyReLU, ReLU
from lbnn.nn.base import BayesianLayer, Layer
from lbnn.nn.dropout import Dropout
from lbnn.nn.elu import CELU, ELU, SELU
from lbnn.nn.hardswish import Hardswish
from lbnn.nn.heads import SigmoidHead, SoftmaxHead, VarianceHead
from lbnn.nn.max_pooling import MaxPool1d, MaxPool2d
from lbnn.nn.piecewise import Clamp, Hardsigmoid, Hardtanh, Piecewise, PReLU, ReLU6
from lbnn.nn.pointwise import Pointwise
from lbnn.nn.pooling import AdaptiveAvgPool1d, AdaptiveAvgPool2d, AvgPool1d, AvgPool2d
from lbnn.nn.product import Multiply
from lbnn.nn.scaling import Affine, BatchNorm, BatchNorm1d, BatchNorm2d, Standardize
from lbnn.nn.smooth import GELU, Sigmoid, SiLU, Softplus, Tanh
from lbnn.nn.structure import Add, Concat, Constant, Flatten, ZeroPad1d, ZeroPad2d, cat
from lbnn.nn.transposed import ConvTranspose1d, ConvTranspose2d
from lbnn.nn.trees import take_apart_by_iteration
from lbnn.nn.upsampling import Upsample, UpsampleNearest, UpsamplingNearest2d
from lbnn.nn.weighted import Conv1d, Conv2d, Linear

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "SELU",
    "Abs",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "Add",
    "Affine",
    "AvgPool1d",
    "AvgPool2d",
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BayesianLayer",
    "Clamp",
    "Concat",
    "Constant",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "Dropout",
    "Flatten",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "Identity",
    "Layer",
    "LeakyReLU",
    "Linear",
    "MaxPool1d",
    "MaxPool2d",
    "Multiply",
    "PReLU",
    "Piecewise",
    "Pointwise",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SigmoidHead",
    "SoftmaxHead",
    "Softplus",
    "Standardize",
    "Tanh",
    "Upsample",
    "UpsampleNearest",
    "UpsamplingNearest2d",
    "VarianceHead",
    "ZeroPad1d",
    "ZeroPad2d",
    "cat",
]

take_apart_by_iteration()


def __getattr__(name: str) -> Any:
    """Of a layer that torch has and lbnn has not, what to use in its place."""
    kind = getattr(_of_torch, name, None)
    if isinstance(kind, type) and issubclass(kind, _of_torch.Module):
        raise AttributeError(f"lbnn.nn has no {name}: {_instead_of(name)}")
    raise AttributeError(f"module 'lbnn.nn' has no attribute {name!r}")
