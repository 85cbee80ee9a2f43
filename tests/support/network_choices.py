"""Random networks as recipes: any layer after any other, layers used twice, sums, differences, concatenations."""

from __future__ import annotations

from math import prod
from typing import Any

from torch import nn

from draws import Draw
from layer_choices import COMMON, LAYERS, OFTEN, Arguments, known, softmax_head, too_large
from lbnn import LbnnError
from lbnn.model.trace import trace
from lbnn.ops import Shape
from recipes import Part, Recipe, Step
from torch_choices import TORCH_LAYERS

INPUTS: list[Shape] = [
    (3,), (1,), (6,), (17,), (70,), (2, 7), (1, 9), (2, 3), (3, 1), (4, 6), (1, 5, 6), (3, 6, 6), (2, 4, 7), (2, 1, 1),
    (2, 12), (6, 5), (1, 12, 12), (4, 5, 5), (2, 7, 3), (8, 3, 3), (2, 2, 1, 3),
]  # fmt: skip


def draw_recipe(draw: Draw) -> Recipe:
    """A network; with odd arguments allowed it may be one that has to be refused."""
    sketch = Sketch(draw, draw.pick(INPUTS))
    for _ in range(draw.integer(1, draw.variety.most_layers)):
        if not sketch.refused:
            sketch.grow()
    if not sketch.refused:
        sketch.end()
    return Recipe(sketch.shapes[0], tuple(sketch.layers), tuple(sketch.steps), draw.flag())


