"""AVR boards in simavr: cycles are exact, memories are those of the chip, and what does not fit is said in a line."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from c_models import generated
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.device.avr import AVR_BOARDS
from lbnn.device.compilers import CompileError
from lbnn.device.devices import run_model
from lbnn.device.generated import GeneratedModel
from lbnn.device.runs import EmulationFault
from lbnn.measure.cost import Cost
from lbnn.measure.verify import too_small
from lbnn.model.file import read_model
from tiny_net import SOURCE, need_device, write_net

WAITS = """
#include "net.h"
lbnn_status net_predict(const float input[3], float mean[2], float variance[2], float work[6]) {
    if (input[0] == 0.0f) __builtin_avr_delay_cycles(1000); else __builtin_avr_delay_cycles(201000);
    mean[0] = mean[1] = variance[0] = variance[1] = input[1]; (void)work;
    return LBNN_OK;
}
"""


@pytest.mark.parametrize("board", AVR_BOARDS)
def test_cycles_are_counted_exactly_also_where_the_timer_overflows(board: str, tmp_path: Path) -> None:
    inputs = np.array([[0, 1, 2], [1, 1, 2]], np.float32)
    result = run_model(need_device(board), write_net(tmp_path, source=WAITS), inputs)
    assert result.counted_cycles is not None and result.instructions is None
    short, long = map(int, result.counted_cycles)
    assert abs(long - short - 200_000) <= 4, "the branches differ by a jump"
    assert 1000 < short < 1500
    assert Cost(counted_cycles=short).counted == f"{short:,} cycles"


def test_samples_that_fill_several_images_come_back_in_order(tmp_path: Path) -> None:
    inputs = np.arange(3 * 1500, dtype=np.float32).reshape(1500, 3)
    result = run_model(need_device("mega2560"), write_net(tmp_path, source=WAITS.replace("201000", "10")), inputs)
    assert np.array_equal(result.mean[:, 0], inputs[:, 1]) and not result.status.any()


TOO_LARGE = {
    "flash": ("__attribute__((progmem)) const char net_table[32500] = {1};", "flash too small by "),
    "RAM": ("static char net_room[2000]; char *volatile net_here = net_room;", "RAM too small by "),
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_an_image_that_does_not_fit_is_refused_with_the_bytes(what: str, tmp_path: Path) -> None:
    more, said = TOO_LARGE[what]
    used = "net_table" if what == "flash" else "net_here"
    kept = f'__asm__ volatile("" :: "r"({used})); return LBNN_OK;'
    model = write_net(tmp_path, source=more + SOURCE.replace("return LBNN_OK;", kept))
    with pytest.raises(CompileError) as error:
        run_model(need_device("uno"), model, np.zeros((1, 3), np.float32))
    assert too_small(error.value).startswith(said)


WIDE = {
    "all": (
        (16, 30, 60, 60, 60),
        "has 77[0-9]{3} bytes of weights, and an AVR reads 65536 of its flash: use --weights half",
    ),
    "one": ((64, 64), "has a layer of 33[0-9]{3} bytes, and a compiler for AVR takes 32767: use --weights half"),
}


@pytest.mark.parametrize("what", WIDE)
def test_the_header_of_a_model_refuses_an_avr_that_can_not_reach_its_weights(what: str, tmp_path: Path) -> None:
    widths, said = WIDE[what]
    layers = [bnn.Linear(wide, narrow) for wide, narrow in pairwise(widths)]
    model = generated(read_model(bnn.Sequential(*layers), (widths[0],)), tmp_path / "c", name="net")
    with pytest.raises(CompileError, match=said) as error:
        run_model(need_device("mega2560"), model, np.zeros((1, widths[0]), np.float32))
    assert "weights" in too_small(error.value) or "layer" in too_small(error.value)


def test_a_stack_that_runs_into_variables_is_a_fault(tmp_path: Path) -> None:
    deep = "volatile char deep[1900]; for (int i = 0; i < 1900; i++) deep[i] = 0;"
    model = write_net(tmp_path, source=SOURCE.replace("scale(input, work);", f"{deep} scale(input, work);"))
    with pytest.raises(LbnnError, match="stack of net_predict runs into variables"):
        run_model(need_device("uno"), model, np.zeros((1, 3), np.float32))


def test_a_program_that_never_answers_is_a_fault(tmp_path: Path) -> None:
    hangs = SOURCE.replace("scale(input, work);", '__asm__ volatile("cli\\n sleep"); scale(input, work);')
    with pytest.raises(EmulationFault, match="uno: 0 results for 1 samples"):
        run_model(need_device("uno"), write_net(tmp_path, source=hangs), np.zeros((1, 3), np.float32))


def test_sizes_and_stack_are_those_of_the_model(net: GeneratedModel, samples: np.ndarray) -> None:
    result = run_model(need_device("uno"), net, samples[:2])
    assert result.sizes is not None and result.sizes.weights + result.sizes.data >= 24
    assert result.stack_bytes is not None and 8 < result.stack_bytes < 200
