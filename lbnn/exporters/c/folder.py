"""Generates the folder of C files for a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lbnn.base import resources
from lbnn.base.files import fill_folder, write_folder
from lbnn.base.templates import render
from lbnn.device.boards import BOARDS
from lbnn.device.firmware import firmware_files
from lbnn.device.generated import GeneratedModel
from lbnn.exporters.c import packages
from lbnn.exporters.c.binary import binary_weights
from lbnn.exporters.c.footprint import footprint
from lbnn.exporters.c.lower import lower
from lbnn.exporters.c.packages import Files
from lbnn.exporters.c.program import Program
from lbnn.exporters.c.view import ModelView, view
from lbnn.exporters.options import COptions
from lbnn.model.file import Model


def generate(model: Model, options: COptions | None = None) -> Files:
    """File name -> contents. The same model and options give the same bytes."""
    options = options or COptions()
    program = lower(model, options)
    return generate_program(program, view(program, model, options), options)


def generate_program(program: Program, data: ModelView, options: COptions) -> Files:
    """The files of a program, in the layout that the options ask for."""
    plain = _single_file(data) if options.single_file else _folder(data, program)
    if options.package:
        return packages.LAYOUTS[options.package](data, plain)
    return {
        **plain,
        **(firmware_files(BOARDS[options.board], data.name, options.input_variance) if options.board else {}),
    }


def write_program(program: Program, model: Model, options: COptions, folder: Path) -> GeneratedModel:
    """Writes the files of a program into a temporary folder, for devices to compile and run."""
    written = fill_folder(folder, generate_program(program, view(program, model, options), options))
    return program.in_folder(written)


def export_c(model: Model, out: str | Path, options: COptions | None = None, force: bool = False) -> Path:
    """Writes the folder in one step."""
    return write_folder(out, generate(model, options), force)


def _single_file(data: ModelView) -> Files:
    return {f"{data.name}.h": render("c/model.h.j2", model=data), f"{data.name}.c": render("c/model.c.j2", model=data)}


def _folder(data: ModelView, program: Program) -> Files:
    name = data.name
    weights: Callable[[ModelView, Program], Files] = _binary_weights if data.binary else _source_weights
    return {
        f"{name}.h": render("c/model.h.j2", model=data),
        f"{name}.hpp": render("c/model.hpp.j2", model=data),
        f"{name}.c": render("c/model.c.j2", model=data),
        **weights(data, program),
        **{header: resources.header(header) for header in data.runtime},
        f"{name}_selftest.c": render("c/selftest.c.j2", model=data),
        "example_main.c": render("c/example_main.c.j2", model=data),
        "CMakeLists.txt": render("c/CMakeLists.txt.j2", model=data),
        f"{name}_footprint.json": footprint(program).json(name, data.sha256, data.version),
    }


def _source_weights(data: ModelView, program: Program) -> Files:
    return {f"{data.name}_weights.h": render("c/weights.h.j2", model=data)}


def _binary_weights(data: ModelView, program: Program) -> Files:
    return {
        f"{data.name}_weights.h": render("c/weights_binary.h.j2", model=data),
        f"{data.name}_weights.S": render("c/weights.S.j2", model=data),
        f"{data.name}_weights.bin": binary_weights(program),
    }
