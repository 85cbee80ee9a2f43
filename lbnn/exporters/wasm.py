"""The generated C as a WebAssembly module of a few kilobytes, so that a web page can run the very code of the device.

It exports `predict()` and the addresses of `input`, `mean` and `variance` in its `memory`. zig compiles it, without
any C library.
"""

from __future__ import annotations

from lbnn.base.files import fill_folder
from lbnn.base.resources import targets_folder
from lbnn.base.temporary import temporary_folder
from lbnn.device.compilers import TOOLCHAINS
from lbnn.exporters.c import COptions, generate
from lbnn.model.file import Model

MAIN = """\
#include "model.h"

float input[MODEL_INPUT_LEN], mean[MODEL_OUTPUT_LEN], variance[MODEL_OUTPUT_LEN];
static float work[MODEL_WORK_LEN];

int predict(void)
{
    return (int)model_predict(input, mean, variance, work);
}
"""
EXPORTS = ("predict", "input", "mean", "variance")
FLAGS = (
    *("-target", "wasm32-freestanding", "-ffreestanding", "-mbulk-memory", "-nostdlib", "-Oz"),
    *("-Wl,--no-entry", "-Wl,--strip-all", *(f"-Wl,--export={name}" for name in EXPORTS)),
)


def missing() -> str:
    """What is lacking here and how to get it, or an empty text."""
    return TOOLCHAINS["zig"].missing()


def compile_wasm(model: Model) -> bytes:
    """The bytes of the module."""
    with temporary_folder() as temporary:
        folder = fill_folder(temporary / "c", {**generate(model, COptions(name="model")), "main.c": MAIN})
        sources = [folder / "model.c", folder / "main.c"]
        out = temporary / "model.wasm"
        return TOOLCHAINS["zig"].compile(sources, out, FLAGS, [folder, targets_folder() / "freestanding"]).read_bytes()
