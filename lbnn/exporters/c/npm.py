"""The generated C as a WebAssembly module of a few kilobytes, and a package for Node and browsers around it.

The module exports `predict()` and the addresses of `input`, `mean` and `variance` in its `memory`. Of a network with a
head the means are probabilities, and `decided` has entropy, mutual information, whether it is unsure, and the label.
zig compiles it, without any C library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from lbnn.base.files import fill_folder
from lbnn.base.resources import targets_folder
from lbnn.base.templates import render
from lbnn.base.temporary import temporary_folder
from lbnn.device.compilers import TOOLCHAINS
from lbnn.exporters.c.view import ModelView

FLAGS = (
    *("-target", "wasm32-freestanding", "-ffreestanding", "-mbulk-memory", "-nostdlib", "-Oz"),
    *("-Wl,--no-entry", "-Wl,--strip-all"),
)


def npm(data: ModelView, files: Mapping[str, bytes | str]) -> dict[str, bytes | str]:
    """A package for npm: the module, what loads it, and its types."""
    names = ", ".join(json.dumps(_text_of(name)) for name in data.class_names)
    return {
        "package.json": render("c/npm/package.json.j2", model=data, package=data.name.lower()),
        f"{data.name}.js": render("c/npm/model.js.j2", model=data, class_names=names),
        f"{data.name}.d.ts": render("c/npm/model.d.ts.j2", model=data),
        f"{data.name}.wasm": build_module(data, files),
    }


def build_module(data: ModelView, files: Mapping[str, bytes | str]) -> bytes:
    """The bytes of the module."""
    flags = (*FLAGS, *(f"-Wl,--export={name}" for name in _exports(data)))
    with temporary_folder() as temporary:
        folder = fill_folder(temporary / "c", {**files, "main.c": render("c/npm/main.c.j2", model=data)})
        sources = [folder / f"{data.name}.c", folder / "main.c"]
        include = [folder, targets_folder() / "freestanding"]
        return TOOLCHAINS["zig"].compile(sources, temporary / "model.wasm", flags, include).read_bytes()


def _exports(data: ModelView) -> list[str]:
    asked = {
        "decided": data.head,
        "input_variance": data.input_variance,
        "low": data.calibration,
        "high": data.calibration,
        "is_unsure": data.calibration,
        "out_of_range": data.range,
    }
    return ["predict", "input", "mean", "variance", *(name for name, there in asked.items() if there)]


def _text_of(c_string: str) -> str:
    """The text of a C string whose bytes beyond plain ASCII are in octal."""
    data = re.sub(rb"\\(\d{3})", lambda found: bytes([int(found[1], 8)]), c_string[1:-1].encode())
    return data.decode("utf-8", "replace")
