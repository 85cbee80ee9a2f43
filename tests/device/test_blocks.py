"""Instructions are counted exactly, whichever hook counts them."""

from pathlib import Path

import numpy as np
import pytest

from lbnn.device.cores import CORES, FAMILIES
from lbnn.device.devices import run_model
from lbnn.device.firmware import link_for_core
from lbnn.device.generated import GeneratedModel
from lbnn.device.unicorn import UnicornMachine
from tiny_net import BOARDS_READY, GCC_CORES_READY, need_device, write_net

LOOP = """
#include "net.h"
__attribute__((naked)) lbnn_status net_predict(const float *input, float *mean, float *variance, float *work) {
#ifdef __riscv
    __asm volatile("li a0, 1000\\n 1: addi a0, a0, -1\\n bnez a0, 1b\\n li a0, 0\\n ret");
#else
    __asm volatile(".syntax unified\\n ldr r0, =1000\\n 1: subs r0, #1\\n bne 1b\\n movs r0, #0\\n bx lr\\n .ltorg");
#endif
}
"""


@pytest.mark.parametrize("name", [*GCC_CORES_READY, *BOARDS_READY])
def test_the_count_of_a_known_loop_is_exact(name: str, tmp_path: Path) -> None:
    need_device(name)
    result = run_model(name, write_net(tmp_path, source=LOOP), np.zeros((5, 3), np.float32))
    assert result.instructions.tolist() == [2003] * 5


# Narrow and wide instructions of every kind that the first halfword tells apart, and how many they are.
LENGTHS = {
    "cortex-m4": ("mov.w r0, #1\\n add.w r0, r0, r0, lsl #2\\n strd r0, r0, [sp, #-8]\\n b.n 1f\\n 1: nop\\n bx lr", 6),
    "rv32imac": ("lui a0, 0x12345\\n c.mv a1, a0\\n c.mv a0, a1\\n c.addi a0, 1\\n c.addi4spn a1, sp, 8\\n ret", 6),
}


def test_every_family_that_unicorn_knows_has_such_instructions() -> None:
    known = {family.name for family in FAMILIES.values() if family.unicorn}
    lacking = known - {CORES[core].family.name for core in LENGTHS}
    assert not lacking, f"LENGTHS has no core of {sorted(lacking)}"


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("core", LENGTHS)
def test_instructions_of_both_lengths_are_told_apart(core: str, native: bool, tmp_path: Path) -> None:
    text, count = LENGTHS[core]
    (tmp_path / "f.c").write_text(f'__attribute__((naked)) int f(void) {{ __asm volatile("{text}"); }}\n')
    machine = UnicornMachine(
        link_for_core(CORES[core], [tmp_path / "f.c"], tmp_path / "f.elf", ["f"]), CORES[core], native=native
    )
    machine.call("f")
    assert machine.instructions == count


SKIPPED = """
__attribute__((naked)) int skipped(int x) { __asm volatile("cmp r0, #0\\n it eq\\n moveq r0, #7\\n bx lr"); }
"""


@pytest.mark.parametrize("native", [True, False])
def test_an_instruction_skipped_in_an_it_block_counts(native: bool, tmp_path: Path) -> None:
    (tmp_path / "skipped.c").write_text(SKIPPED)
    core = CORES["cortex-m4"]
    elf = link_for_core(core, [tmp_path / "skipped.c"], tmp_path / "skipped.elf", ["skipped"])
    machine = UnicornMachine(elf, core, native=native)
    for argument in (0, 1):
        machine.reset_counts()
        machine.call("skipped", argument)
        assert machine.instructions == 4


@pytest.mark.parametrize("core", ["cortex-m3", "rv32imac"])
def test_the_count_without_a_host_compiler_is_the_same(core: str, net: GeneratedModel, tmp_path: Path) -> None:
    elf = link_for_core(CORES[core], net.sources, tmp_path / "net.elf", ["net_predict"], include=[net.folder])
    counted = []
    for native in (True, False):
        machine = UnicornMachine(elf, CORES[core], native=native)
        machine.charge_calls_to("net_predict")
        buffers = [machine.alloc(6) for _ in range(4)]
        machine.write(buffers[0], np.array([1.5, -2, 3], np.float32))
        assert machine.call("net_predict", *buffers) == 0
        counted.append((machine.instructions, machine.executed(), machine.charged()))
    assert counted[0] == counted[1]
    assert counted[0][0] == sum(counted[0][1].values()) == sum(machine.profile().values())
