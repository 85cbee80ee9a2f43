"""Results over dying inputs: every read and write of such kernels, one after the other, finds what it needs."""

from itertools import pairwise, product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbnn import ops
from lbnn.graph import INPUT, GraphBuilder
from lbnn.graph.plan import Needs, _placed, _Sharing, plan
from lbnn.ops.memory import MEAN, VAR
from plans import activation, depthwise, graphs, pointwise, stack

SHAPE = (2, 4, 4)


def is_pointwise(node):
    return node.op.startswith("conv") and node.attrs["groups"] == 1 and set(node.params["weight"].shape[2:]) == {1}


def needs_of(graph):
    """What kernels allow: depthwise plane by plane, 1x1 pixel by pixel with the input in the last planes."""
    ahead = {}
    for node in graph.nodes:
        if node.op.startswith("conv"):
            source, own = (graph.values[name].shape for name in (node.inputs[0], node.name))
            ahead[node.name] = max(0, own[0] - source[0]) * prod(own[1:]) if is_pointwise(node) else 0
    return Needs(ahead=ahead)


def parts(graph, name):
    return (MEAN, VAR) if graph.values[name].random else (MEAN,)


class Machine:
    """Memory that knows of every float which element of which array was written there last."""

    def __init__(self, graph, found):
        self.graph, self.found, self.memory, self.alias = graph, found, {}, {}

    def place(self, key, i):
        at = self.found.places[key]
        return at.base, at.offset + i

    def read(self, key, i):
        owner = self.alias.get(key, key)
        assert self.memory.get(self.place(key, i)) == (owner, i), f"{key}[{i}] was overwritten"

    def write(self, key, i):
        self.memory[self.place(key, i)] = (key, i)

    def read_all(self, name):
        for part in parts(self.graph, name):
            for i in range(prod(self.graph.values[name].shape)):
                self.read((name, part), i)

    def write_all(self, name, skip=()):
        for part in parts(self.graph, name):
            for i in range(prod(self.graph.values[name].shape) if part not in skip else 0):
                self.write((name, part), i)

    def groups(self, node):
        """(elements read, elements written), one unit of work after the other."""
        (channels, *size), (made, *small) = (self.graph.values[name].shape for name in (node.inputs[0], node.name))
        plane, less = prod(size), prod(small)
        if is_pointwise(node):
            pixels = range(plane)
            return [([c * plane + p for c in range(channels)], [c * plane + p for c in range(made)]) for p in pixels]
        return [(range(c * plane, (c + 1) * plane), range(c * less, (c + 1) * less)) for c in range(channels)]

    def convolve(self, node):
        for taken, given_ in self.groups(node):
            for part, i in product(parts(self.graph, node.inputs[0]), taken):
                self.read((node.inputs[0], part), i)
            for part, i in product(parts(self.graph, node.name), given_):
                self.write((node.name, part), i)

    def step(self, node):
        if node.op.startswith("conv"):
            return self.convolve(node)
        for name in node.inputs:
            self.read_all(name)
        memory = ops.find(node.op).memory
        for part, at, source in memory.aliases:
            key = (node.inputs[at], source)
            self.alias[node.name, part] = self.alias.get(key, key)
        return self.write_all(node.name, skip=[part for part, _, _ in memory.aliases])

    def run(self):
        self.write_all(INPUT)
        for node in self.graph.nodes:
            self.step(node)
        self.read_all(self.graph.output)


def every_layout(graph):
    """Plans in which any of the results that may do so lie on their inputs, none or all."""
    needs = needs_of(graph)
    facts = (graph, {}, {}, needs)
    names = [*needs.ahead, *(node.name for node in graph.nodes if node.op.startswith("avg_pool"))]
    allowed = [name for name in names if name in needs.ahead or not any(graph.by_name[name].attrs["padding"])]
    for overlaid in (frozenset(), frozenset(allowed[::2]), frozenset(allowed[1::2]), frozenset(allowed)):
        yield _placed(_Sharing(*facts, overlaid).frozen())


