"""`lbnn.compile`: the generated C, compiled for this host, as a function of numpy arrays."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lbnn.base import resources
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
from lbnn.exporters.c.program import Program
from lbnn.exporters.c.view import ModelView, view
from lbnn.exporters.tiles import HEADER as TILE_HEADER
from lbnn.exporters.tiles import tiles
from lbnn.model.file import Model, read_model
from lbnn.ops import Shape

if TYPE_CHECKING:
    from torch import nn


FAST = ("-O3", "-march=native")


class Compiled:
    """A compiled model: `mean, var = compiled(x)` for x of shape (N, *input_shape), float32."""

    def __init__(
        self,
        library: Path,
        name: str,
        input_shape: Shape,
        output_shape: Shape,
        takes_variance: bool,
        threads: int,
    ) -> None:
        loaded = ctypes.CDLL(str(library))
        self._batch = getattr(loaded, f"{name}_batch")
        self._classify = getattr(loaded, f"{name}_classify_batch", None)
        self._message = getattr(loaded, f"{name}_message")
        self._message.restype = ctypes.c_char_p
        work = getattr(loaded, f"{name}_batch_work")
        work.restype = ctypes.c_long
        self.input_shape, self.output_shape, self.work_len = input_shape, output_shape, int(work())
        self.takes_variance, self.threads = takes_variance, threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lbnn") if threads > 1 else None

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
        """A call of the C with these arrays: one for each thread, with its own samples and work memory."""
        spread = self._spread(var, inputs)
        bounds = np.linspace(0, len(inputs), self.threads + 1).astype(int)
        parts = [slice(*ends) for ends in pairwise(bounds) if ends[0] < ends[1]]
        runs = [
            self._part(function, part, [a if a is None else a[part] for a in (inputs, spread, *outputs)])
            for part in parts
        ]
        if len(runs) < 2:
            return runs[0] if runs else lambda: None
        return lambda: _together(self._pool, runs)

    def _part(self, function: Any, samples: slice, arrays: list[Floats | None]) -> Callable[[], None]:
        """A call with some of the samples."""
        work, done = np.empty(self.work_len, np.float32), ctypes.c_long()
        pointers = [None if array is None else _pointer(array) for array in (*arrays, work)]
        arguments = (*pointers, ctypes.c_long(samples.stop - samples.start), ctypes.byref(done))

        def run() -> None:
            if status := function(*arguments):
                raise LbnnError(f"sample {samples.start + done.value}: {self._message(status).decode()}")

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
    threads: int = 1,
) -> Compiled:
    """Generates C for a model or its file, compiles it and loads it. `flags` are the compiler's, `weights` of export.

    A module needs `input_shape` (without the batch axis) unless it came from `lbnn.load`. `threads` share the samples
    of a batch, 0 stands for all cores; any number of them gives the same bits.
    """
    if threads < 0:
        raise LbnnError(f"threads={threads}: give the number of threads, or 0 for all cores")
    read = model if isinstance(model, Model) else read_model(model, input_shape)
    options = COptions(name="compiled", input_variance=input_variance, dtype=dtype, weights=weights)
    if options.binary:
        raise LbnnError(f"weights {weights!r} are a file; compile with weights='source' or 'half'")
    program = lower(read, options)
    graph, data = program.graph, view(program, read, options)
    loops = _loops(program, data)
    with temporary_folder() as folder:
        written = fill_folder(folder / "c", {**generate_program(program, data, options), **loops})
        files = [written / name for name in loops if name.endswith(".c")]  # the first includes the model
        library = TOOLCHAINS[toolchain].compile_shared(files, written / "compiled.so", flags, [written])
        output = graph.values[graph.output].shape
        return Compiled(library, data.name, graph.input.shape, output, input_variance, threads or os.cpu_count() or 1)


def _loops(program: Program, data: ModelView) -> dict[str, str]:
    """The loops over samples, and what they include beside the model: file name -> text."""
    tiled = tiles(program)
    names = ["batch.c", *(["classify_batch.c"] if program.graph.head else [])]
    headers = resources.with_dependencies([TILE_HEADER] if tiled else [])
    sources = {name: render(f"c/{name}.j2", model=data, tiles=tiled) for name in names}
    return {**sources, **{name: resources.header(name) for name in headers}}


def _together(pool: ThreadPoolExecutor | None, runs: Sequence[Callable[[], None]]) -> None:
    """All of them, the first here; of what goes wrong, the first sample's error."""
    assert pool is not None
    others = [pool.submit(run) for run in runs[1:]]
    try:
        runs[0]()
    finally:
        wait(others)
    for other in others:
        other.result()


def _pointer(array: Floats) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
