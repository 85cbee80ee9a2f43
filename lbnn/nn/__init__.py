"""Layers that mirror `torch.nn` and carry a mean and a variance."""

from torch.nn import Identity, Sequential

from lbnn.nn.base import BayesianLayer, Layer
from lbnn.nn.plain import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    Add,
    Affine,
    AvgPool1d,
    AvgPool2d,
    BatchNorm,
    BatchNorm1d,
    BatchNorm2d,
    Concat,
    Constant,
    Flatten,
    LeakyReLU,
    ReLU,
    Standardize,
    VarianceHead,
    ZeroPad1d,
    ZeroPad2d,
    cat,
)
from lbnn.nn.weighted import Conv1d, Conv2d, Linear

__all__ = [
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
    "Concat",
    "Constant",
    "Conv1d",
    "Conv2d",
    "Flatten",
    "Identity",
    "Layer",
    "LeakyReLU",
    "Linear",
    "ReLU",
    "Sequential",
    "Standardize",
    "VarianceHead",
    "ZeroPad1d",
    "ZeroPad2d",
    "cat",
]
