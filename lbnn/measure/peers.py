"""Other ways to the same moments, where pip has put them: emx-onnx-cgen, IREE and FastBNNs.

The first two compile the exported ONNX file and are looked for on the PATH, so that they may live in an environment of
their own: `PATH=/there/bin:$PATH lbnn bench model.pt`. The C of emx-onnx-cgen is counted on an emulated Cortex-M4F as
ours is; IREE is timed by its own benchmark. FastBNNs propagates moments in torch and has to be importable.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.base.temporary import temporary_folder
from lbnn.device.compilers import cross_gcc
from lbnn.device.cores import CORES
from lbnn.device.elf import image_sizes
from lbnn.device.firmware import link_for_core
from lbnn.device.unicorn import UnicornMachine
from lbnn.graph import Graph, Node
from lbnn.measure.cost import Cost
from lbnn.measure.timing import Clock, Run

CORE = CORES["cortex-m4"]
PROCESS_SECONDS = 600

# emx-onnx-cgen asks the heap for every large temporary before the first layer and gives them back behind the last; this
# one costs a few instructions and never gives back. It lies beyond an image's memory: MobileNetV1 0.25 takes 47 MB.
HEAP_BYTES = 56 << 20
HEAP = """
#include <stddef.h>
#include <string.h>
unsigned char *heap;
size_t heap_used;
void *malloc(size_t size) { void *p = heap + heap_used; heap_used += (size + 7) / 8 * 8; return p; }
void *calloc(size_t count, size_t size) { return memset(malloc(count * size), 0, count * size); }
void free(void *p) { (void)p; }
"""


def install_hint(*programs: str) -> str:
    """How to install what is not on the PATH, or nothing."""
    lacking = {PROVIDED_BY[program] for program in programs if not shutil.which(program)}
    return f"pip install {' '.join(sorted(lacking))}" if lacking else ""


PROVIDED_BY = {
    "emx-onnx-cgen": "emx-onnx-cgen",
    "iree-compile": "iree-base-compiler[onnx]",
    "iree-import-onnx": "iree-base-compiler[onnx]",
    "iree-benchmark-module": "iree-base-runtime",
}


def emx_missing() -> str:
    """What the row of emx-onnx-cgen needs."""
    return install_hint("emx-onnx-cgen") or cross_gcc(CORE).missing()


def iree_missing() -> str:
    """What the row of IREE needs."""
    return install_hint("iree-import-onnx", "iree-compile", "iree-benchmark-module")


def fastbnns_missing() -> str:
    """What the row of FastBNNs needs."""
    return "" if find_spec("fastbnns") else "pip install fastbnns"


PEERS = {"emx-onnx-cgen": emx_missing, "iree": iree_missing, "fastbnns": fastbnns_missing}
"""Their names as backends, and what each of them lacks here."""


def count_emx(proto: Any, inputs: Floats, flags: Sequence[str]) -> Cost:
    """What the C of emx-onnx-cgen costs on a Cortex-M4F for one of `inputs`; RAM is in `stack_bytes`, heap included."""
    with temporary_folder() as folder:
        (folder / "peer.onnx").write_bytes(_pinned(proto, 1).SerializeToString())
        (folder / "heap.c").write_text(HEAP)
        _run(
            "emx-onnx-cgen", "compile", "--model-name", "peer", "--large-weight-threshold", "0", "peer.onnx", cwd=folder
        )
        sources = [folder / "peer.c", folder / "heap.c"]
        elf = link_for_core(CORE, sources, folder / "peer.elf", ["peer", "heap", "heap_used"], flags, [folder], "gcc")
        sizes = image_sizes(elf)
        machine = UnicornMachine(elf, CORE)
    arguments = [machine.alloc(_elements(value)) for value in (*proto.graph.input, *proto.graph.output)]
    machine.write(arguments[0], inputs[:1])
    machine.write(machine.symbols.addresses["heap"], np.array([machine.alloc(HEAP_BYTES, np.uint8)], np.uint32))
    machine.paint_stack()
    machine.call("peer", *arguments)
    heap = int(machine.read(machine.symbols.addresses["heap_used"], 1, np.uint32)[0])
    if heap > HEAP_BYTES:
        raise LbnnError(f"emx-onnx-cgen takes {heap} bytes of heap, more than the {HEAP_BYTES} that are emulated")
    return Cost(machine.instructions, sizes.flash, 0, 0, machine.stack_used() + heap)


def _elements(value: Any) -> int:
    dims = value.type.tensor_type.shape.dim[1:]
    return int(np.prod([dim.dim_value for dim in dims]))


def iree_clock(proto: Any, batch: int, folder: Path) -> Clock:
    """IREE's own benchmark of the ONNX model compiled for this host, on one thread; `folder` must outlive the clock."""
    module = folder / f"{batch}.vmfb"
    (folder / "peer.onnx").write_bytes(_pinned(proto, batch).SerializeToString())
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


def fastbnns_lacks(graph: Graph) -> str:
    """Why its row can't have this network, or nothing."""
    return "" if all(len(node.inputs) == 1 for node in graph.nodes) else "its row is for chains of layers"


def bind_fastbnns(graph: Graph, inputs: Floats) -> Run:
    """A network of the graph's layers in FastBNNs; its weights are its own, the time does not depend on them."""
    import torch

    if lacks := fastbnns_lacks(graph):
        raise LbnnError(f"backend 'fastbnns' does not know this network: {lacks}")
    bayesian, types = import_module("fastbnns.bnn.base"), import_module("fastbnns.bnn.types")
    layers = torch.nn.Sequential(*map(_torch_layer, graph.nodes))
    network = bayesian.BNN(nn=layers, convert_in_place=True).eval()
    x = types.MuVar(torch.from_numpy(inputs))

    def run() -> Any:
        with torch.inference_mode():
            return network(x)

    return run


def _torch_layer(node: Node) -> Any:
    from torch import nn

    from lbnn.exporters.onnx.plain import plain_operator

    if node.op.removesuffix("_point") == "pad":
        (top, bottom), (left, right) = node.attrs["padding"]
        return nn.ZeroPad2d((left, right, top, bottom))
    operator, attrs = plain_operator(node)[0], node.attrs
    shape: Any = node.params["weight"].shape if node.params else ()
    if operator == "Gemm":
        return nn.Linear(shape[1], shape[0])
    if operator == "Conv":
        conv = nn.Conv2d if len(shape) == 4 else nn.Conv1d
        window = {key: attrs[key] for key in ("stride", "padding", "dilation", "groups")}
        return conv(shape[1] * attrs["groups"], shape[0], shape[2:], **window)
    if operator == "AveragePool":
        pool = nn.AvgPool2d if len(attrs["kernel_size"]) == 2 else nn.AvgPool1d
        return pool(attrs["kernel_size"], attrs["stride"])
    return nn.LeakyReLU(attrs["negative_slope"]) if operator == "LeakyRelu" else nn.Flatten()


def _pinned(proto: Any, batch: int) -> Any:
    from lbnn.exporters.onnx.plain import pin_batch

    return pin_batch(proto, batch)


def _run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False)
    if done.returncode != 0:
        raise LbnnError(f"{command[0]} failed: {done.stderr.strip()[-300:]}")
    return done.stdout
