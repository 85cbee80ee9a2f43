"""Every layer becomes a Core ML program: coremltools converts what torch.jit.trace gives. Running it takes a Mac."""

import logging
import warnings

import pytest
import torch
from torch import Tensor, nn

from every_layer import every_layer, flat, network_of
from places import need_package


class Flat(nn.Module):
    """What torch.jit.trace can return: tensors."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(part * 2.0 for part in flat(self.network(x)))  # an output must not be the input itself


@pytest.fixture(scope="module")
def coremltools():
    logging.disable(logging.WARNING)  # that there is no Core ML here, and which versions of torch it knows
    yield need_package("coremltools")
    logging.disable(logging.NOTSET)


@pytest.mark.ecosystem(
    "torch: Core ML",
    "every layer, converted by coremltools; running it takes a Mac",
    package="coremltools",
    result="converts",
)
@pytest.mark.parametrize("name", every_layer())
def test_it_becomes_a_core_ml_program(name, coremltools):
    network, x = network_of(name)
    outputs = flat(network(x))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(Flat(network), (x,), check_trace=False)
        program = coremltools.convert(
            traced,
            inputs=[coremltools.TensorType(name="x", shape=x.shape)],
            convert_to="milinternal",
            compute_precision=coremltools.precision.FLOAT32,
            minimum_deployment_target=coremltools.target.iOS16,
        )
    found = [tuple(output.shape) for output in program.functions["main"].outputs]
    assert found == [tuple(output.shape) for output in outputs]
