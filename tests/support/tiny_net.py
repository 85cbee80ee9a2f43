"""A model of two layers written by hand in the form of generated C, and the devices that can run it here."""

from pathlib import Path

from lbnn.device.avr import SimavrDevice
from lbnn.device.boards import BOARDS
from lbnn.device.cores import CORES
from lbnn.device.devices import DEVICES
from lbnn.device.emulated import QemuDevice, UnicornDevice
from lbnn.device.generated import GeneratedModel
from lbnn.device.machines import MachineDevice
from places import need

HEADER = """
#ifndef NET_H
#define NET_H
#define NET_INPUT_LEN  3
#define NET_OUTPUT_LEN 2
#define NET_WORK_LEN   6
typedef float net_work;
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


def write_net(folder: Path, input_variance: bool = False, source: str = SOURCE) -> GeneratedModel:
    """The model in a folder, with or without input variances."""
    argument = "const float input_variance[3]," if input_variance else ""
    add = "variance[0] += input_variance[0]; variance[1] += input_variance[2];" if input_variance else ""
    for name, text in (("net.h", HEADER), ("kernels.h", KERNELS), ("net.c", source.lstrip("\n"))):
        filled = text.replace("ADD_INPUT_VARIANCE", add).replace("INPUT_VARIANCE", argument)
        (folder / name).write_text(filled)
    return GeneratedModel(folder.resolve(), "net", 3, 2, 6, input_variance)


# The compiler and emulator of RISC-V take a gigabyte: where they are not installed, their devices are not tested.
OPTIONAL = ("riscv",)


def _family(name: str) -> str:
    device = DEVICES[name]
    core = device.board.core if isinstance(device, QemuDevice) else getattr(device, "core", None)
    return core.family.name if core else ""


READY = [name for name in DEVICES if not (_family(name) in OPTIONAL and DEVICES[name].missing())]
EMULATED = [name for name, core in CORES.items() if core.unicorn]
BOARDS_READY = [name for name in BOARDS if name in READY]
GCC_CORES_READY = [f"{name}-gcc" for name in EMULATED if f"{name}-gcc" in READY]


def need_device(name: str) -> str:
    """Skips, or fails in CI, where the tools of a device are missing."""
    device = DEVICES[name]
    if isinstance(device, UnicornDevice) and device.compiler.name == "gcc":
        need(device.core.family.gcc)
    if isinstance(device, QemuDevice):
        need(device.board.core.family.gcc)
        need(device.board.core.family.qemu.program)
    if isinstance(device, MachineDevice):
        if not device.machine.toolchain.available():
            need(device.machine.toolchain.name)
        need(device.machine.emulator)
    if isinstance(device, SimavrDevice):
        need("avr-gcc")
        need("simavr")
    if name == "c-clang":
        need("clang")
    return name
