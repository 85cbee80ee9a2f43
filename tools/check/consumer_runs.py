"""Runs models in one runtime of other people: python consumer_runs.py RUNTIME FOLDER...

A process of its own, because these packages bring their own libraries and settings. Each folder holds inputs.npz and
model.onnx, for ExecuTorch and LiteRT model.pt, a model file of lbnn, which goes there by torch.export. It gets
outputs.npz, or failed.txt with the message. The last line that is printed is the runtime's version.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]


def _names(model: Path) -> list[str]:
    import onnx

    return [output.name for output in onnx.load(model).graph.output]


def onnxruntime(model: Path, feed: Arrays) -> tuple[str, Arrays]:
    """The one that everybody has."""
    import onnxruntime as runtime

    found = runtime.InferenceSession(model).run(None, feed)
    return runtime.__version__, dict(zip(_names(model), found, strict=True))


def half(model: Path, feed: Arrays) -> tuple[str, Arrays]:
    """By onnxruntime's own tool; with a list of operators to leave out it makes files that do not load."""
    import onnx
    import onnxruntime as runtime
    from onnxruntime.transformers.float16 import convert_float_to_float16

    converted = convert_float_to_float16(onnx.load(model), keep_io_types=True, op_block_list=[])
    found = runtime.InferenceSession(converted.SerializeToString()).run(None, feed)
    return runtime.__version__, dict(zip(_names(model), found, strict=True))


def openvino(model: Path, feed: Arrays) -> tuple[str, Arrays]:
    """In float32: its default on some processors is bfloat16."""
    import openvino as runtime

    core = runtime.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled(feed)
    return runtime.__version__.split("-")[0], {name: found[compiled.output(name)] for name in _names(model)}


def mnn(model: Path, feed: Arrays) -> tuple[str, Arrays]:
    """By the compiled converter: its wrapper, MNN.tools, installs a package that reports to a server."""
    import _tools
    import MNN
    from MNN import expr, nn

    places = ["--modelFile", str(model), "--MNNModel", "model.mnn"]
    _tools.mnnconvert(["mnnconvert", "-f", "ONNX", *places, "--bizCode", "lbnn"])
    names = _names(model)
    network = nn.load_module_from_file("model.mnn", list(feed), names)
    inputs = []
    for values in feed.values():
        inputs.append(expr.placeholder(list(values.shape), expr.NCHW))
        inputs[-1].write(np.ascontiguousarray(values))
    found = [expr.convert(out, expr.NCHW).read() for out in network.forward(inputs)]
    return MNN.version(), dict(zip(names, found, strict=True))


def iree(model: Path, feed: Arrays) -> tuple[str, Arrays]:
    """Compiled for this processor by LLVM, once for batches of any size."""
    import iree.compiler as compiler
    import iree.runtime as runtime
    import onnx

    command = [sys.executable, "-m", "iree.compiler.tools.import_onnx", str(model), "-o", "model.mlir"]
    subprocess.run(command, check=True)
    program = compiler.compile_file("model.mlir", target_backends=["llvm-cpu"])
    module = runtime.load_vm_flatbuffer(program, driver="local-sync")
    call = module[onnx.load(model).graph.name]
    found = call(*feed.values())
    for whole, first in zip(found, call(*(values[:1] for values in feed.values())), strict=True):
        np.testing.assert_allclose(first.to_host(), whole.to_host()[:1], 1e-5, 1e-6, err_msg="another batch size")
    return _version("iree-base-compiler"), {name: out.to_host() for name, out in zip(_names(model), found, strict=True)}


def tvm(model: Path, feed: Arrays) -> tuple[str, Arrays]:
    """By Relax, for this processor."""
    import onnx
    import tvm as compiler
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    shapes = {name: list(values.shape) for name, values in feed.items()}
    module = from_onnx(onnx.load(model), shape_dict=shapes, keep_params_in_input=False)
    machine = relax.VirtualMachine(compiler.compile(module, target="llvm"), compiler.cpu())
    found = machine["main"](*map(compiler.runtime.tensor, feed.values()))
    return _version("apache-tvm"), {name: out.numpy() for name, out in zip(_names(model), found, strict=True)}


