"""The memory plan: nothing is overwritten while it is needed, and no float is wasted on chains."""

from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from lbnn import ops
from lbnn.graph import INPUT, Graph, GraphBuilder
from lbnn.graph.packing import Block, greedy_by_size, lower_bound, pack
from lbnn.graph.plan import WORK, plan
from lbnn.ops.memory import MEAN, VAR
from plans import activation, affine, chain, graphs, linear, pool


def parts(graph, name):
    return (MEAN, VAR) if graph.values[name].random else (MEAN,)


def run(graph, found):
    """Runs a plan on labels instead of numbers: every operator must find what its inputs' makers wrote."""
    memory, labels = {}, {}

    def cells(key):
        place = found.places[key]
        return [(place.base, place.offset + i) for i in range(prod(graph.values[key[0]].shape))]

    def expect(key):
        assert [memory.get(cell) for cell in cells(key)] == labels[key], f"{key} was overwritten"

    def write(key, content):
        labels[key] = content
        memory.update(zip(cells(key), content, strict=True))

    for part in parts(graph, INPUT):
        write((INPUT, part), [(INPUT, part, i) for i in range(len(cells((INPUT, part))))])
    for node in graph.nodes:
        for name in node.inputs:
            for part in parts(graph, name):
                expect((name, part))
        aliases = {part: (node.inputs[at], source) for part, at, source in ops.find(node.op).memory.aliases}
        for part in parts(graph, node.name):
            key = (node.name, part)
            if part in aliases:
                assert found.places[key] == found.places[aliases[part]]
                labels[key] = labels[aliases[part]]
                continue
            check_overlap(node, part, cells(key), cells, graph)
            write(key, [(node.name, part, i) for i in range(len(cells(key)))])
    for part in parts(graph, graph.output):
        expect((graph.output, part))


def check_overlap(node, part, written, cells, graph):
    """A result lies on an input only where its kernel may work in place, or where the input is already its part."""
    for at, name in enumerate(node.inputs):
        for source in parts(graph, name):
            read = cells((name, source))
            if set(read) & set(written):
                assert source == part and read[0][0] == WORK
                memory = ops.find(node.op).memory
                if memory.joins:
                    # In its own place, or in that of an input that is the same array.
                    sizes = [prod(graph.values[other].shape) for other in node.inputs]
                    own = [sum(sizes[:k]) for k, other in enumerate(node.inputs) if cells((other, part)) == read]
                    assert any(written[before : before + len(read)] == read for before in own)
                else:
                    assert written == read[: len(written)]
                    assert at in memory.in_place or (memory.shrinks and memory.shrinks(node.attrs))
                    # A padded window would read elements that an earlier one has overwritten.
                    assert not any(node.attrs.get("padding", ()))


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_no_value_is_overwritten_while_it_is_needed(graph):
    found = plan(graph)
    run(graph, found)
    assert found.bound <= found.size
    assert all(
        p.offset + prod(graph.values[n].shape) <= found.size for (n, _), p in found.places.items() if p.base == WORK
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=2, max_size=9), st.booleans())
def test_a_chain_needs_no_more_than_its_two_largest_neighbours(sizes, random):
    found = plan(chain(sizes, random, decorate=activation))
    pairs = zip([0, *sizes[1:]], sizes[1:], strict=False)
    assert found.size == found.bound == max(2 * (a + b) for a, b in pairs)


@st.composite
def bodies(draw):
    def block(at):
        first = draw(st.integers(0, 8))
        return Block(at, draw(st.integers(1, 20)), first, first + draw(st.integers(0, 5)))

    return [[block(0)] for _ in range(draw(st.integers(1, 9)))]


@settings(max_examples=100, deadline=None)
@given(bodies())
def test_packing_is_between_the_lower_bound_and_greedy_by_size(bodies):
    offsets = pack(bodies)
    placed = [block.moved(at) for at, body in zip(offsets, bodies, strict=True) for block in body]
    assert not any(a.meets(b) for i, a in enumerate(placed) for b in placed[i + 1 :])
    top = max(block.offset + block.size for block in placed)
    assert lower_bound(bodies) <= top <= greedy_by_size(bodies)


