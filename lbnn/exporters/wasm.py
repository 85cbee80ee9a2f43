"""The generated C as a WebAssembly module of a few kilobytes, so that a web page can run the very code of the device.

It exports `predict()` and the addresses of `input`, `mean` and `variance` in its `memory`. Of a network with a head the
means are probabilities, and `decided` has entropy, mutual information and whether it is unsure. zig compiles it,
without any C library.
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
CLASSES_MAIN = """\
#include "model.h"

float input[MODEL_INPUT_LEN], mean[MODEL_OUTPUT_LEN], variance[MODEL_OUTPUT_LEN], decided[3];
static float work[MODEL_WORK_LEN];

int predict(void)
{
    model_decision decision = {0};
    const int status = (int)model_classify(input, mean, &decision, work);
    decided[0] = decision.entropy;
    decided[1] = decision.mutual_information;
    decided[2] = (float)decision.unsure;
    return status;
}
"""
EXPORTS = ("predict", "input", "mean", "variance")
CLASSES_EXPORTS = (*EXPORTS, "decided")
FLAGS = (
    *("-target", "wasm32-freestanding", "-ffreestanding", "-mbulk-memory", "-nostdlib", "-Oz"),
    *("-Wl,--no-entry", "-Wl,--strip-all"),
)


def missing() -> str:
    """What is lacking here and how to get it, or an empty text."""
    return TOOLCHAINS["zig"].missing()


def compile_wasm(model: Model) -> bytes:
    """The bytes of the module."""
    with temporary_folder() as temporary:
        main, names = (MAIN, EXPORTS) if model.graph.head is None else (CLASSES_MAIN, CLASSES_EXPORTS)
        folder = fill_folder(temporary / "c", {**generate(model, COptions(name="model")), "main.c": main})
        flags = (*FLAGS, *(f"-Wl,--export={name}" for name in names))
        sources = [folder / "model.c", folder / "main.c"]
        out = temporary / "model.wasm"
        return TOOLCHAINS["zig"].compile(sources, out, flags, [folder, targets_folder() / "freestanding"]).read_bytes()
