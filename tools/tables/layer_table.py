"""Writes the table of layers and backends into docs/layers.md, from the registry itself.

python tools/tables/layer_table.py            # rewrites the table
python tools/tables/layer_table.py --check    # exit status 1 if it is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

from lbnn import nn as bnn
from lbnn.exporters.c.calls import ROWS
from lbnn.graph.ints.study import OPERATORS
from lbnn.nn.base import Layer
from lbnn.ops import OPS, Op

PAGE = Path(__file__).resolve().parents[2] / "docs" / "layers.md"
VARIANTS = {"leaky_relu": ("leaky_relu_clamped",), "avg_pool": ("avg_pool_correlated",)}
"""Operators that an argument of a layer chooses instead of its own."""

ROUNDING = (1e-6, 1e-6)
STATED = {
    **dict.fromkeys(("abs", "elu", "leaky_relu", "piecewise"), ROUNDING),
    "hardswish": (1e-6, 3e-6),
    "GELU": (1e-6, 3e-6),
    "Sigmoid": (3e-6, 3e-5),
    "SiLU": (5e-6, 1e-4),
    "Softplus": (1e-6, 4e-6),
    "Tanh": (2e-6, 2e-5),
    "tabulated": (1e-5, 1e-4),
    "max_pool": (0.05, 0.18),
}
"""By operator or layer: largest errors of the mean, in standard deviations of the result, and of these themselves.

tests/nn/test_stated_errors.py holds them.
"""

START, END = "<!-- table: tools/tables/layer_table.py -->\n", "<!-- end of table -->\n"


def layer_classes() -> dict[str, type[Layer]]:
    """Every public layer by name."""
    classes = {name: getattr(bnn, name) for name in bnn.__all__}
    return {
        name: kind
        for name, kind in sorted(classes.items())
        if isinstance(kind, type) and issubclass(kind, Layer) and hasattr(kind, "op")
    }


def operators(kind: type[Layer]) -> list[str]:
    """The operators of a layer: the one it is, its variants and their forms for known inputs."""
    names = [name for name in OPS if name == kind.op or name in VARIANTS.get(kind.op, ())]
    forms = [OPS[name].point_form for name in names]
    return [*names, *dict.fromkeys(form for form in forms if form)]


def is_folded(op: Op) -> bool:
    """It becomes an affine map before any exporter sees it."""
    return op.as_affine is not None and op.general != "affine"


def stated(name: str, kind: type[Layer]) -> tuple[float, float] | None:
    """The errors of a layer; none where its moments are the definition itself."""
    return STATED.get(name) or STATED.get(kind.op)


def shown(errors: tuple[float, float] | None) -> str:
    """As the table has it."""
    return " / ".join(f"{part:.0e}" if part < 0.01 else f"{part:g}" for part in errors) if errors else "exact"


def table() -> str:
    """Markdown: a row for each layer."""
    heads = ("layer", "operators", "torch, numpy, ONNX", "C", "C, int8 and int16", "error: mean / sd")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, kind in layer_classes().items():
        names = operators(kind)
        listed = ", ".join(f"`{name}`" for name in names)
        kernels = "yes" if all(OPS[name].general in ROWS for name in names) else "no"
        integers = "yes" if OPS[kind.op].general in OPERATORS else "no"
        in_c, in_integers = ("folded",) * 2 if is_folded(OPS[kind.op]) else (kernels, integers)
        lines.append(f"| `{name}` | {listed} | yes | {in_c} | {in_integers} | {shown(stated(name, kind))} |")
    return "\n".join(lines) + "\n"


def rewritten(page: str) -> str:
    """The page with the table of today."""
    head, rest = page.split(START)
    return head + START + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    current = PAGE.read_text()
    if "--check" in sys.argv:
        sys.exit(current != rewritten(current))
    PAGE.write_text(rewritten(current))