def test_search_beats_greedy_by_size_where_greedy_is_not_best():
    sizes = [(4, 0, 0), (5, 3, 6), (3, 2, 2), (4, 0, 3), (4, 0, 2), (3, 1, 2)]
    bodies = [[Block(0, size, first, last)] for size, first, last in sizes]
    top = max(at + body[0].size for at, body in zip(pack(bodies), bodies, strict=True))
    assert (top, lower_bound(bodies), greedy_by_size(bodies)) == (14, 14, 16)


def test_pointwise_operators_work_in_place():
    graph = chain([3, 7], decorate=lambda b, v: activation(b, affine(b, v)))
    assert plan(graph).size == 2 * 7


def test_pooling_shrinks_in_place():
    builder = GraphBuilder("pool", (4, 16), random=False)
    value = builder.add("lift", "lift", [INPUT])
    graph = builder.finish(pool(builder, affine(builder, value)))
    assert plan(graph).size == 2 * 64


def test_a_sum_overwrites_the_branch_that_ends():
    builder = GraphBuilder("residual", (4,), random=False)
    trunk = linear(builder, INPUT, 8)
    branch = linear(builder, trunk, 8)
    graph = builder.finish(builder.add("add", "add", [trunk, branch]))
    assert plan(graph).size == 2 * (8 + 8)


def test_the_parts_of_a_concatenation_are_written_in_place():
    builder = GraphBuilder("cat", (4,), random=False)
    branches = [activation(builder, linear(builder, INPUT, size)) for size in (3, 5)]
    graph = builder.finish(builder.add("cat", "concat", branches, {"axis": 0}))
    found = plan(graph)
    assert found.size == 2 * 8
    assert found.places["act_2", MEAN].offset == found.places["cat", MEAN].offset + 3


def test_parts_of_different_lengths_are_all_written_in_place():
    builder = GraphBuilder("cat", (4,), random=False)
    branches = [activation(builder, linear(builder, INPUT, size)) for size in (3, 5, 2)]
    graph = builder.finish(builder.add("cat", "concat", branches, {"axis": 0}))
    found = plan(graph)
    run(graph, found)
    assert found.size == 2 * 10
    assert found.places["act_3", MEAN].offset == found.places["cat", MEAN].offset + 8


def test_a_part_that_was_larger_before_it_was_pooled_does_not_lie_on_its_neighbour():
    builder = GraphBuilder("cat", (2, 8), random=False)
    neighbour = linear(builder, INPUT, 4)
    pooled = pool(builder, linear(builder, INPUT, 8))
    graph = builder.finish(builder.add("cat", "concat", [pooled, neighbour], {"axis": 0}))
    run(graph, plan(graph))


def test_an_array_that_is_concatenated_twice_is_copied_once():
    builder = GraphBuilder("twice", (4,), random=False)
    value = activation(builder, linear(builder, INPUT, 3))
    again = builder.add("flatten", "flatten", [value])
    graph = builder.finish(builder.add("cat", "concat", [value, again], {"axis": 0}))
    found = plan(graph)
    run(graph, found)
    assert found.size == 2 * 6
    assert found.places["flatten", MEAN] == found.places["act", MEAN] == found.places["cat", MEAN]


def test_scratch_is_separate_from_everything_alive():
    graph = chain([3, 7, 5])
    found = plan(graph, scratch={"linear_2": 11})
    assert found.size == 2 * (7 + 5) + 11


def test_the_callers_input_is_never_written():
    builder = GraphBuilder("input", (4,), random=True)
    graph = builder.finish(activation(builder, INPUT))
    found = plan(graph)
    assert found.places[INPUT, MEAN].base == INPUT and found.places["act", MEAN].base == WORK


def test_the_plan_prints_one_line_for_each_array():
    text = str(plan(chain([3, 7])))
    assert text.splitlines()[0] == "work buffer: 14 floats, 56 bytes (lower bound 14 floats)"
    assert "linear.mean  [0, 7)" in text and "linear.var   [7, 14)" in text


def test_a_deep_network_reaches_its_lower_bound():
    found = plan(chain([8] * 100))
    assert found.size == found.bound == 32


def test_a_graph_without_nodes_needs_no_memory():
    assert plan(Graph("empty", GraphBuilder("empty", (3,), True).input, (), INPUT)).size == 0
