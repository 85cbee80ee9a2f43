"""Graphs as pictures."""

import torch

from lbnn import nn as bnn
from lbnn.graph.drawing import MOST_NODES, draw_graph
from lbnn.model.file import read_model


def test_a_residual_sum_is_drawn_with_a_line_around_and_a_huge_graph_not_at_all(tmp_path):
    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = bnn.Linear(2, 2), bnn.Linear(2, 2)

        def forward(self, x):
            x = self.a(x)
            return x + self.b(x)

    graph = read_model(Residual(), (2,)).graph
    drawn = draw_graph(graph)
    assert drawn.count('class="edge"') == sum(len(node.inputs) for node in graph.nodes)
    assert drawn.count("<rect") == len(graph.nodes) + 1
    assert "head" not in drawn
    deep = bnn.Sequential(*(bnn.LeakyReLU() for _ in range(MOST_NODES + 1)))
    assert draw_graph(read_model(deep, (2,)).graph) == ""


def test_what_makes_classes_of_the_output_is_the_last_box():
    graph = read_model(bnn.Sequential(bnn.Linear(2, 3), bnn.SoftmaxHead()), (2,)).graph
    drawn = draw_graph(graph)
    assert drawn.count("<rect") == len(graph.nodes) + 2 and drawn.count('class="edge"') == len(graph.nodes) + 1
    *_, last = drawn.split('<g class="node ')
    assert last.startswith("out") and ">softmax<" in last and "3 probabilities" in last
    assert drawn.count('class="node out"') == 1
