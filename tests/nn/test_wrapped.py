"""The model inside torch's wrappers, however they are nested."""

import pytest
import torch
from torch import nn

from lbnn import nn as bnn
from lbnn.nn.wrapped import unwrap

WRAPPINGS = {
    "none": lambda model: model,
    "parallel": nn.DataParallel,
    "compiled": torch.compile,
    "compiled around parallel": lambda model: torch.compile(nn.DataParallel(model)),
    "parallel around compiled": lambda model: nn.DataParallel(torch.compile(model)),
}


@pytest.mark.parametrize("wrap", WRAPPINGS.values(), ids=WRAPPINGS.keys())
def test_the_model_inside_is_found(wrap):
    model = bnn.Sequential(bnn.Linear(2, 1))
    assert unwrap(wrap(model)) is model


def test_a_wrapper_that_holds_no_module_is_the_model_itself():
    model = bnn.Linear(2, 1)
    model._orig_mod = "a name that means nothing here"
    assert unwrap(model) is model
