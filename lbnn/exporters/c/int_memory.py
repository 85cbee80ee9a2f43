"""Work memory of feature maps in integers: how large values are, what layers need beside them and overwrite."""

from __future__ import annotations

from math import prod

import numpy as np

from lbnn.exporters.c.int_calls import integer_scratch
from lbnn.graph import INPUT, Graph, Node
from lbnn.graph.ints.chains import MAP_POOLS, Chain, max_window, pool_window
from lbnn.graph.ints.fixed import Whole
from lbnn.graph.ints.known import is_written
from lbnn.graph.ints.maps import CHUNK, Windows, pixel_places
from lbnn.graph.ints.quantise_conv import ConvInts
from lbnn.graph.ints.study import Study
from lbnn.graph.plan import Needs


def map_scratch(graph: Graph, facts: Study) -> dict[str, int]:
    """Words that layers need beside their values."""
    found = integer_scratch(graph, facts)
    for node in graph.nodes:
        words = _words_beside(node, graph, facts)
        if words:
            found[node.name] = words
    if facts.orders[graph.output] is not None:
        found[graph.output] = found.get(graph.output, 0) + 2 * prod(graph.values[graph.output].shape)
    return found


def _words_beside(node: Node, graph: Graph, facts: Study) -> int:
    if node.name in facts.chains:
        return sum(chain_words(facts.chains[node.name], graph, facts))
    if node.name not in facts.maps or node.name in facts.inner:
        return 0
    channels, elements = facts.maps[node.name], prod(graph.values[node.name].shape)
    if node.op in MAP_POOLS:
        if node.op == "max_pool":
            window = max_window(node, graph)
            return 2 * channels + window.taps + window.pixels
        return 2 * channels + pool_window(node, graph)[0].pixels
    if node.op == "affine" and node.inputs[0] != INPUT:
        return 2 * channels + elements // channels
    return 2 * CHUNK + -(-elements // CHUNK) if node.op in ("leaky_relu", "add") else 0


def chain_words(chain: Chain, graph: Graph, facts: Study) -> tuple[int, int, int]:
    """Words of the packed input, of its roots, and of the kernel."""
    conv = facts.conv[chain.conv]
    elements = conv.window.in_pixels * conv.window.channels
    packed = (2 if graph.input.random else 1) * halves(elements) if chain.source == INPUT else 0
    roots = halves(elements) if conv.layer.form == "free" else 0
    return packed, roots, _kernel_words(chain, conv, graph)


def _kernel_words(chain: Chain, conv: ConvInts, graph: Graph) -> int:
    """Sums of the pixels of a pool, a window, exponents of all, and sums for the variances of weights."""
    n, words = conv.channels, halves(conv.length)
    taps, pixels = _pool(chain, graph)
    return 2 * taps * n + 2 * words + pixels + taps * (n if _has_rows(conv) else 1)


def _has_rows(conv: ConvInts) -> bool:
    return conv.layer.form == "free" or conv.groups > 1


def _pool(chain: Chain, graph: Graph) -> tuple[int, int]:
    """Pixels of each window of its pool, and pixels of its result."""
    if chain.pool is None:
        shape = graph.values[chain.conv].shape
        conv = graph.by_name[chain.conv].op.startswith("conv")
        return 1, prod(shape[1:]) if conv else prod(shape[:-1])
    window, _ = pool_window(graph.by_name[chain.pool], graph)
    return window.taps, window.pixels


def halves(elements: int) -> int:
    """Words of so many mantissas."""
    return (elements + 1) // 2


def map_needs(graph: Graph, facts: Study) -> Needs:
    """Maps take half a word an element in each array; what is computed on the way takes nothing."""
    words = {name: halves(prod(graph.values[name].shape)) for name in facts.maps}
    pads = {node.name for node in graph.nodes if node.op.startswith("pad") and not is_written(node, graph)}
    unwritten = pads | facts.inner
    words |= dict.fromkeys(unwritten, 0)
    if facts.orders[graph.output] is None and facts.source[graph.output] in words:
        words[facts.source[graph.output]] = prod(graph.values[graph.output].shape)  # becomes wide where it lies
    reads = {chain.last: (chain.source,) for chain in facts.chains.values()}
    apart = frozenset(node.name for node in graph.nodes if node.op == "concat" and node.name in facts.maps)
    ahead = {
        name: found for name, chain in facts.chains.items() if (found := ahead_of(chain, graph, facts)) is not None
    }
    over = {name: facts.chains[name].source for name in ahead}
    return Needs(words, reads, apart, ahead, over)


def ahead_of(chain: Chain, graph: Graph, facts: Study) -> int | None:
    """Words that the result of a convolution begins before its input where it is written over that.

    A pixel is written after all that it is computed from was read, so that what it covers must lie before the first
    element that a later one reads. A pixel of an odd number of channels may touch one more.
    """
    conv = facts.conv[chain.conv]
    if chain.source not in facts.maps or not graph.by_name[chain.conv].op.startswith("conv"):
        return None
    first = _first_pixels(chain, graph, conv.window) * conv.window.channels
    ends = np.arange(1, len(first) + 1) * conv.channels + conv.channels % 2
    beyond = halves(conv.channels * len(first)) - halves(conv.window.in_pixels * conv.window.channels)
    return max(0, beyond, halves(int(max(ends[:-1] - first[1:], default=0))))


def _first_pixels(chain: Chain, graph: Graph, window: Windows) -> Whole:
    """The first pixel of the map that each pixel of the result is computed from."""
    places = pixel_places(window)
    first: Whole = np.where(places < 0, window.in_pixels, places).min(axis=1)
    if chain.pool is None:
        return first
    pool, _ = pool_window(graph.by_name[chain.pool], graph)
    (height, width), (rows, columns) = pool.out, pool.kernel
    tiled = first.reshape(window.out)[: height * rows, : width * columns]
    least: Whole = tiled.reshape(height, rows, width, columns).min(axis=(1, 3)).reshape(-1)
    return least