class Sketch:
    """A network while it is drawn: layers, steps, and the shape of each value."""

    def __init__(self, draw: Draw, shape: Shape) -> None:
        self.draw, self.shapes, self.refused = draw, [shape], False
        self.layers: list[Part] = []
        self.modules: list[nn.Module] = []
        self.steps: list[Step] = []

    def grow(self) -> None:
        """One more layer or expression, perhaps joined with an earlier value."""
        way = self.draw.pick(["layer"] * 9 + ["again", "expression", "sequence"])
        if way == "expression":
            return self._expression()
        if way == "again" and self._again():
            return None
        self._add(self._sequence() if way == "sequence" else self._part(self.shapes[-1]))
        constant = bool(self.layers) and self.layers[-1].kind == "bnn.Constant"
        if not self.refused and (constant or self.draw.chance(3)):
            self._join()
        return None

    def end(self) -> None:
        """A last layer with weights, so that the output has a variance; or a constant; or whatever is there."""
        variety, draw = self.draw.variety, self.draw
        if variety.constant_outputs and draw.chance(10):
            self._add(Part("bnn.Constant", LAYERS["Constant"](draw, self.shapes[-1]) or {}))
            if draw.flag():
                self._add(Part("bnn.LeakyReLU", dict(negative_slope=0.3)))
        elif not self.steps or not (variety.ends and draw.flag()):
            if len(self.shapes[-1]) > 1 and draw.flag():
                self._add(Part("bnn.Flatten"))
            features = dict(in_features=self.shapes[-1][-1], out_features=2)
            self._add(Part("bnn.Linear", features, weights=weights(draw)))
        if variety.heads and draw.chance(6) and not self.refused:
            self._add(self._head())

    def _head(self) -> Part:
        """One of ours, or torch's softmax."""
        if self.draw.chance(4):
            return Part(self.draw.pick(["nn.Softmax", "nn.LogSoftmax"]), dict(dim=self.draw.odd(1, 0)))
        if self.draw.chance(3):
            return Part("bnn.SigmoidHead")
        return Part("bnn.SoftmaxHead", softmax_head(self.draw))

    def _part(self, shape: Shape, options: dict[str, Any] = LAYERS) -> Part:
        """A layer that fits a shape, one of torch's own now and then."""
        if options is LAYERS and self.draw.chance(6):
            return self._converted(shape)
        while True:
            often = OFTEN.get(len(shape), COMMON)
            name = self.draw.pick([*(name for name in often if name in options), *options])
            if (arguments := options[name](self.draw, shape)) is not None:
                space = "bnn" if options is LAYERS else "nn"
                return Part(f"{space}.{name}", arguments, weights=weights(self.draw) if _weighs(name) else None)

    def _converted(self, shape: Shape) -> Part:
        part = self._part(shape, TORCH_LAYERS)
        inner = part.kind != "nn.Flatten" and self.draw.chance(4)
        chosen = dict(sigma=self.draw.pick([0.05, 0.5])) if self.draw.flag() else {}
        chosen |= dict(variance=self.draw.pick(["rank1", "row"])) if self.draw.chance(4) else {}
        if inner:
            part = Part("nn.Sequential", {}, (part, Part("nn.LeakyReLU", dict(negative_slope=0.2))))
        return Part(part.kind, part.arguments, part.inner, part.weights, chosen)

    def _sequence(self) -> Part:
        """A Sequential of two layers."""
        first = self._part(self.shapes[-1])
        try:
            shape = shape_after(first.build(), self.shapes[-1])
        except Exception:  # `_add` meets it again
            return first
        return Part("bnn.Sequential", {}, (first, self._part(shape)))

    def _again(self) -> bool:
        """A layer that is there already, once more."""
        fitting = [n for n, module in enumerate(self.modules) if _weighs(self.layers[n].kind) and self._fits(module)]
        if not fitting:
            return False
        number = self.draw.pick(fitting)
        self._append(Step(number, (len(self.steps),)), shape_after(self.modules[number], self.shapes[-1]))
        return True

    def _fits(self, module: nn.Module) -> bool:
        try:
            return not too_large(shape_after(module, self.shapes[-1]))
        except LbnnError:
            return False

    def _add(self, part: Part) -> None:
        """A layer on the last value. What fails ends an odd network, which has to fail so; others go on without it."""
        try:
            module = part.build()
            shape = shape_after(module, self.shapes[-1])
        except Exception as error:
            if not self.draw.variety.odd and not isinstance(error, LbnnError):
                raise
            self.refused = bool(self.draw.variety.odd)
            module, shape = nn.Identity(), self.shapes[-1]
            if not self.refused:
                return
        if too_large(shape):
            return
        self.layers.append(part)
        self.modules.append(module)
        self._append(Step(len(self.layers) - 1, (len(self.steps),)), shape)

    def _append(self, step: Step, shape: Shape) -> None:
        self.steps.append(step)
        self.shapes.append(shape)

    def _expression(self) -> None:
        """Arithmetic with known numbers, or a flatten, as a forward writes them."""
        draw, shape, inputs = self.draw, self.shapes[-1], (len(self.steps),)
        text = draw.pick(["{0} + {1}", "{0} - {1}", "{1} - {0}", "-{0}", "{0} * {1}", "{1} * {0}", "{0} / {1}", "flat"])
        if text == "flat":
            text = draw.odd(draw.pick(["{0}.flatten(1)", "{0}.flatten(1, -1)"]), "{0}.flatten(2)")
            self.refused = self.refused or text == "{0}.flatten(2)"
            return self._append(Step(text, inputs), (prod(shape),))
        bounds = (0.5, 2.0) if text == "{0} / {1}" else (-1.5, 1.5)
        operand = known(draw, shape, *bounds) if "1" in text else None
        return self._append(Step(text, inputs, operand), shape)

    def _join(self) -> None:
        """The last value with an earlier one: sum, difference, or side by side along any axis on which they fit."""
        last, new = len(self.steps), self.shapes[-1]
        ways: list[tuple[int, int | None]] = []
        for number, shape in enumerate(self.shapes[:-1]):
            ways += [(number, None)] * (2 if shape == new else 0)
            ways += [(number, axis) for axis in range(len(new)) if _without(shape, axis) == _without(new, axis)]
        if not ways:
            return None
        number, axis = self.draw.pick(ways)
        pair = (number, last) if self.draw.flag() else (last, number)
        return self._sum(pair) if axis is None else self._cat(pair, axis)

    def _sum(self, pair: tuple[int, int]) -> None:
        text = self.draw.pick(["{0} + {1}", "{0} - {1}", "Add", "Add", "Multiply"])
        if text in ("Add", "Multiply"):
            return self._several(Part(f"bnn.{text}"), pair, self.shapes[-1])
        return self._append(Step(text, pair), self.shapes[-1])

    def _cat(self, pair: tuple[int, int], axis: int) -> None:
        first, second = (self.shapes[number] for number in pair)
        texts = ["bnn.cat([{0}, {1}], {2})", "Concat", "lbnn.cat(({0}, {1}, {0}), dim={2})"]
        text, dim = self.draw.pick(texts), self.draw.odd(axis + 1, 0, 9)
        extent = first[axis] * (2 if text.startswith("lbnn") else 1) + second[axis]
        shape = (*first[:axis], extent, *first[axis + 1 :])
        if too_large(shape):
            return None
        self.refused = self.refused or dim != axis + 1
        if text == "Concat":
            return self._several(Part("bnn.Concat", dict(dim=dim)), pair, shape)
        return self._append(Step(text, pair, dim), shape)

    def _several(self, part: Part, inputs: tuple[int, ...], shape: Shape) -> None:
        self.layers.append(part)
        self.modules.append(nn.Identity())
        self._append(Step(len(self.layers) - 1, inputs), shape)


def _without(shape: Shape, axis: int) -> Any:
    return None if len(shape) <= axis else (len(shape), *shape[:axis], *shape[axis + 1 :])


def _weighs(kind: str) -> bool:
    """Whether a layer has weights or statistics to draw."""
    return any(word in kind for word in ("Linear", "Conv", "BatchNorm"))


def weights(draw: Draw) -> Arguments:
    """Sizes and sigmas of weights: without any sigma one in five; with `wide`, far from 1 as well."""
    sizes, sigmas = [1.0], [0.3, None, 0.3, 1.0, 0.0]
    if draw.variety.wide:
        sizes, sigmas = [1.0, 1.0, 1.0, 1e-3, 0.05, 30.0, 1e3], [*sigmas, 0.03, 1e-3, 1e-6]
    share = dict(share=0.5) if draw.chance(5) else {}
    return dict(seed=draw.seed(), size=draw.pick(sizes), sigma=draw.pick(sigmas), **share)


def shape_after(module: nn.Module, shape: Shape) -> Shape:
    """What a layer makes of a shape."""
    graph = trace(module, shape)
    return graph.values[graph.output].shape
