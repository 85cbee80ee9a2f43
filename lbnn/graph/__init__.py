"""The moment graph, what is done to it, and the reference that says what it computes."""

from lbnn.graph.graph import INPUT, Graph, GraphBuilder, Node, Param, Value, check_node, rebuild

__all__ = ["INPUT", "Graph", "GraphBuilder", "Node", "Param", "Value", "check_node", "rebuild"]
