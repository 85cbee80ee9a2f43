"""Owns the small changes of Python source: places found in its syntax tree, replaced in its text.

Left alone is what no test could hold: annotations, decorators, messages of errors, f-strings, and the samples that an
operator brings for its own tests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: (r"<(?!=)", ("<=", ">=")),
    ast.LtE: (r"<=", ("<", ">")),
    ast.Gt: (r">(?!=)", (">=", "<=")),
    ast.GtE: (r">=", (">", "<")),
    ast.Eq: (r"==", ("!=",)),
    ast.NotEq: (r"!=", ("==",)),
    ast.In: (r"\bin\b", ("not in",)),
    ast.NotIn: (r"\bnot\s+in\b", ("in",)),
    ast.Is: (r"\bis\b(?!\s+not)", ("is not",)),
    ast.IsNot: (r"\bis\s+not\b", ("is",)),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, tuple[str, ...]]] = {
    ast.Add: (r"\+", ("-",)),
    ast.Sub: (r"-", ("+",)),
    ast.Mult: (r"\*(?!\*)", ("/",)),
    ast.Div: (r"/(?!/)", ("*",)),
    ast.FloorDiv: (r"//", ("*",)),
    ast.Mod: (r"%", ("//",)),
    ast.Pow: (r"\*\*", ("*",)),
}
TWINS = {
    **{"any": "all", "min": "max", "minimum": "maximum", "floor": "ceil", "argmin": "argmax", "zeros": "ones"},
    **{"zeros_like": "ones_like", "exp": "expm1", "log": "log1p", "cumsum": "cumprod", "sum": "max"},
}
TWIN = {**TWINS, **{new: old for old, new in TWINS.items() if old != "sum"}}
"""Functions that take each other's arguments."""

UNTESTED = ("_sample", "_samples", "_SAMPLES", "samples", "__all__", "strict", "KERNELS", "TYPE_CHECKING")
"""What is said for tests and readers; `zip(..., strict=True)`, which asserts; a table of sizes that a tool measures."""

TEXTS = ("name", "key", "part", "source", "target", "op", "alias", "kind", "general", "place", "test")
"""Names of what is text or a pair wherever we use them: no number can be added."""

NO_SWAP = ("isinstance", "getattr", "hasattr", "issubclass", "replace", "cast", "property")
"""Calls that die at once with their arguments exchanged."""


@dataclass(frozen=True)
class Edit:
    """Characters [start, end) of a text replaced by `new`; `operator` names the kind of change."""

    operator: str
    start: int
    end: int
    new: str

    def applied(self, text: str) -> str:
        """The text with the change in it."""
        return text[: self.start] + self.new + text[self.end :]


def python_edits(text: str) -> list[Edit]:
    """Every small change of a module; `is_another_program` says which of them are valid."""
    source = _Source(text)
    return list(dict.fromkeys(edit for node in _tested(ast.parse(text)) for edit in _edits(node, source)))


def is_another_program(text: str, edit: Edit) -> bool:
    """Whether a change of a module gives a program that can be read and is not the same."""
    try:
        return ast.dump(ast.parse(edit.applied(text))) != ast.dump(ast.parse(text))
    except SyntaxError:
        return False


class _Source:
    """A text and the offsets of its nodes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        self.lines = text.splitlines(keepends=True)
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """Columns of a syntax tree count bytes of UTF-8."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where the node's own text lies."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def of(self, node: ast.expr | ast.stmt) -> str:
        """The node's own text."""
        start, end = self.span(node)
        return self.text[start:end]


def _tested(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one whose change a test can hold."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _untested(child):
                yield from _tested(child)


def _untested(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.keyword):
        return node.arg in UNTESTED
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(target, ast.Name) and target.id in UNTESTED for target in targets)
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id in UNTESTED
    return isinstance(node, ast.FunctionDef) and node.name in UNTESTED


def _edits(node: ast.AST, source: _Source) -> Iterator[Edit]:
    for kind, function in OPERATORS.items():
        if isinstance(node, kind):
            yield from function(node, source)


def _between(left: ast.expr, right: ast.expr, pattern: str, source: _Source) -> tuple[int, int] | None:
    start, end = source.span(left)[1], source.span(right)[0]
    found = re.search(pattern, source.text[start:end])
    return (start + found.start(), start + found.end()) if found else None


