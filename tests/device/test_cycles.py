"""Estimated cycles are the sum that the model states, counted by hand for short code; real ones come from the chip."""

import subprocess
from pathlib import Path

import pytest

from lbnn.base.resources import targets_folder
from lbnn.device import decoding
from lbnn.device.cores import CORES
from lbnn.device.cycles import PIPELINES, Cycles, estimate
from lbnn.device.decoding import decode, kind_of
from lbnn.device.firmware import link_for_core
from lbnn.device.unicorn import UnicornMachine
from places import need

KINDS = {
    "ldr": decoding.TRANSFER, "ldr.w": decoding.TRANSFER, "vldr": decoding.TRANSFER, "vstr": decoding.TRANSFER,
    "str": decoding.STORE, "strb": decoding.STORE, "ldrd": decoding.MULTIPLE, "strd": decoding.MULTIPLE,
    "pop": decoding.MULTIPLE, "vldmia": decoding.MULTIPLE, "vpush": decoding.MULTIPLE,
    "b": decoding.BRANCH, "bne": decoding.BRANCH, "bl": decoding.BRANCH, "cbnz": decoding.BRANCH,
    "bic": decoding.OTHER, "bfi": decoding.OTHER, "adds": decoding.OTHER, "it": decoding.OTHER, "vmrs": decoding.OTHER,
    "vadd.f32": decoding.FLOAT, "vmul.f32": decoding.FLOAT, "vcvt.s32.f32": decoding.FLOAT, "vnmul.f32": decoding.FLOAT,
    "vfma.f32": decoding.MULTIPLY_ADD, "vfms.f32": decoding.MULTIPLY_ADD, "vfnms.f32": decoding.MULTIPLY_ADD,
    "vmla.f32": decoding.MULTIPLY_ADD, "vnmls.f32": decoding.MULTIPLY_ADD,
    "vdiv.f32": decoding.FLOAT_DIVIDE, "vsqrt.f32": decoding.FLOAT_DIVIDE, "udiv": decoding.DIVIDE,
}  # fmt: skip


@pytest.mark.parametrize("mnemonic", KINDS)
def test_an_instruction_is_known_by_its_name(mnemonic):
    assert kind_of(mnemonic) == KINDS[mnemonic]


# Assembly, and its cycles on a Cortex-M4 and M7: low, high, and those of a wait state. Each ends with a return of one
# cycle, whose jump is not seen, for it leaves the image.
CODE = {
    "integers": ("adds r1, #1; adds r2, #1; adds r3, #1", (4, 4, 0), (2, 2, 0)),
    "loads one behind the other": ("ldr r1, [sp, #-4]; ldr r2, [sp, #-8]; ldr r3, [sp, #-12]", (5, 5, 0), (3, 3, 0)),
    "a load alone": ("ldr r1, [sp, #-4]; adds r2, #1", (4, 4, 0), (2, 2, 0)),
    "two words": ("ldrd r1, r2, [sp, #-8]", (4, 4, 0), (4, 4, 0)),
    "floats that need each other": ("vadd.f32 s0, s1, s2; vmul.f32 s3, s0, s0", (4, 4, 0), (3, 3, 0)),
    "floats that do not": ("vadd.f32 s0, s1, s2; vmul.f32 s3, s4, s4", (3, 3, 0), (2, 2, 0)),
    "a sum that is only added to": ("vadd.f32 s0, s1, s2; vfma.f32 s0, s3, s4", (3, 5, 0), (2, 4, 0)),
    "a factor that is needed": ("vadd.f32 s3, s1, s2; vfma.f32 s0, s3, s4", (4, 6, 0), (3, 5, 0)),
    "roots and divisions": ("vsqrt.f32 s0, s1; vdiv.f32 s2, s3, s4", (29, 29, 0), (29, 29, 0)),
    "a loop": ("movs r1, #5; 1: subs r1, #1; bne 1b", (20, 20, 4), (11, 11, 4)),
    "constants of two lines": (
        "adr r1, 2f; ldr r2, [r1]; ldr r3, [r1, #4]; ldr r2, [r1, #16]; b 3f; .balign 16; 2: .space 32; 3: nop",
        (10, 10, 3),
        (6, 6, 3),
    ),
}


def machine_of(core: str, text: str, folder: Path, native: bool = True) -> UnicornMachine:
    lines = "\\n ".join(text.split("; "))
    body = f'__asm volatile(".syntax unified\\n {lines}\\n bx lr");'
    (folder / "f.c").write_text(f"__attribute__((naked, aligned(16))) int f(void) {{ {body} }}\n")
    machine = UnicornMachine(
        link_for_core(CORES[core], [folder / "f.c"], folder / "f.elf", ["f"]), CORES[core], native=native
    )
    machine.count_constants()
    machine.call("f")
    return machine


@pytest.mark.parametrize("core", PIPELINES)
@pytest.mark.parametrize("name", CODE)
def test_the_cycles_of_short_code_are_those_of_the_stated_rules(name, core, tmp_path):
    text, *known = CODE[name]
    machine = machine_of(core, text, tmp_path)
    code = decode(machine.segments, machine.executed())
    found = estimate(PIPELINES[core], code, machine.executed(), machine.taken(), machine.lines)
    assert found == Cycles(*dict(zip(PIPELINES, known, strict=True))[core])


@pytest.mark.parametrize("name", ["a loop", "constants of two lines"])
def test_branches_and_lines_are_counted_without_a_host_compiler_too(name, tmp_path):
    counted = [machine_of("cortex-m4", CODE[name][0], tmp_path, native) for native in (True, False)]
    first, second = ((machine.taken(), machine.lines) for machine in counted)
    assert first == second


COUNTER = r"""
#include <stdint.h>
#include <stdio.h>
static uint32_t debug, lock, control, count;
static volatile uint32_t *find(uint32_t address)
{
    if (address == 0xE0001004u) count += RUNS * (control & 1u) * (debug >> 24 & 1u) * (lock == 0xC5ACCE55u) * 10u;
    if (address == 0xE000EDFCu) return &debug;
    if (address == 0xE0001FB0u) return &lock;
    return address == 0xE0001000u ? &control : &count;
}
#define LBNN_CYCLES_REGISTER(address) (*find(address))
#include "cycles.h"
int main(void)
{
    const int runs = lbnn_cycles_start();
    const uint32_t begin = lbnn_cycles();
    printf("%d %u\n", runs, (unsigned)(lbnn_cycles() - begin));
    return 0;
}
"""


@pytest.mark.parametrize(("runs", "printed"), [(1, "1 10\n"), (0, "0 0\n")])
def test_the_counter_of_a_chip_is_unlocked_and_started_and_one_that_stands_still_is_noticed(runs, printed, tmp_path):
    (tmp_path / "main.c").write_text(COUNTER)
    command = [need("cc"), "-std=c99", "-Wall", "-Wextra", "-Werror", f"-DRUNS={runs}u", f"-I{targets_folder()}"]
    subprocess.run([*command, "main.c", "-o", "main"], cwd=tmp_path, check=True)
    assert subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout == printed
