"""Generates the folder of C files for a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from lbnn.base import resources
from lbnn.base.files import write_folder
from lbnn.base.templates import render
from lbnn.device.boards import BOARDS
from lbnn.device.firmware import firmware_files
from lbnn.exporters.c import names, packages
from lbnn.exporters.c.calls import Listing, small_layers, small_scratch
from lbnn.exporters.c.footprint import footprint
from lbnn.exporters.c.options import COptions
from lbnn.exporters.c.view import ModelView, view
from lbnn.graph import Graph, GraphBuilder
from lbnn.graph.passes import prepare
from lbnn.graph.plan import plan
from lbnn.model.file import Model

Files = dict[str, bytes | str]


def generate(model: Model, options: COptions | None = None) -> Files:
    """File name -> contents. The same model and options give the same bytes."""
    options = options or COptions()
    listing = list_calls(model, options)
    return files(listing, view(listing, model, options), options)


def files(listing: Listing, data: ModelView, options: COptions) -> Files:
    """The files of a listing, in the layout that the options ask for."""
    plain = _single_file(data) if options.single_file else _folder(data, listing)
    if options.package:
        return packages.LAYOUTS[options.package](data, plain)
    return {**plain, **(firmware_files(BOARDS[options.board], data.name) if options.board else {})}


def export_c(model: Model, out: str | Path, options: COptions | None = None, force: bool = False) -> Path:
    """Writes the folder in one step."""
    return write_folder(out, generate(model, options), force)


def list_calls(model: Model, options: COptions) -> Listing:
    """The prepared graph, its plan and its calls: what `inspect` shows and the templates print."""
    graph = _with_variance(prepare(model.graph, options.input_variance))
    name = names.identifier(options.name if options.name is not None else model.name)
    small = small_layers(graph) if options.optimize == "size" else {}
    return Listing(name, graph, plan(graph, small_scratch(graph, small)), small)


def _with_variance(graph: Graph) -> Graph:
    """A graph whose output is known gets the variance zero."""
    if graph.values[graph.output].random:
        return graph
    builder = GraphBuilder(graph.name, graph.input.shape, graph.input.random)
    for node in graph.nodes:
        builder.add(node.name, node.op, node.inputs, node.attrs, node.params)
    return builder.finish(builder.add("certain", "lift", [graph.output]))


def _single_file(data: ModelView) -> Files:
    return {f"{data.name}.h": render("c/model.h.j2", model=data), f"{data.name}.c": render("c/model.c.j2", model=data)}


def _folder(data: ModelView, listing: Listing) -> Files:
    name = data.name
    weights: Callable[[ModelView, Listing], Files] = _binary_weights if data.binary else _source_weights
    return {
        f"{name}.h": render("c/model.h.j2", model=data),
        f"{name}.c": render("c/model.c.j2", model=data),
        **weights(data, listing),
        **{header: resources.header(header) for header in data.runtime},
        f"{name}_selftest.c": render("c/selftest.c.j2", model=data),
        "example_main.c": render("c/example_main.c.j2", model=data),
        "CMakeLists.txt": render("c/CMakeLists.txt.j2", model=data),
        f"{name}_footprint.json": footprint(listing).json(name, data.sha256, data.version),
    }


def _source_weights(data: ModelView, listing: Listing) -> Files:
    return {f"{data.name}_weights.h": render("c/weights.h.j2", model=data)}


def _binary_weights(data: ModelView, listing: Listing) -> Files:
    arrays = [constant.values for constant in listing.constants]
    return {
        f"{data.name}_weights.h": render("c/weights_binary.h.j2", model=data),
        f"{data.name}_weights.S": render("c/weights.S.j2", model=data),
        f"{data.name}_weights.bin": np.concatenate([np.empty(0, np.float32), *arrays]).astype("<f4").tobytes(),
    }
