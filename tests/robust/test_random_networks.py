"""Random networks: the generator reaches every layer and argument, and each network agrees or is refused."""

import inspect
import os
import runpy
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

import network_checks
from draws import EVERYTHING, SeededDraw
from lbnn import LbnnError
from lbnn import nn as bnn
from lbnn.convert.from_torch import COUNTERPARTS
from lbnn.measure.parity import Outcome
from lbnn.measure.torch_backend import run_torch
from lbnn.model.file import read_model
from network_checks import AGREES, FINDING, REFUSED, check, findings
from network_choices import draw_recipe
from random_networks import examine, examine_all, main, show, show_findings
from recipe_text import program, shrink
from recipes import Part, Recipe, Step

ROUND = range(10_000, 10_080)  # not those of `make random`
SMALL = Recipe((3,), (Part("bnn.LeakyReLU", dict(negative_slope=0.1)), Part("bnn.Affine", dict(scale=2.0))),
               (Step(0, (0,)), Step("{0} + {1}", (0, 1)), Step(1, (2,))), input_variance=True)  # fmt: skip


@pytest.fixture(scope="module")
def drawn():
    """Every value that was drawn for each argument of each layer, where odd arguments are frequent."""
    values = defaultdict(set)
    for seed in range(1000):
        for part in draw_recipe(SeededDraw(seed, replace(EVERYTHING, odd=12))).parts():
            values[part.kind, None].add(None)
            for name, value in part.arguments.items():
                values[part.kind, name].add(repr(value))
    return values


