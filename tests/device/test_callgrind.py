"""Instructions on this host are those of a prediction alone."""

import numpy as np
import pytest

from lbnn.device import callgrind
from lbnn.device.compilers import TOOLCHAINS
from lbnn.device.generated import GeneratedModel
from lbnn.device.runs import EmulationFault
from places import need
from tiny_net import SOURCE, write_net


@pytest.mark.parametrize("flags", [("-O2",), ("-O3", "-march=native")], ids=" ".join)
def test_callgrind_counts_predict_and_not_the_start_of_the_program(flags: tuple[str, ...], net: GeneratedModel) -> None:
    need("valgrind")
    inputs = np.ones((4, 3), np.float32)
    one, four = (callgrind.count(TOOLCHAINS["host"], net, inputs[:n], flags) for n in (1, 4))
    assert one == four
    assert 20 < one < 200


def test_more_work_is_more_instructions(net: GeneratedModel, tmp_path) -> None:
    need("valgrind")
    twice = write_net(tmp_path, source=SOURCE.replace("dot(", "dot(work, net_weights, mean, variance); dot("))
    inputs = np.ones((1, 3), np.float32)
    once, more = (callgrind.count(TOOLCHAINS["host"], model, inputs, ("-O2",)) for model in (net, twice))
    assert more > 1.3 * once


def test_a_program_that_fails_is_a_fault(tmp_path) -> None:
    need("valgrind")
    model = write_net(tmp_path, source=SOURCE.replace("scale(input, work);", "__builtin_trap();"))
    with pytest.raises(EmulationFault, match="callgrind ended with status"):
        callgrind.count(TOOLCHAINS["host"], model, np.ones((1, 3), np.float32), ("-O2",))