@settings(max_examples=120, deadline=None)
@given(graphs())
def test_no_element_is_overwritten_before_it_was_read(graph):
    for found in every_layout(graph):
        Machine(graph, found).run()
    best = plan(graph, needs=needs_of(graph))
    Machine(graph, best).run()
    assert best.bound <= best.size <= plan(graph).size


def planned(graph):
    found = plan(graph, needs=needs_of(graph))
    Machine(graph, found).run()
    return found


def test_a_chain_of_depthwise_and_1x1_layers_needs_its_largest_value_alone():
    graph = stack("d", 4, "d", 6, "d", 3, "s", 3)
    assert planned(graph).size == planned(graph).bound == 2 * 6 * 16
    assert plan(graph).size == 2 * (6 + 6) * 16


def test_the_input_lies_in_the_last_planes_of_a_longer_result():
    graph = stack(5)
    found = planned(graph)
    for part in (MEAN, VAR):
        assert found.places["act", part].offset == found.places["point", part].offset + 3 * 16
    assert found.size == 2 * 5 * 16


def test_results_do_not_move_on_and_on_where_nothing_is_gained_by_it():
    """Shrinking keeps the start, growing needs room before it: all in place would need more than the first layers."""
    graph = stack(16, "s", 32, "s", 64, shape=(8, 8, 8))
    needs = needs_of(graph)
    every = _placed(_Sharing(graph, {}, {}, needs, frozenset(needs.ahead)).frozen())
    assert planned(graph).size == 2 * 16 * 64 < every.size


def test_an_input_that_others_read_later_is_kept():
    builder = GraphBuilder("kept", SHAPE, random=True)
    value = activation(builder, INPUT)
    graph = builder.finish(builder.add("add", "add", [depthwise(builder, value), value]))
    assert planned(graph).size == 2 * 2 * 2 * 16


def test_a_longer_result_does_not_cover_its_neighbour_in_a_concatenation():
    builder = GraphBuilder("cat", SHAPE, random=True)
    left, right = (activation(builder, INPUT) for _ in range(2))
    longer = pointwise(builder, right, 4)
    graph = builder.finish(builder.add("cat", "concat", [left, longer], {"axis": 0}))
    planned(graph)
    for found in every_layout(graph):
        Machine(graph, found).run()


def test_a_longer_result_keeps_clear_of_the_memory_that_its_kernel_has_beside_it():
    graph = stack(5)
    found = plan(graph, {"point": 7}, needs=needs_of(graph))
    beside = found.scratch["point"].offset
    starts = [found.places["point", part].offset for part in (MEAN, VAR)]
    assert found.size == 2 * 5 * 16 + 7
    assert all(beside + 7 <= start or start + 5 * 16 <= beside for start in starts)


@pytest.mark.parametrize("wrong", [1, -1])
def test_the_machine_sees_a_result_at_a_wrong_distance(wrong):
    graph = stack(5)
    needs = Needs(ahead={name: ahead + wrong * 8 for name, ahead in needs_of(graph).ahead.items()})
    layout = _Sharing(graph, {}, {}, needs, frozenset(needs.ahead)).frozen()
    if wrong < 0:
        assert layout.bound == 2 * (2 + 5) * 16  # too near: no place over the input is long enough
    else:
        with pytest.raises(AssertionError, match="overwritten"):
            Machine(graph, _placed(layout)).run()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([1, 2, 3, 5, 8, "d", "s"]), min_size=1, max_size=6))
def test_a_chain_is_no_larger_than_its_largest_neighbours_and_no_smaller_than_its_largest_value(layers):
    graph = stack(*layers, shape=(2, 5, 3))
    sizes = [2 * prod(graph.values[node.name].shape) for node in graph.nodes]
    assert max(sizes) <= planned(graph).size <= max(a + b for a, b in pairwise((0, *sizes)))
