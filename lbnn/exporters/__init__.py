"""`lbnn.export`: a model or its file to C or ONNX, what the command line calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbnn.base.errors import LbnnError

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

    A module needs `input_shape` unless it came from `lbnn.load`. Options for both: input_variance, command (text for
    the banner). For C: weights ("source" or "binary"), single_file, package, optimize, board. For ONNX: opset.
    """
    from dataclasses import replace

    from lbnn.model.file import read_model

    if target not in TARGETS:
        raise LbnnError(f"unknown target {target!r}; use {' or '.join(TARGETS)}")
    read = read_model(model, input_shape)
    named = replace(read, name=name) if name else read
    return TARGETS[target](named, out, force, options)


def _export_c(model: Any, out: str | Path | None, force: bool, options: dict[str, Any]) -> Path:
    from lbnn.exporters.c import COptions, export_c
    from lbnn.exporters.c.names import identifier

    known = {"input_variance", "command", "weights", "single_file", "package", "optimize", "board"}
    _refuse_unknown("c", options, known)
    return export_c(model, Path(out or f"{identifier(model.name)}_c"), COptions(**options), force=force)


def _export_onnx(model: Any, out: str | Path | None, force: bool, options: dict[str, Any]) -> Path:
    _refuse_unknown("onnx", options, {"input_variance", "command", "opset"})
    try:
        from lbnn.exporters.onnx import export_onnx
    except ModuleNotFoundError as error:
        raise LbnnError(f"exporting to ONNX needs the package {error.name}: pip install 'lbnn[onnx]'") from None
    from lbnn.exporters.c.names import identifier

    return export_onnx(model, Path(out or f"{identifier(model.name)}.onnx"), force=force, **options)


def _refuse_unknown(target: str, options: dict[str, Any], known: set[str]) -> None:
    if unknown := sorted(set(options) - known):
        raise LbnnError(f"--target {target} takes no {', '.join(unknown)}; it takes {', '.join(sorted(known))}")


TARGETS: dict[str, Callable[[Any, str | Path | None, bool, dict[str, Any]], Path]] = {
    "c": _export_c,
    "onnx": _export_onnx,
}
