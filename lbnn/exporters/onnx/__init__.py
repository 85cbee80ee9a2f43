"""The ONNX exporter: a plain graph of standard operators."""

from lbnn.exporters.onnx.file import OPSETS, export_onnx, to_onnx

__all__ = ["OPSETS", "export_onnx", "to_onnx"]