def arguments_of(layer):
    named = inspect.signature(layer).parameters.values()
    return [each.name for each in named if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


PUBLIC = {name: getattr(bnn, name) for name in bnn.__all__ if isinstance(getattr(bnn, name), type)}
LAYERS = {name: layer for name, layer in PUBLIC.items() if layer not in (bnn.Layer, bnn.BayesianLayer)}


@pytest.mark.parametrize("name", LAYERS)
def test_every_argument_of_every_layer_is_drawn_with_different_values(drawn, name):
    assert drawn[f"bnn.{name}", None], (
        f"random networks draw no {name}: add it to LAYERS of tests/support/layer_choices.py"
    )
    lacking = [argument for argument in arguments_of(LAYERS[name]) if len(drawn[f"bnn.{name}", argument]) < 2]
    assert not lacking, f"random networks draw fewer than two values of {', '.join(lacking)} of {name}"


@pytest.mark.parametrize("kind", COUNTERPARTS, ids=lambda kind: kind.__name__)
def test_every_layer_that_from_torch_replaces_is_drawn(drawn, kind):
    assert drawn[f"nn.{kind.__name__}", None], f"add {kind.__name__} to TORCH_LAYERS of tests/support/torch_choices.py"


def test_a_layer_or_an_argument_that_the_generator_does_not_know_is_named(drawn):
    class Unheard(bnn.Affine):
        def __init__(self, scale, offset=0.0):
            super().__init__(scale, offset)

    lacking = [name for name in arguments_of(Unheard) if len(drawn["bnn.Affine", name]) < 2]
    assert lacking == ["offset"]
    assert not drawn.get(("bnn.Unheard", None))


def test_one_seed_is_one_network():
    assert repr(draw_recipe(SeededDraw(7))) == repr(draw_recipe(SeededDraw(7))) != repr(draw_recipe(SeededDraw(8)))


@pytest.mark.parametrize("number", ROUND)
def test_a_random_network_agrees_everywhere_or_is_refused_in_one_line(number):
    found = examine(number, share=10).findings
    assert not found, f"{found[0].backends}: {found[0].what}\n{found[0].program}"


def test_the_printed_program_is_the_network(tmp_path):
    for number in range(20_000, 20_012):
        recipe = draw_recipe(SeededDraw(number, replace(EVERYTHING, odd=0)))
        path = tmp_path / f"network_{number}.py"
        path.write_text(program(recipe, number, 7))
        made = runpy.run_path(str(path))
        assert made["model"].sha256 == read_model(recipe.build(), recipe.shape).sha256, path.read_text()
        assert (made["samples"].var is not None) == recipe.input_variance


def off(model, samples):
    """A backend that is wrong wherever there is a leaky-ReLU."""
    right = run_torch(model, samples)
    wrong = 1.01 if "leaky_relu" in str(model.graph) else 1.0
    return Outcome(right.mean, right.var * wrong)


def with_backend(monkeypatch, runner):
    monkeypatch.setattr(network_checks, "runners", lambda network, number: {"torch": runner})


def test_a_wrong_number_is_found_and_shown_by_the_smallest_network(monkeypatch):
    with_backend(monkeypatch, off)
    results = check(SMALL, 1, ["torch"])
    assert [result.status for result in results] == [FINDING]
    (finding,) = findings(SMALL, 1, results)
    assert finding.what.startswith("wrong variance")
    assert "LeakyReLU" in finding.program and "Affine" not in finding.program and "v2" not in finding.program


def test_a_network_that_no_longer_fails_is_not_made_smaller():
    fails = lambda recipe: len(recipe.steps) == 3
    assert shrink(SMALL, fails) == replace(SMALL, input_variance=False)


@pytest.mark.parametrize(
    ("error", "status"),
    [(LbnnError("too large; use less"), REFUSED), (LbnnError("two\nlines"), FINDING), (IndexError("3"), FINDING)],
    ids=repr,
)
def test_only_an_error_of_one_line_is_a_refusal(monkeypatch, error, status):
    def fail(model, samples):
        raise error

    with_backend(monkeypatch, fail)
    (result,) = check(SMALL, 1, ["torch"])
    assert (result.status, str(error) in result.what) == (status, True)


@pytest.mark.parametrize("part", ["mean", "var"])
@pytest.mark.parametrize("factor", [1.0 + 3e-5, np.nan])
def test_what_is_beyond_the_bound_of_float32_is_a_finding(monkeypatch, part, factor):
    def wrong(model, samples):
        right = run_torch(model, samples)
        return replace(right, **{part: getattr(right, part) * factor})

    with_backend(monkeypatch, wrong)
    assert check(SMALL, 1, ["torch"])[0].status == FINDING
    with_backend(monkeypatch, run_torch)
    assert check(SMALL, 1, ["torch"])[0].status == AGREES


def test_findings_are_counted_and_printed_and_end_with_status_1(monkeypatch, capsys):
    monkeypatch.setattr(network_checks, "runners", lambda *_: defaultdict(lambda: off))
    monkeypatch.setattr("random_networks.draw_recipe", lambda draw: SMALL)
    examined = examine(3, share=0)
    show_findings(examined)
    assert show([examined]) == 1
    printed = capsys.readouterr().out
    assert "# network 3 on module, torch, onnx, onnx-reference, c: wrong variance" in printed
    assert "1 networks, 1 findings" in printed and "negative_slope: 0.1 x 1" in printed


@pytest.mark.parametrize(("count", "status"), [(0, 0), (2, 1)])
def test_the_tool_returns_1_if_something_was_found(monkeypatch, count, status):
    monkeypatch.setattr("sys.argv", ["random_networks.py", "--networks", "1"])
    monkeypatch.setattr("random_networks.examine_all", lambda numbers, jobs, share: iter([examine(30_000, 0)]))
    monkeypatch.setattr("random_networks.show", lambda examined: count)
    assert main() == status


def die(number, share):
    if number == 2:
        os._exit(1)
    return number


def test_a_network_that_kills_its_process_is_a_finding(monkeypatch):
    monkeypatch.setattr("random_networks.examine", die)
    done = list(examine_all([1, 2, 3], 1, 0))
    assert done[0] == 1 and done[2] == 3
    assert done[1].findings[0].what == "the process died"
