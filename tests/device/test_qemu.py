"""An emulated board is as strict as the chip, and counts what the same function costs on its core."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lbnn.base.errors import LbnnError
from lbnn.device.boards import BOARDS
from lbnn.device.devices import run_model
from lbnn.device.emulated import QemuDevice
from lbnn.device.generated import GeneratedModel
from lbnn.device.qemu import QemuBoard
from lbnn.device.runs import EmulationFault
from tiny_net import BOARDS_READY, EMULATED, SOURCE, need_device, write_net


@pytest.mark.parametrize("name", BOARDS_READY)
def test_a_board_counts_what_the_same_function_costs_on_its_core(
    name: str, net: GeneratedModel, samples: np.ndarray
) -> None:
    board = run_model(need_device(name), net, samples[:50])
    core = BOARDS[name].core.name
    if core in EMULATED:
        alone = run_model(f"{core}-gcc", net, samples[:50])
        assert np.array_equal(board.instructions, alone.instructions)
        assert (board.sizes, board.stack_bytes, board.stack_bound) == (
            alone.sizes,
            alone.stack_bytes,
            alone.stack_bound,
        )


def test_code_for_a_floating_point_unit_faults_on_a_board_without_one(net: GeneratedModel) -> None:
    need_device("mps2-an386")
    wrong = QemuDevice(replace(BOARDS["mps2-an386"], machine="mps2-an385"))
    with pytest.raises(EmulationFault, match="ended with status 139: fault"):
        run_model(wrong, net, np.ones((1, 3), np.float32))


def test_an_unaligned_load_faults_on_the_strict_board(tmp_path: Path) -> None:
    need_device("microbit")
    load = '__asm volatile("ldr %0, [%1]" : "=l"(word) : "l"((const char *)input + 1));'
    source = SOURCE.replace("scale(input, work);", f"int word; {load} work[5] = (float)word; scale(input, work);")
    with pytest.raises(EmulationFault, match="microbit: the program ended with status 139: fault"):
        run_model("microbit", write_net(tmp_path, source=source), np.zeros((1, 3), np.float32))


@pytest.mark.parametrize("name", BOARDS_READY)
def test_what_main_returns_is_the_exit_status(name: str, tmp_path: Path) -> None:
    need_device(name)
    source = tmp_path / "main.c"
    source.write_text("static volatile int seven = 7, zero; int main(void) { return seven + zero; }\n")
    board = QemuBoard(BOARDS[name])
    assert board.run(board.build([source], tmp_path / "main.elf"), tmp_path, timeout=60).status == 7


@pytest.mark.parametrize("name", BOARDS_READY)
def test_an_instruction_that_no_processor_has_ends_with_fault_and_status_139(name: str, tmp_path: Path) -> None:
    need_device(name)
    source = tmp_path / "main.c"
    source.write_text("int main(void) { __builtin_trap(); }\n")
    board = QemuBoard(BOARDS[name])
    run = board.run(board.build([source], tmp_path / "main.elf"), tmp_path, timeout=60)
    assert (run.status, run.stderr) == (139, "fault\n")


def test_firmware_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    need_device("mps2-an386")
    source = tmp_path / "main.c"
    source.write_text('int main(void) { for (;;) __asm volatile(""); }\n')
    board = QemuBoard(BOARDS["mps2-an386"])
    with pytest.raises(EmulationFault, match="mps2-an386: the program did not end within 1 s"):
        board.run(board.build([source], tmp_path / "main.elf"), tmp_path, timeout=1)


def test_without_its_emulator_a_board_says_which_package_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(LbnnError, match="riscv-virt-rv32imac needs qemu-system-riscv32; apt install qemu-system-misc"):
        QemuBoard(BOARDS["riscv-virt-rv32imac"]).run(tmp_path / "image.elf", tmp_path)
