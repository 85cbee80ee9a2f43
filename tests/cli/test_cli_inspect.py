"""`lbnn inspect`: layers, graph and plan."""

import json

from shell import run


def test_inspect_lists_layers_and_the_graph(model):
    report = json.loads(run("inspect", model, "--json").stdout)
    assert report["parameters"] == 3 * 8 + 8 + 8 + 1
    assert report["macs"] == 3 * 8 + 8
    assert "linear_point(input" in run("inspect", model, "--graph").stdout
    assert "work buffer" in run("inspect", model, "--plan").stdout
