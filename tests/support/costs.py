"""What a layer's arithmetic counts."""

from math import prod

from lbnn import ops


def products(node, graph):
    """Pairs of a weight and an input inside the image, from the operator's count of instructions.

    The moments take three products a pair and a square a weight, two products where the input is known; and one
    instruction for each input.
    """
    use = graph.use(node)
    count = ops.find(node.op).arithmetic(use) - prod(use.inputs[0])
    pairs, rest = divmod(*((count, 2) if node.op.endswith("_point") else (count - node.params["weight"].mean.size, 3)))
    assert rest == 0
    return pairs
