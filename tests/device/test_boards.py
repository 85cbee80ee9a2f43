"""Boards: QEMU knows them, their memories lie apart, and the firmware can read their clocks."""

import math
import re
import shutil
import subprocess
from itertools import pairwise

import pytest

from lbnn.base.resources import targets_folder
from lbnn.device.boards import BOARDS, Board, Timer
from lbnn.device.cores import CORES
from places import need
from tiny_net import OPTIONAL

EACH = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)


def is_tested(board: Board) -> bool:
    """QEMU for RISC-V is large: where it is not installed, it is not asked."""
    return board.core.family.name not in OPTIONAL or shutil.which(board.core.family.qemu.program) is not None


@pytest.mark.parametrize("board", filter(is_tested, BOARDS.values()), ids=lambda board: board.name)
def test_qemu_knows_the_machine(board: Board) -> None:
    listing = subprocess.run(
        [need(board.core.family.qemu.program), "-M", "help"], capture_output=True, text=True, check=True
    ).stdout
    assert board.machine in [line.split()[0] for line in listing.splitlines()[1:]]


@EACH
def test_the_core_is_one_of_the_table(board: Board) -> None:
    assert CORES[board.core.name] is board.core


@EACH
def test_rom_and_ram_lie_apart_and_hold_whole_kilobytes(board: Board) -> None:
    memory = board.memory
    constants = (memory.constants_base, memory.constants_size)
    regions = sorted([(memory.rom_base, memory.rom_size), (memory.ram_base, memory.ram_size), constants])
    assert all(first[0] + first[1] <= second[0] for first, second in pairwise(regions))
    assert not any(size % 1024 for _, size in regions)


@EACH
def test_firmware_can_read_the_clock(board: Board) -> None:
    known = re.findall(r"defined\(LBNN_TIMER_(\w+)\)", (targets_folder() / "timer.h").read_text())
    assert board.timer.kind in known, f"timer.h knows {known}"


@EACH
def test_the_clock_is_fast_enough_to_count_every_instruction(board: Board) -> None:
    """Both readings are rounded down, at any phase of the clock; what is between them must still be exact."""
    scale = board.timer.ticks_per_instruction
    for begin in range(100):
        for count in range(1, 100):
            ticks = math.floor((begin + count) * scale) - math.floor(begin * scale)
            assert round(ticks / scale) == count


def test_a_clock_is_named_to_the_driver_by_flags() -> None:
    timer = Timer("CMSDK", 0x40000000, 25e6)
    assert timer.flags == ("-DLBNN_TIMER_CMSDK", "-DLBNN_TIMER_BASE=0x40000000u")
    assert timer.ticks_per_instruction == 6.4
