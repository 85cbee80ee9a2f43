"""`lbnn.compile`: the generated C, compiled for this host, as a function of numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.classes import Classes
from lbnn.base.errors import LbnnError
from lbnn.base.files import fill_folder
from lbnn.base.moments import Moments
from lbnn.base.templates import render
from lbnn.base.temporary import temporary_folder
from lbnn.device.compilers import TOOLCHAINS
from lbnn.exporters.c import COptions
from lbnn.exporters.c.folder import generate_program
from lbnn.exporters.c.lower import lower
from lbnn.exporters.c.view import view
from lbnn.model.file import Model, read_model
from lbnn.ops import Shape

if TYPE_CHECKING:
    from torch import nn


FAST = ("-O3", "-march=native")


class Compiled:
    """A compiled model: `mean, var = compiled(x)` for x of shape (N, *input_shape), float32."""

    def __init__(
        self, library: Path, name: str, input_shape: Shape, output_shape: Shape, work_len: int, takes_variance: bool
    ) -> None:
        loaded = ctypes.CDLL(str(library))
        self._batch = getattr(loaded, f"{name}_batch")
        self._classify = getattr(loaded, f"{name}_classify_batch", None)
        self._message = getattr(loaded, f"{name}_message")
        self._message.restype = ctypes.c_char_p
        self.input_shape, self.output_shape, self.work_len = input_shape, output_shape, work_len
        self.takes_variance = takes_variance

    def __call__(self, x: Any, var: Any = None) -> Moments[Floats]:
        """Predicts each sample; `var` is the input's variance, for a model compiled with input_variance."""
        return self.bind(x, var)()

    def bind(self, x: Any, var: Any = None) -> Callable[[], Moments[Floats]]:
        """A function that predicts `x` anew at each call, into the same arrays: nothing is copied or allocated."""
        inputs = self._inputs(x, "input")
        mean, variance = (np.empty((len(inputs), *self.output_shape), np.float32) for _ in range(2))
        run, result = self._bound(self._batch, inputs, var, mean, variance), Moments(mean, variance)

        def predict() -> Moments[Floats]:
            run()
            return result

        return predict

    def classify(self, x: Any, var: Any = None) -> Classes[Floats]:
        """What NAME_classify gives for each sample, of a model that ends in a head."""
        probability, entropy, information = self.bind_classify(x, var)()
        return Classes(probability, entropy, entropy - information, information, self(x, var))

    def bind_classify(self, x: Any, var: Any = None) -> Callable[[], tuple[Floats, Floats, Floats]]:
        """As `bind`, for probabilities, entropy and mutual information."""
        if self._classify is None:
            raise LbnnError("this model has no head; let it end in lbnn.nn.SoftmaxHead() to classify")
        inputs = self._inputs(x, "input")
        probability = np.empty((len(inputs), *self.output_shape), np.float32)
        entropy, information = (np.empty(len(inputs), np.float32) for _ in range(2))
        run = self._bound(self._classify, inputs, var, probability, entropy, information)

        def classify() -> tuple[Floats, Floats, Floats]:
            run()
            return probability, entropy, information

        return classify

    def _bound(self, function: Any, inputs: Floats, var: Any, *outputs: Floats) -> Callable[[], None]:
        """A call of the C with these arrays."""
        done, work, spread = ctypes.c_long(), np.empty(self.work_len, np.float32), self._spread(var, inputs)
        arrays = [None if array is None else _pointer(array) for array in (inputs, spread, *outputs, work)]
        arguments = (*arrays, ctypes.c_long(len(inputs)), ctypes.byref(done))

        def run() -> None:
            if status := function(*arguments):
                raise LbnnError(f"sample {done.value}: {self._message(status).decode()}")

        return run

    def _spread(self, var: Any, inputs: Floats) -> Floats | None:
        if not self.takes_variance and var is not None:
            raise LbnnError("this model takes no input variance; compile it with input_variance=True")
        if not self.takes_variance:
            return None
        spread = np.zeros_like(inputs) if var is None else self._inputs(var, "input variance")
        if spread.shape != inputs.shape:
            raise LbnnError(f"input {inputs.shape} and its variance {spread.shape} differ in shape")
        return spread

    def _inputs(self, x: Any, what: str) -> Floats:
        array = np.ascontiguousarray(x, dtype=np.float32)
        if array.shape[1:] != self.input_shape or array.ndim == 0:
            raise LbnnError(f"{what} of shape {array.shape} given; this model takes (N, *{self.input_shape})")
        return array


def compile(
    model: str | Path | nn.Module | Model,
    input_shape: Sequence[int] | None = None,
    *,
    input_variance: bool = False,
    dtype: str = "float32",
    weights: str = "source",
    flags: Sequence[str] = FAST,
    toolchain: str = "host",
) -> Compiled:
    """Generates C for a model or its file, compiles it and loads it. `flags` are the compiler's, `weights` of export.

    A module needs `input_shape` (without the batch axis) unless it came from `lbnn.load`.
    """
    read = model if isinstance(model, Model) else read_model(model, input_shape)
    options = COptions(name="compiled", input_variance=input_variance, dtype=dtype, weights=weights)
    if options.binary:
        raise LbnnError(f"weights {weights!r} are a file; compile with weights='source' or 'half'")
    program = lower(read, options)
    data = view(program, read, options)
    graph = program.graph
    loops = ["batch.c", *(["classify_batch.c"] if graph.head else [])]
    loop_sources = {name: render(f"c/{name}.j2", model=data) for name in loops}
    sources = {**generate_program(program, data, options), **loop_sources}
    with temporary_folder() as folder:
        written = fill_folder(folder / "c", sources)
        files = [written / name for name in ("compiled.c", *loops)]
        library = TOOLCHAINS[toolchain].compile_shared(files, written / "compiled.so", flags, [written])
        return Compiled(
            library,
            data.name,
            graph.input.shape,
            graph.values[graph.output].shape,
            data.work_len,
            input_variance,
        )


def _pointer(array: Floats) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
