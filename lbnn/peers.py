"""Other compilers on the same moment graph, given to them as ONNX: emx-onnx-cgen and IREE, if they are on the PATH.

Both come from pip and may live in an environment of their own: `PATH=/there/bin:$PATH lbnn bench model.pt`. The C of
emx-onnx-cgen is counted on an emulated Cortex-M4F as ours is; IREE is timed on this host by its own benchmark.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.emulators import UnicornMachine, link_for_core
from lbnn.errors import LbnnError
from lbnn.images import image_sizes
from lbnn.parity import Cost
from lbnn.timing import Clock, Floats
from lbnn.toolchains import CORES, cross_gcc

CORE = CORES["cortex-m4"]
SECONDS = 600

# emx-onnx-cgen asks the heap for large temporaries; this one costs a few instructions and never gives back.
HEAP = """
#include <stddef.h>
static unsigned char heap[3 << 20] __attribute__((aligned(8)));
size_t heap_used;
void *malloc(size_t size) { void *p = heap + heap_used; heap_used += (size + 7) / 8 * 8; return p; }
void free(void *p) { (void)p; }
"""


def missing(*programs: str) -> str:
    """How to install what is not on the PATH, or nothing."""
    lacking = {PACKAGES[program] for program in programs if not shutil.which(program)}
    return f"pip install {' '.join(sorted(lacking))}" if lacking else ""


PACKAGES = {
    "emx-onnx-cgen": "emx-onnx-cgen",
    "iree-compile": "iree-base-compiler[onnx]",
    "iree-import-onnx": "iree-base-compiler[onnx]",
    "iree-benchmark-module": "iree-base-runtime",
}


def emx_missing() -> str:
    """What the row of emx-onnx-cgen needs."""
    return missing("emx-onnx-cgen") or cross_gcc(CORE).missing()


def iree_missing() -> str:
    """What the row of IREE needs."""
    return missing("iree-import-onnx", "iree-compile", "iree-benchmark-module")


def pin_batch(proto: Any, batch: int) -> Any:
    """The ONNX model for batches of one size, which lets compilers plan ahead."""
    import onnx

    pinned = onnx.ModelProto()
    pinned.CopyFrom(proto)
    del pinned.graph.value_info[:]
    for value in (*pinned.graph.input, *pinned.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    return pinned


def count_emx(proto: Any, inputs: Floats, flags: Sequence[str]) -> Cost:
    """What the C of emx-onnx-cgen costs on a Cortex-M4F for one of `inputs`; RAM is in `stack_bytes`, heap included."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "peer.onnx").write_bytes(pin_batch(proto, 1).SerializeToString())
        (folder / "heap.c").write_text(HEAP)
        _run(
            "emx-onnx-cgen", "compile", "--model-name", "peer", "--large-weight-threshold", "0", "peer.onnx", cwd=folder
        )
        sources = [folder / "peer.c", folder / "heap.c"]
        elf = link_for_core(CORE, sources, folder / "peer.elf", ["peer", "heap_used"], flags, [folder], "gcc")
        sizes = image_sizes(elf)
        machine = UnicornMachine(elf, CORE)
    arguments = [machine.alloc(_elements(value)) for value in (*proto.graph.input, *proto.graph.output)]
    machine.write(arguments[0], inputs[:1])
    machine.paint_stack()
    machine.call("peer", *arguments)
    heap = int(machine.read(machine.symbols.addresses["heap_used"], 1, np.uint32)[0])
    return Cost(machine.instructions, sizes.flash, 0, 0, machine.stack_used() + heap)


def _elements(value: Any) -> int:
    dims = value.type.tensor_type.shape.dim[1:]
    return int(np.prod([dim.dim_value for dim in dims]))


def iree_clock(proto: Any, batch: int, folder: Path) -> Clock:
    """IREE's own benchmark of the ONNX model compiled for this host, on one thread; `folder` must outlive the clock."""
    module = folder / f"{batch}.vmfb"
    (folder / "peer.onnx").write_bytes(pin_batch(proto, batch).SerializeToString())
    _run("iree-import-onnx", "peer.onnx", "-o", "peer.mlir", cwd=folder)
    target = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
    _run("iree-compile", "peer.mlir", *target, "--iree-llvmcpu-target-cpu=host", "-o", module.name, cwd=folder)
    shape = [batch, *(dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim[1:])]
    given = (f"--function={proto.graph.name}", f"--input={'x'.join(map(str, shape))}xf32=0.5")
    how = ("--device=local-sync", "--benchmark_min_time=0.05s", "--benchmark_format=json")

    def seconds() -> float:
        found = json.loads(_run("iree-benchmark-module", f"--module={module}", *given, *how, cwd=folder))["benchmarks"][
            0
        ]
        return float(found["real_time"]) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[found["time_unit"]]

    return seconds


def _run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode != 0:
        raise LbnnError(f"{command[0]} failed: {done.stderr.strip()[-300:]}")
    return done.stdout
