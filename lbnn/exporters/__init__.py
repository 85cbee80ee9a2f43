"""`lbnn.export`: a model or its file to C or ONNX, what the command line calls.

A target is a row of TARGETS: its class of options, and the function that writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbnn.base.errors import LbnnError
from lbnn.exporters.options import COptions, OnnxOptions, make_options

if TYPE_CHECKING:
    from torch import nn


def export(
    model: str | Path | nn.Module,
    target: str = "c",
    out: str | Path | None = None,
    *,
    name: str | None = None,
    input_shape: Sequence[int] | None = None,
    force: bool = False,
    **options: Any,
) -> Path:
    """Writes `model` (a module or a model.pt) as C (a folder) or ONNX (a file) and returns where.

    A module needs `input_shape` unless it came from `lbnn.load`. `options` are the fields of
    `lbnn.exporters.options.COptions` or `OnnxOptions`: for both dtype, input_variance and command (text for the
    banner); for C weights, single_file, package, board, optimize, stream and hop; for ONNX opset.
    """
    from lbnn.model.file import read_model

    if target not in TARGETS:
        raise LbnnError(f"unknown target {target!r}; use {' or '.join(TARGETS)}")
    chosen = make_options(TARGETS[target].options, target, options)
    read = read_model(model, input_shape)
    named = replace(read, name=name) if name else read
    return TARGETS[target].write(named, out, chosen, force)


@dataclass(frozen=True)
class Target:
    """What can be written: `write(model, out or None, options, force)` gives the path."""

    options: type[Any]
    write: Callable[[Any, str | Path | None, Any, bool], Path]


def _write_c(model: Any, out: str | Path | None, options: COptions, force: bool) -> Path:
    from lbnn.exporters.c import c_name, export_c

    return export_c(model, out or f"{c_name(model.name)}_c", options, force)


def _write_onnx(model: Any, out: str | Path | None, options: OnnxOptions, force: bool) -> Path:
    from lbnn.exporters.c.names import identifier

    try:
        from lbnn.exporters.onnx import export_onnx
    except ModuleNotFoundError as error:
        raise LbnnError(f"exporting to ONNX needs the package {error.name}: pip install 'lbnn[onnx]'") from None
    return export_onnx(model, out or f"{identifier(model.name)}.onnx", options, force)


TARGETS: Mapping[str, Target] = {
    "c": Target(COptions, _write_c),
    "onnx": Target(OnnxOptions, _write_onnx),
}
