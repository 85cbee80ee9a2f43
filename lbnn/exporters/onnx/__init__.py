"""The ONNX exporter: a plain graph of standard operators."""

from lbnn.exporters.onnx.file import export_onnx, to_onnx

__all__ = ["export_onnx", "to_onnx"]
