"""A model computes the same bits on the host, on every emulated core and on every board, at a counted cost."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lbnn.base.errors import LbnnError
from lbnn.device.devices import (
    DEVICES,
    DeviceResult,
    EmulationFault,
    QemuDevice,
    UnicornMachine,
    find_device,
    link_for_core,
    run_model,
)
from lbnn.device.toolchains import BOARDS, CORES, firmware_files
from places import need

HEADER = """
#ifndef NET_H
#define NET_H
#define NET_INPUT_LEN  3
#define NET_OUTPUT_LEN 2
#define NET_WORK_LEN   6
typedef enum { LBNN_OK = 0, LBNN_ERROR_INPUT = -2 } lbnn_status;
lbnn_status net_predict(const float input[3], INPUT_VARIANCE float mean[2], float variance[2], float work[6]);
#endif
"""

# Every basic operation, a kernel that is inlined, a kernel that is called.
KERNELS = """
#include <math.h>
static inline void scale(const float *x, float *y) { for (int i = 0; i < 3; i++) y[i] = x[i] / 3.0f; }
__attribute__((noinline)) static void dot(const float *x, const float *w, float *mean, float *variance) {
    for (int o = 0; o < 2; o++) {
        float e = 0.0f, v = 1e-3f;
        for (int i = 0; i < 3; i++) { e += x[i] * w[3 * o + i]; v += x[i] * x[i] * 0.7f; }
        mean[o] = e; variance[o] = sqrtf(v);
    }
}
"""

SOURCE = """
#include "net.h"
#include "kernels.h"
static const float net_weights[6] = {0.5f, -1.25f, 3.0f, 0.1f, 2.0f, 0.3f};
lbnn_status net_predict(const float input[3], INPUT_VARIANCE float mean[2], float variance[2], float work[6]) {
    if (!isfinite(input[0])) return LBNN_ERROR_INPUT;
    scale(input, work);                     /* layer 1 */
    dot(work, net_weights, mean, variance); /* layer 2 */
    ADD_INPUT_VARIANCE
    return LBNN_OK;
}
"""

SELFTEST = """
#include "net.h"
int net_selftest(float work[6]) {
    const float input[3] = {0.0f, 0.0f, 3.0f};
    float mean[2], variance[2];
    return net_predict(input, mean, variance, work) != LBNN_OK || mean[0] != EXPECTED;
}
"""

# The RISC-V compiler and emulator take a gigabyte: where they are not installed, their devices are not tested.
READY = [name for name, device in DEVICES.items() if not ("rv32" in name and device.missing())]
EMULATED = [name for name, core in CORES.items() if core.unicorn]
BOARDS_READY = [name for name in BOARDS if name in READY]
GCC_CORES_READY = [f"{name}-gcc" for name in EMULATED if f"{name}-gcc" in READY]


def write_model(folder: Path, input_variance: bool = False, source: str = SOURCE) -> Path:
    argument = "const float input_variance[3]," if input_variance else ""
    add = "variance[0] += input_variance[0]; variance[1] += input_variance[2];" if input_variance else ""
    for name, text in (("net.h", HEADER), ("kernels.h", KERNELS), ("net.c", source.lstrip("\n"))):
        filled = text.replace("ADD_INPUT_VARIANCE", add).replace("INPUT_VARIANCE", argument)
        (folder / name).write_text(filled)
    return folder


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("net"))


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    random = np.random.default_rng(1)
    return (random.normal(size=(300, 3)) * 10.0 ** random.integers(-20, 18, (300, 1))).astype(np.float32)


def need_device(name: str) -> str:
    """Skips, or fails in CI, where the tools of an Arm device are missing."""
    if "rv32" in name:
        return name
    if name in GCC_CORES_READY or name in BOARDS:
        need("arm-none-eabi-gcc")
    if name in BOARDS:
        need("qemu-system-arm")
    if name == "c-clang":
        need("clang")
    return name


def bits(values: np.ndarray) -> np.ndarray:
    return values.view(np.uint32)


@pytest.fixture(scope="module")
def host(net: Path, samples: np.ndarray) -> DeviceResult:
    return run_model("c", net, "net", samples)


@pytest.mark.parametrize("name", READY)
def test_every_device_computes_the_bits_of_the_host(
    name: str, net: Path, samples: np.ndarray, host: DeviceResult
) -> None:
    result = run_model(need_device(name), net, "net", samples)
    assert np.array_equal(bits(result.mean), bits(host.mean))
    assert np.array_equal(bits(result.variance), bits(host.variance))
    assert not result.status.any() and result.work_bytes == 24


@pytest.mark.parametrize("name", ["c", "c-sanitized", "cortex-m0", "cortex-m4", "rv32imafc", "mps2-an386"])
def test_input_variances_reach_the_model(name: str, tmp_path: Path, samples: np.ndarray) -> None:
    folder = write_model(tmp_path, input_variance=True)
    plain = run_model(need_device(name), folder, "net", samples, np.zeros_like(samples))
    shifted = run_model(name, folder, "net", samples, np.full_like(samples, 2.0))
    assert np.array_equal(shifted.variance, plain.variance + np.float32(2.0))


@pytest.mark.parametrize("name", ["c", "c-sanitized", "cortex-m3", "mps2-an385"])
def test_the_status_of_each_sample_comes_back(name: str, net: Path) -> None:
    inputs = np.array([[1, 2, 3], [np.nan, 2, 3], [4, 5, 6]], np.float32)
    assert run_model(need_device(name), net, "net", inputs).status.tolist() == [0, -2, 0]


@pytest.mark.parametrize("name", BOARDS_READY)
def test_a_board_counts_what_the_same_function_costs_on_its_core(name: str, net: Path, samples: np.ndarray) -> None:
    board = run_model(need_device(name), net, "net", samples[:50])
    core = BOARDS[name].core
    if core in EMULATED:
        alone = run_model(f"{core}-gcc", net, "net", samples[:50])
        assert np.array_equal(board.instructions, alone.instructions)
        assert (board.sizes, board.stack_bytes, board.stack_bound) == (
            alone.sizes,
            alone.stack_bytes,
            alone.stack_bound,
        )


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
    result = run_model(name, write_model(tmp_path, source=LOOP), "net", np.zeros((5, 3), np.float32))
    assert result.instructions.tolist() == [2003] * 5


@pytest.fixture(scope="module", params=EMULATED)
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> UnicornMachine:
    folder = tmp_path_factory.mktemp("calls")
    return UnicornMachine(link_calls(folder, request.param, "zig"), CORES[request.param], limit=1_000_000)


CALLS = """
int weighted(int a, int b, int c, int d, int e, int f) { return a + 2*b + 3*c + 4*d + 5*e - 6*f; }
float mixed(int a, float x, int b, float y, float z) { return (float)a * x + (float)b * y - z; }
int load(const int *p) { return *p; }
int trap(void) { __builtin_trap(); }
int forever(void) { for (;;) __asm volatile(""); }
int jump(void (*f)(void)) { f(); return 1; }
int deep(int n) { volatile char frame[512]; frame[0] = 1; return n ? deep(n - 1) + frame[0] : 0; }
#if defined(__arm__) && __ARM_ARCH > 6
__attribute__((naked)) int skipped(int x) { __asm volatile("cmp r0, #0\\n it eq\\n moveq r0, #7\\n bx lr"); }
#else
int skipped(int x) { return x; }
#endif
"""


def link_calls(folder: Path, core: str, compiler: str) -> Path:
    (folder / "calls.c").write_text(CALLS)
    names = ["weighted", "mixed", "load", "trap", "forever", "jump", "deep", "skipped"]
    return link_for_core(CORES[core], [folder / "calls.c"], folder / "calls.elf", names, compiler=compiler)


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


def test_code_for_a_floating_point_unit_faults_on_a_board_without_one(net: Path) -> None:
    need_device("mps2-an386")
    wrong = QemuDevice(replace(BOARDS["mps2-an386"], machine="mps2-an385"))
    with pytest.raises(EmulationFault, match="ended with status 139: fault"):
        run_model(wrong, net, "net", np.ones((1, 3), np.float32))


def test_an_instruction_skipped_in_an_it_block_counts(tmp_path: Path) -> None:
    machine = UnicornMachine(link_calls(tmp_path, "cortex-m4", "zig"), CORES["cortex-m4"])
    for argument in (0, 1):
        machine.reset_counts()
        machine.call("skipped", argument)
        assert machine.instructions == 4


@pytest.mark.parametrize("core", ["cortex-m3", "rv32imac"])
def test_the_count_without_a_host_compiler_is_the_same(core: str, net: Path, tmp_path: Path) -> None:
    elf = link_for_core(CORES[core], [net / "net.c"], tmp_path / "net.elf", ["net_predict"], include=[net])
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


@pytest.mark.parametrize("name", ["cortex-m0", "cortex-m4", "rv32imafc", "cortex-m3-gcc", "cortex-m4-gcc"])
def test_the_profile_charges_each_layer_its_kernels_inlined_or_called(
    name: str, net: Path, samples: np.ndarray
) -> None:
    result = run_model(need_device(name), net, "net", samples[:10], profile=True)
    total = result.instructions.sum()
    assert sum(result.lines.values()) == sum(result.functions.values()) == total
    text = (net / "net.c").read_text().splitlines()
    layers = {number: result.lines[number] for number, line in enumerate(text, 1) if "/* layer" in line}
    divisions, products = 10 * 3, 10 * 6 * 3
    assert all(cost > least for cost, least in zip(layers.values(), (divisions, products), strict=True))
    assert sum(layers.values()) > 0.7 * total


@pytest.mark.parametrize("name", ["cortex-m4-gcc", "cortex-m7-gcc", "cortex-m33-gcc", "mps2-an386", "mps3-an547"])
@pytest.mark.parametrize("input_variance", [False, True])
def test_the_measured_stack_is_the_bound_from_the_call_graph(
    name: str, input_variance: bool, tmp_path: Path, samples: np.ndarray
) -> None:
    variances = samples[:9] ** 2 if input_variance else None
    result = run_model(need_device(name), write_model(tmp_path, input_variance), "net", samples[:9], variances)
    assert result.stack_bound is not None and not result.stack_bound.unknown
    assert [title.split(":")[-1].split(".")[0] for title in result.stack_bound.path] == ["net_predict", "dot"]
    assert result.stack_bytes == result.stack_bound.bytes > 0


def test_soft_float_functions_are_named_as_unknown_in_the_stack_bound(net: Path, samples: np.ndarray) -> None:
    need("arm-none-eabi-gcc")
    bound = run_model("cortex-m0-gcc", net, "net", samples[:1]).stack_bound
    assert bound is not None and "__aeabi_fmul" in bound.unknown


def test_flags_of_the_caller_win(net: Path, samples: np.ndarray) -> None:
    need("arm-none-eabi-gcc")
    plain, slow, fused = (
        run_model("cortex-m4-gcc", net, "net", samples[:1], flags=flags)
        for flags in ((), ("-O0",), ("-O2", "-std=gnu99", "-fno-math-errno"))
    )
    assert fused.instructions[0] < plain.instructions[0] < slow.instructions[0]  # gnu99 fuses multiply and add


def test_sanitizers_stop_a_write_out_of_bounds(tmp_path: Path) -> None:
    source = SOURCE.replace("scale(input, work);", "scale(input, work); work[6 + (int)input[1]] = 1.0f;")
    with pytest.raises(EmulationFault, match=r"c-sanitized: the program ended with status \d+: .*(overflow|bounds)"):
        run_model("c-sanitized", write_model(tmp_path, source=source), "net", np.zeros((1, 3), np.float32))


def test_an_unaligned_load_faults_on_the_strict_board(tmp_path: Path) -> None:
    need_device("microbit")
    load = '__asm volatile("ldr %0, [%1]" : "=l"(word) : "l"((const char *)input + 1));'
    source = SOURCE.replace("scale(input, work);", f"int word; {load} work[5] = (float)word; scale(input, work);")
    with pytest.raises(EmulationFault, match="microbit: the program ended with status 139: fault"):
        run_model("microbit", write_model(tmp_path, source=source), "net", np.zeros((1, 3), np.float32))


@pytest.mark.parametrize("name", BOARDS_READY)
def test_make_run_boots_the_firmware_and_its_status_is_the_selftest(name: str, tmp_path: Path) -> None:
    need_device(name)
    write_model(tmp_path)
    for file, text in firmware_files(BOARDS[name], "net").items():
        (tmp_path / file).write_text(text)
    for expected, status, words in (("3.0f", 0, "self-test passed"), ("3.5f", 2, "self-test FAILED")):
        (tmp_path / "net_selftest.c").write_text(SELFTEST.replace("EXPECTED", expected))
        run = subprocess.run([need("make"), "run"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert run.returncode == status and words in run.stderr


def test_an_unknown_device_and_a_missing_one_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LbnnError, match=r"unknown device 'cortex-m9'; known are c, .*mps2-an386"):
        find_device("cortex-m9")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(LbnnError, match=r"'mps2-an386' needs: apt install gcc-arm-none-eabi .*; apt install qemu"):
        find_device("mps2-an386")


def test_inputs_of_the_wrong_shape_are_refused(net: Path) -> None:
    with pytest.raises(LbnnError, match=r"inputs have shape \(2, 4\), but net wants \(2, 3\)"):
        run_model("c", net, "net", np.zeros((2, 4), np.float32))