def _compare(node: ast.Compare, source: _Source) -> Iterator[Edit]:
    for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
        pattern, others = COMPARISONS[type(op)]
        if place := _between(left, right, pattern, source):
            yield from (Edit("comparison", *place, other) for other in others)


def _binary(node: ast.BinOp, source: _Source) -> Iterator[Edit]:
    if type(node.op) not in ARITHMETIC:
        return
    pattern, others = ARITHMETIC[type(node.op)]
    if place := _between(node.left, node.right, pattern, source):
        yield from (Edit("sign", *place, other) for other in others)
    span, left, right = source.span(node), source.of(node.left), source.of(node.right)
    start, end = source.span(node.left)[0], source.span(node.right)[1]
    if (start, end) == span:  # no parentheses around an operand, which would be torn
        yield Edit("dropped term", *span, left)
        if isinstance(node.op, ast.Add | ast.Mult):
            yield Edit("dropped term", *span, right)
        if isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Pow):
            middle = source.text[source.span(node.left)[1] : source.span(node.right)[0]]
            yield Edit("swapped arguments", *span, f"({right}){middle}({left})")


def _unary(node: ast.UnaryOp, source: _Source) -> Iterator[Edit]:
    if isinstance(node.op, ast.USub | ast.Not):
        start, end = source.span(node)
        text = re.sub(r"^(-|not\b)\s*", "", source.text[start:end])
        yield Edit("sign" if isinstance(node.op, ast.USub) else "condition", start, end, text)


def _boolean(node: ast.BoolOp, source: _Source) -> Iterator[Edit]:
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in pairwise(node.values):
        if place := _between(left, right, rf"\b{old}\b", source):
            yield Edit("and/or", *place, new)
            yield Edit("dropped term", source.span(left)[0], source.span(right)[0], "")
            yield Edit("dropped term", source.span(left)[1], source.span(right)[1], "")


def _constant(node: ast.Constant, source: _Source) -> Iterator[Edit]:
    span = source.span(node)
    if isinstance(node.value, bool):
        yield Edit("constant", *span, str(not node.value))
    elif isinstance(node.value, int):
        yield from (Edit("constant", *span, str(node.value + step)) for step in (-1, 1) if node.value + step >= 0)
    elif isinstance(node.value, float):
        yield Edit("constant", *span, repr(node.value * 1.001 or 1.0))


def _subscript(node: ast.Subscript, source: _Source) -> Iterator[Edit]:
    index = node.slice
    if isinstance(index, ast.BinOp) or (isinstance(index, ast.Name) and index.id not in TEXTS):
        yield from (Edit("index", *source.span(index), f"{source.of(index)} {step}") for step in ("- 1", "+ 1"))
    if isinstance(index, ast.Slice):
        for bound in filter(None, (index.lower, index.upper)):
            yield Edit("index", *source.span(bound), "")


def _call(node: ast.Call, source: _Source) -> Iterator[Edit]:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name in TWIN:
        end = source.span(node.func)[1]
        yield Edit("twin", end - len(name), end, TWIN[name])
    if name in NO_SWAP:
        return
    for left, right in pairwise(node.args):
        if type(left) is type(right) and not isinstance(left, ast.Starred):
            middle = source.text[source.span(left)[1] : source.span(right)[0]]
            swapped = source.of(right) + middle + source.of(left)
            yield Edit("swapped arguments", source.span(left)[0], source.span(right)[1], swapped)


def _test(node: ast.If | ast.IfExp | ast.While, source: _Source) -> Iterator[Edit]:
    yield Edit("condition", *source.span(node.test), f"not ({source.of(node.test)})")


def _statement(node: ast.Expr | ast.AugAssign, source: _Source) -> Iterator[Edit]:
    if isinstance(node, ast.AugAssign):
        pattern, others = ARITHMETIC.get(type(node.op), ("", ()))
        if pattern and (place := _between(node.target, node.value, pattern, source)):
            yield from (Edit("sign", *place, other) for other in others)
        yield Edit("dropped statement", *source.span(node), "pass")
    elif isinstance(node.value, ast.Call):
        yield Edit("dropped statement", *source.span(node), "pass")


OPERATORS: dict[type[ast.AST] | tuple[type[ast.AST], ...], Callable[..., Iterator[Edit]]] = {
    ast.Compare: _compare,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Constant: _constant,
    ast.Subscript: _subscript,
    ast.Call: _call,
    (ast.If, ast.IfExp, ast.While): _test,
    (ast.Expr, ast.AugAssign): _statement,
}
