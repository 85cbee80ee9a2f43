"""An emulated core takes arguments as C does, and a fault says what happened and where."""

from dataclasses import replace
from pathlib import Path

import pytest

from lbnn.base.errors import LbnnError
from lbnn.device.cores import CORES
from lbnn.device.firmware import link_for_core
from lbnn.device.runs import EmulationFault
from lbnn.device.unicorn import UnicornMachine
from tiny_net import EMULATED

CALLS = """
int weighted(int a, int b, int c, int d, int e, int f) { return a + 2*b + 3*c + 4*d + 5*e - 6*f; }
float mixed(int a, float x, int b, float y, float z) { return (float)a * x + (float)b * y - z; }
int load(const int *p) { return *p; }
int trap(void) { __builtin_trap(); }
int forever(void) { for (;;) __asm volatile(""); }
int jump(void (*f)(void)) { f(); return 1; }
int filled(int n) {
    volatile int frame[128];
    for (int i = 0; i < 128; i++) frame[i] = i;
    return n ? filled(n - 1) + frame[n] : frame[0];
}
int deep(int n) { volatile char frame[512]; frame[0] = 1; return n ? deep(n - 1) + frame[0] : 0; }
"""


def link_calls(folder: Path, core: str) -> Path:
    (folder / "calls.c").write_text(CALLS)
    names = ["weighted", "mixed", "load", "trap", "forever", "jump", "deep", "filled"]
    return link_for_core(CORES[core], [folder / "calls.c"], folder / "calls.elf", names)


@pytest.fixture(scope="module", params=EMULATED)
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> UnicornMachine:
    folder = tmp_path_factory.mktemp("calls")
    return UnicornMachine(link_calls(folder, request.param), CORES[request.param], limit=1_000_000)


def test_arguments_travel_in_registers_and_on_the_stack(machine: UnicornMachine) -> None:
    assert machine.call("weighted", 1, 2, 3, 4, 5, 6) == 19
    assert machine.call("weighted", 0, 0, 0, 0, 0, 1) == -6
    assert machine.call_float("mixed", 3, 1.5, -2, 0.25, 7.0) == -3.0


@pytest.mark.parametrize(
    ("function", "argument", "message"),
    [
        ("load", 0, r"forbidden read of address 0x00000000, at pc 0x[0-9a-f]{8} \(load\+0x[0-9a-f]+\)"),
        ("deep", 10_000_000, r"forbidden write to address 0x2f\w+, at pc 0x\w+ \(deep\+"),
        ("jump", 0x20000001, r"forbidden jump to address 0x2000000[01], at pc 0x2000000[01] \(no function"),
        ("forever", 0, r"forever did not return within 1000000 instructions, at pc 0x\w+ \(forever\+"),
        ("trap", 0, r"(INSN_INVALID|EXCEPTION)\), at pc 0x080000"),
    ],
)
def test_a_fault_names_what_happened_and_where(
    machine: UnicornMachine, function: str, argument: int, message: str
) -> None:
    with pytest.raises(EmulationFault, match=f"{machine.core.name}: .*{message}"):
        machine.call(function, argument)


def test_a_call_is_stopped_soon_after_its_limit(machine: UnicornMachine) -> None:
    machine.reset_counts()
    with pytest.raises(EmulationFault, match="forever did not return"):
        machine.call("forever")
    assert 1_000_000 < machine.instructions < 1_000_100


def _used(machine: UnicornMachine, calls: int) -> int:
    machine.paint_stack()
    machine.call("filled", calls)
    return machine.stack_used()


def test_the_deepest_stack_is_measured_to_the_word(machine: UnicornMachine) -> None:
    machine.paint_stack()
    assert machine.stack_used() == 0
    once, twice, thrice = (_used(machine, calls) for calls in (0, 1, 2))
    assert 512 <= once < twice < thrice < 3 * 600
    assert thrice - twice == twice - once


def test_buffers_end_where_their_memory_does(machine: UnicornMachine) -> None:
    first = machine.alloc(3)
    assert machine.alloc(1) == first + 16  # aligned to 8 bytes
    with pytest.raises(LbnnError, match="more than 64 MB of buffers; run fewer samples at once"):
        machine.alloc(17_000_000)
    machine.free_buffers()
    assert machine.alloc(1) <= first


def test_a_function_that_is_not_there_is_named(machine: UnicornMachine) -> None:
    with pytest.raises(LbnnError, match="no function absent in the image; was it removed as unused"):
        machine.call("absent")


@pytest.mark.parametrize("family", [CORES["cortex-m55"].family, replace(CORES["cortex-m4"].family, unicorn=None)])
def test_a_core_that_unicorn_does_not_know_is_sent_to_a_board(family, tmp_path: Path) -> None:
    elf = link_calls(tmp_path, "cortex-m4")
    core = replace(CORES["cortex-m55"], family=family)
    with pytest.raises(LbnnError, match="Unicorn has no cortex-m55; run it on a QEMU board"):
        UnicornMachine(elf, core)
