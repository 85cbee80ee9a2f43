"""The model as WebAssembly alone, so that a web page can run the very code of the device."""

from __future__ import annotations

from lbnn.device.compilers import TOOLCHAINS
from lbnn.exporters.c import COptions, generate
from lbnn.model.file import Model


def missing() -> str:
    """What is lacking here and how to get it, or an empty text."""
    return TOOLCHAINS["zig"].missing()


def compile_wasm(model: Model) -> bytes:
    """The module of `--package npm`."""
    module = generate(model, COptions(name="model", package="npm"))["model.wasm"]
    assert isinstance(module, bytes)
    return module