def emx(model: Path, feed: Arrays) -> tuple[str, Arrays]:
    """C for this batch size, a function `model` that the compiler of this host makes into a library."""
    import onnx

    rows = len(feed["input"])
    command = [sys.executable, "-m", "emx_onnx_cgen", "compile", "--input-dim", f"N={rows}", str(model), "network.c"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cc", "-std=c99", "-O1", "-shared", "-fPIC", "network.c", "-o", "network.so", "-lm"], check=True)
    shapes = {out.name: out.type.tensor_type.shape.dim[1:] for out in onnx.load(model).graph.output}
    found = {name: np.zeros((rows, *(dim.dim_value for dim in dims)), np.float32) for name, dims in shapes.items()}
    given = [np.ascontiguousarray(values, np.float32) for values in feed.values()]
    arrays = [*given, *found.values()]
    ctypes.CDLL(str(Path("network.so").resolve())).model(*(array.ctypes.data_as(ctypes.c_void_p) for array in arrays))
    return _version("emx-onnx-cgen"), found


NAMES = ("mean", "variance", "probability", "entropy", "aleatoric")


def _network(model: Path) -> Any:
    """The loaded network, with tensors as its outputs, in the order of NAMES."""
    import torch

    import lbnn

    class Outputs(torch.nn.Module):
        """Tensors alone."""

        def __init__(self) -> None:
            super().__init__()
            self.network = lbnn.load(model)

        def forward(self, *parts: torch.Tensor) -> tuple[torch.Tensor, ...]:
            out = self.network(parts[0] if len(parts) == 1 else lbnn.Moments(*parts))
            return tuple(out) if isinstance(out, lbnn.Moments) else (*out.logits, *tuple(out)[:3])

    return Outputs().eval()


def executorch(model: Path, feed: Arrays) -> tuple[str, Arrays]:
    """Its portable kernels, on what torch.export makes of the loaded network."""
    import torch
    from executorch.exir import to_edge
    from executorch.runtime import Runtime

    given = tuple(map(torch.from_numpy, feed.values()))
    Path("model.pte").write_bytes(to_edge(torch.export.export(_network(model), given)).to_executorch().buffer)
    found = Runtime.get().load_program("model.pte").load_method("forward").execute(list(given))
    return _version("executorch"), {name: out.numpy() for name, out in zip(NAMES, found, strict=False)}


def litert(model: Path, feed: Arrays) -> tuple[str, Arrays]:
    """A file for LiteRT, which was TensorFlow Lite, and its interpreter."""
    import litert_torch
    import torch
    from ai_edge_litert.interpreter import Interpreter

    given = tuple(torch.from_numpy(values) for values in feed.values())
    litert_torch.convert(_network(model), given).export("model.tflite")
    run = Interpreter(model_path="model.tflite").get_signature_runner()
    found = run(**dict(zip(sorted(run.get_input_details()), feed.values(), strict=True)))
    outputs = zip(NAMES, (found[f"output_{place}"] for place in range(len(found))), strict=False)
    return f"{_version('ai-edge-litert')}, litert-torch {_version('litert-torch')}", dict(outputs)


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


RUNTIMES: dict[str, Callable[[Path, Arrays], tuple[str, Arrays]]] = {
    "onnxruntime": onnxruntime,
    "float16": half,
    "openvino": openvino,
    "mnn": mnn,
    "iree": iree,
    "tvm": tvm,
    "emx": emx,
    "executorch": executorch,
    "litert": litert,
}


def run_in(runtime: str, folder: Path) -> str:
    """One model; the version of the runtime."""
    os.chdir(folder)
    with np.load("inputs.npz") as arrays:
        feed = dict(arrays)
    version, found = RUNTIMES[runtime](next(folder.glob("model.*")), feed)
    np.savez("outputs.npz", **{name: np.asarray(values) for name, values in found.items()})
    return version


def main(runtime: str, *folders: str) -> None:
    """One after the other; one that fails does not stop the next."""
    version = ""
    for folder in map(Path, folders):
        try:
            version = run_in(runtime, folder)
        except Exception as error:
            (folder / "failed.txt").write_text(f"{type(error).__name__}: {error}".strip().splitlines()[0][:120])
    print(version)


if __name__ == "__main__":
    main(*sys.argv[1:])
