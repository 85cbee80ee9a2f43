"""The moment graph, what is done to it, and the reference that says what it computes."""

from lbnn.graph.graph import INPUT, Array, Graph, GraphBuilder, Node, Param, Value, check_node, rebuild

__all__ = ["INPUT", "Array", "Graph", "GraphBuilder", "Node", "Param", "Value", "check_node", "rebuild"]
