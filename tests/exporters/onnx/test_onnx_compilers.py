"""Other people's ONNX compilers take the file and give the same numbers.

Not part of an ordinary run: `pip install emx-onnx-cgen iree-base-compiler iree-base-runtime`, then
`pytest -m compilers`.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from test_onnx import SHA, assert_parity, cnn, inputs_of, mlp

from lbnn import Moments
from lbnn.exporters.onnx import to_onnx
from lbnn.graph.reference import predict

pytestmark = [pytest.mark.compilers, pytest.mark.parametrize("graph", [mlp(), cnn()], ids=["mlp", "cnn"])]


def test_emx_onnx_cgen_generates_c_that_agrees_with_onnxruntime(graph, tmp_path: Path):
    onnx.save(to_onnx(graph, SHA), tmp_path / "model.onnx")
    command = [sys.executable, "-m", "emx_onnx_cgen", "verify", "--input-dim", "N=1", "--max-ulp", "100", "model.onnx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "Result: OK" in done.stdout, done.stdout + done.stderr


def test_iree_compiles_it_for_any_batch_size(graph, tmp_path: Path):
    compiler, runtime = importlib.import_module("iree.compiler"), importlib.import_module("iree.runtime")
    onnx.save(to_onnx(graph, SHA), tmp_path / "model.onnx")
    command = [sys.executable, "-m", "iree.compiler.tools.import_onnx", "model.onnx", "-o", "model.mlir"]
    subprocess.run(command, cwd=tmp_path, check=True)
    program = compiler.compile_file(str(tmp_path / "model.mlir"), target_backends=["llvm-cpu"])
    module = runtime.load_vm_flatbuffer(program, driver="local-sync")
    for size in (1, 5):
        x, _ = inputs_of(graph, size, np.random.default_rng(size))
        mean, var = module[graph.name](x.astype(np.float32))
        assert_parity(Moments(mean.to_host(), var.to_host()), predict(graph, x))
