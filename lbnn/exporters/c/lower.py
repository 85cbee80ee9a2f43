"""From a model to its Program: the prepared graph, its memory plan and its calls, made once for all who ask."""

from __future__ import annotations

from dataclasses import replace

from lbnn.exporters.c import names
from lbnn.exporters.c.bands import BandEmission, plan_bands
from lbnn.exporters.c.calls import layer_scratch, small_layers
from lbnn.exporters.c.dtype import DType, find_dtype
from lbnn.exporters.c.int_lacks import lacking
from lbnn.exporters.c.overlaps import over_inputs
from lbnn.exporters.c.program import Emission, Program
from lbnn.exporters.c.streams import add_push, positive_zeros
from lbnn.exporters.options import COptions
from lbnn.graph import Graph, GraphBuilder
from lbnn.graph.ints.known import with_variances
from lbnn.graph.passes import fold_pads, prepare
from lbnn.graph.plan import plan
from lbnn.model.file import Model


def lower(model: Model, options: COptions) -> Program:
    """What `inspect` shows, the templates print and devices run."""
    graph = _with_variance(prepare(model.graph, options.input_variance))
    graph = positive_zeros(graph) if options.stream else graph
    dtype = find_dtype(options.dtype, options.half)
    graph = dtype.round(graph)
    name = names.identifier(options.name if options.name is not None else model.name)
    if dtype.is_integer:
        return _lower_integers(name, graph, dtype)
    graph = graph if options.stream else fold_pads(graph)
    small = small_layers(graph) if options.optimize == "size" else {}
    planned, bands = plan_bands(graph, layer_scratch(graph, small), over_inputs(graph, small), small)
    emission = BandEmission(name, graph, planned, dtype, small)
    emission.bands = {layer: band for band in bands for layer in (*band.inner, band.last)}
    program = emission.finish()
    return add_push(program, options.hop, small) if options.stream else program


def _lower_integers(name: str, graph: Graph, dtype: DType) -> Program:
    graph = with_variances(graph)
    facts = dtype.study(graph)
    planned = plan(graph, dtype.scratch(graph, facts), needs=dtype.needs(graph, facts))
    return replace(Emission(name, graph, planned, dtype, {}, facts).finish(), lacks=lacking(graph, facts))


def _with_variance(graph: Graph) -> Graph:
    """A graph whose output is known gets the variance zero."""
    if graph.values[graph.output].random:
        return graph
    builder = GraphBuilder(graph.name, graph.input.shape, graph.input.random)
    for node in graph.nodes:
        builder.add(node.name, node.op, node.inputs, node.attrs, node.params)
    return builder.finish(builder.add("certain", "lift", [graph.output]), graph.head)
