"""Owns the small changes of C text, and of the C text between the tags of a template.

It reads tokens, not syntax. That suffices because our C is formatted: a binary operator has a blank on both sides, a
sign or a pointer's star has none behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from mutants_python import Edit

TOKENS = re.compile(
    r"""
    (?P<skip>\{%.*?%\}|\{\#.*?\#\}|/\*.*?\*/|//[^\n]*|\s+)
  | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)[fFuUlL]*)
  | (?P<name>(?:\w|\{\{.*?\}\})+)
  | (?P<sign><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
PREPROCESSOR = re.compile(r"^[ \t]*\#(?:[^\n\\]|\\\n|\\.)*", re.MULTILINE)

OTHERS = {
    **{"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)},
    **{"&&": ("||",), "||": ("&&",)},
    **{"+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("/",), "+=": ("-=",), "-=": ("+=",), "*=": ("/=",)},
    **{"<<": (">>",), ">>": ("<<",), "&": ("|",), "|": ("&",)},
}
KIND = {
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), "comparison"),
    **dict.fromkeys(("&&", "||"), "and/or"),
}
TYPES = re.compile(r"(const|void|float|int|long|char|unsigned|double|struct|static|\w+_t|lbnn_(input|sums?|four))\b")
NO_CALLS = ("if", "for", "while", "switch", "return", "sizeof", "do", "else")
ENDS = {*OTHERS, *",;)]}?:=", "*="} - {"*", "/", "%", "&", "|", "<<", ">>"}
"""What ends a term of a sum."""


@dataclass(frozen=True)
class Token:
    """A piece of C: text, number, name or sign."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.start + len(self.text)


def c_edits(text: str) -> list[Edit]:
    """Every small change of C text; the compiler may refuse some."""
    tokens = tokenize(text)
    found = {edit: None for at in range(len(tokens)) for edit in _edits(tokens, at, text)}
    return [edit for edit in found if _is_whole(edit, text)]


def _is_whole(edit: Edit, text: str) -> bool:
    """A change, and one that tears no tag of a template."""
    return edit.applied(text) != text and "{%" not in text[edit.start : edit.end]


def tokenize(text: str) -> list[Token]:
    """The tokens, without comments, preprocessor lines and the tags of a template; `{{ }}` is part of a name."""
    blanked = PREPROCESSOR.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return [
        Token(str(found.lastgroup), found[0], found.start())
        for found in TOKENS.finditer(blanked)
        if found.lastgroup != "skip"
    ]


def _edits(tokens: list[Token], at: int, text: str) -> Iterator[Edit]:
    token = tokens[at]
    if token.kind == "number":
        yield from _number(tokens, at)
    elif token.kind == "name":
        yield from _arguments(tokens, at, text)
    elif token.kind == "sign":
        yield from _sign(tokens, at, text)


def _spaced(token: Token, text: str) -> bool:
    return text[token.start - 1 : token.start].isspace() and text[token.end : token.end + 1].isspace()


def _sign(tokens: list[Token], at: int, text: str) -> Iterator[Edit]:
    token = tokens[at]
    if token.text in OTHERS and _spaced(token, text) and at > 0:
        kind = KIND.get(token.text, "sign")
        yield from (Edit(kind, token.start, token.end, other) for other in OTHERS[token.text])
        yield from _dropped(tokens, at)
    elif token.text in ("-", "!") and not _operand(tokens[at - 1]):
        yield Edit("sign" if token.text == "-" else "condition", token.start, token.end, "")
    elif token.text == "[" and tokens[at + 1].text != "]" and not _declared(tokens, at):
        close = _closing(tokens, at)
        yield from (Edit("index", tokens[close].start, tokens[close].start, step) for step in (" + 1", " - 1"))
    elif token.text == "?" and (colon := _colon(tokens, at)):
        yield from _ternary(tokens, at, colon, text)
    elif token.text in (";", "{", "}") and at + 1 < len(tokens):
        yield from _statement(tokens, at + 1)


def _operand(token: Token) -> bool:
    return (token.kind in ("name", "number") and token.text not in NO_CALLS) or token.text in (")", "]")


def _declared(tokens: list[Token], at: int) -> bool:
    """Whether [ ] gives the length of an array, not an element of one."""
    before = tokens[at - 2] if at >= 2 else tokens[0]
    return before.text != "return" and (before.kind == "name" or before.text in ("*", "]"))


def _number(tokens: list[Token], at: int) -> Iterator[Edit]:
    token = tokens[at]
    hexadecimal = token.text[:2] in ("0x", "0X")
    digits = token.text.rstrip("uUlL" if hexadecimal else "fFuUlL")
    suffix = token.text[len(digits) :]
    if hexadecimal:
        yield Edit("constant", token.start, token.end, f"0x{int(digits, 16) ^ 1:x}{suffix}")
    elif re.search(r"[.eE]", digits):
        yield Edit("constant", token.start, token.end, f"{float(digits) * 1.001 or 1.0!r}{suffix}")
    else:
        yield from (Edit("constant", token.start, token.end, f"{int(digits) + step}{suffix}") for step in (-1, 1))


def _closing(tokens: list[Token], at: int) -> int:
    depth = 0
    for index in range(at, len(tokens)):
        depth += tokens[index].text in ("(", "[", "{")
        depth -= tokens[index].text in (")", "]", "}")
        if depth == 0:
            return index
    return len(tokens) - 1


def _until(tokens: list[Token], at: int, ends: set[str]) -> int:
    """The first token from `at` on that is one of `ends`, brackets passed over."""
    while at < len(tokens) and tokens[at].text not in ends:
        at = _closing(tokens, at) + 1 if tokens[at].text in ("(", "[", "{") else at + 1
    return at


def _dropped(tokens: list[Token], at: int) -> Iterator[Edit]:
    """An operator and its right operand."""
    sign = tokens[at].text
    if sign in ("+", "-", "*", "/"):
        ends = ENDS if sign in ("+", "-") else ENDS | {"*", "/", "%"}
    elif sign in ("&&", "||"):
        ends = {")", ";", ",", "?", ":", "||", "]"} | ({"&&"} if sign == "&&" else set())
    else:
        return
    end = _until(tokens, at + 1, ends)
    yield Edit("dropped term", tokens[at].start, tokens[end - 1].end, "")


def _colon(tokens: list[Token], at: int) -> int | None:
    colon = _until(tokens, at + 1, {":", ";", "?"})
    return colon if colon < len(tokens) and tokens[colon].text == ":" else None


def _ternary(tokens: list[Token], at: int, colon: int, text: str) -> Iterator[Edit]:
    end = _until(tokens, colon + 1, {";", ",", ")", "]", "}"})
    first = text[tokens[at + 1].start : tokens[colon - 1].end]
    second = text[tokens[colon + 1].start : tokens[end - 1].end]
    yield Edit("swapped arguments", tokens[at + 1].start, tokens[end - 1].end, f"{second} : {first}")


def _arguments(tokens: list[Token], at: int, text: str) -> Iterator[Edit]:
    """Neighbours among the arguments of a call."""
    if at + 1 >= len(tokens) or tokens[at + 1].text != "(" or tokens[at].text in NO_CALLS:
        return
    close, starts = _closing(tokens, at + 1), [at + 2]
    while (comma := _until(tokens, starts[-1], {",", ")"})) < close:
        starts.append(comma + 1)
    ends = [start - 1 for start in starts[1:]] + [close]
    spans = [(tokens[a].start, tokens[b - 1].end) for a, b in zip(starts, ends, strict=True) if b > a]
    if any(TYPES.match(text[a:b]) for a, b in spans):  # a declaration
        return
    for (a, b), (c, d) in pairwise(spans):
        yield Edit("swapped arguments", a, d, text[c:d] + text[b:c] + text[a:b])


def _statement(tokens: list[Token], at: int) -> Iterator[Edit]:
    """An assignment with an operator, or a call whose result nobody takes."""
    end = _until(tokens, at, {";", "{", "}"})
    inside = tokens[at:end]
    if end >= len(tokens) or tokens[end].text != ";" or not inside or inside[0].kind != "name":
        return
    adds = any(token.text in ("+=", "-=", "*=") for token in inside)
    calls = len(inside) > 2 and inside[1].text == "(" and inside[0].text not in NO_CALLS and inside[-1].text == ")"
    if adds or (calls and _closing(tokens, at + 1) == end - 1):
        yield Edit("dropped statement", inside[0].start, tokens[end].end, "")
