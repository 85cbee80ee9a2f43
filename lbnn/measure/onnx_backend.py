"""The exported ONNX file in onnxruntime; imported only where both are installed."""

from __future__ import annotations

import onnxruntime as ort

from lbnn.exporters.onnx import to_onnx
from lbnn.exporters.onnx.file import CLASS_OUTPUTS
from lbnn.graph.passes import prepare
from lbnn.measure.parity import Answers, Outcome
from lbnn.measure.samples import Samples
from lbnn.model.file import Model


def run_onnx(model: Model, samples: Samples) -> Outcome:
    """The exported ONNX file in onnxruntime."""
    graph = prepare(model.graph, samples.var is not None)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    proto = to_onnx(graph, model.sha256).SerializeToString()
    session = ort.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    feeds = {"input": samples.mean} | ({} if samples.var is None else {"input_variance": samples.var})
    names = ["mean", "variance", *(() if graph.head is None else CLASS_OUTPUTS)]
    mean, var, *classes = session.run(names, feeds)
    return Outcome(mean, var, classes=Answers(*classes) if classes else None)
