"""A recipe as a program: what a failing network is reported as, and what it is made smaller by."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace

from recipes import Recipe, Step, numbers, weigh

PROGRAM = """\
import torch
from torch import Tensor, nn

import lbnn
from lbnn import nn as bnn
from lbnn.graph.reference import predict
from lbnn.measure.samples import draw_samples

{helpers}
class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([
{layers}        ])

    def forward(self, v0):
{steps}        return v{last}


network = Network().eval()
model = lbnn.read_model(network, {shape})
samples = draw_samples(model, {samples}, seed={seed}, input_variance={variance})
want = predict(model.graph, samples.mean, samples.var)
"""


def program(recipe: Recipe, seed: int, samples: int) -> str:
    """Python that builds the network, its samples and what float64 makes of them; it needs lbnn alone."""
    layers = "".join(f"            {part!r},\n" for part in recipe.layers)
    steps = "".join(f"        v{number} = {step.text()}\n" for number, step in enumerate(recipe.steps, start=1))
    helpers = "\n\n".join(inspect.getsource(each) for each in (numbers, weigh) if f"{each.__name__}(" in layers + steps)
    return PROGRAM.format(
        helpers=f"\n{helpers}\n" if helpers else "",
        layers=layers,
        steps=steps,
        last=len(recipe.steps),
        shape=recipe.shape,
        seed=seed,
        samples=samples,
        variance=recipe.input_variance,
    )


def shrink(recipe: Recipe, fails: Callable[[Recipe], bool], most_tries: int = 60) -> Recipe:
    """A smaller network that still fails in the same way, by leaving out one step after the other."""
    tries = 0
    while True:
        for smaller in _smaller(recipe):
            tries += 1
            if tries > most_tries:
                return recipe
            if fails(smaller):
                recipe = smaller
                break
        else:
            return recipe


def _smaller(recipe: Recipe) -> Iterator[Recipe]:
    """Without the last steps, or without one in between, whose input then takes its place."""
    for count in range(1, len(recipe.steps)):
        yield _tidy(replace(recipe, steps=recipe.steps[:count]))
    for left_out in range(len(recipe.steps) - 1):
        yield _tidy(replace(recipe, steps=tuple(_without(recipe.steps, left_out))))
    if recipe.input_variance:
        yield replace(recipe, input_variance=False)


def _without(steps: tuple[Step, ...], left_out: int) -> Iterator[Step]:
    """The step of number k gives the value of number k + 1."""
    heir = steps[left_out].inputs[0]
    for number, step in enumerate(steps):
        if number != left_out:
            moved = (heir if i == left_out + 1 else i - (i > left_out + 1) for i in step.inputs)
            yield replace(step, inputs=tuple(moved))


def _tidy(recipe: Recipe) -> Recipe:
    """Without layers that no step calls."""
    used = sorted({step.call for step in recipe.steps if isinstance(step.call, int)})
    steps = (replace(step, call=used.index(step.call)) if isinstance(step.call, int) else step for step in recipe.steps)
    return replace(recipe, layers=tuple(recipe.layers[number] for number in used), steps=tuple(steps))
