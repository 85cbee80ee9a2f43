"""Names in generated files: one strict way from any text to a C identifier, a file name or a comment."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable

LONGEST_NAME = 40
"""Room for a prefix or a suffix within the 63 characters that C99 compilers must tell apart."""

_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl complex const constexpr
    const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false float for
    friend goto if imaginary inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public register reinterpret_cast restrict return short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual
    void volatile wchar_t while xor xor_eq std
"""
# Files of these names would hide a standard header, or are devices on Windows.
_FILES = """
    assert ctype errno fenv float inttypes iso646 limits locale main math setjmp signal stdarg stdbool stddef stdint
    stdio stdlib string tgmath time uchar wchar wctype arduino example_main cmakelists kconfig
    aux con nul prn com1 com2 com3 com4 com5 com6 com7 com8 com9 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9
"""
_PLAIN = frozenset(map(chr, range(32, 127))) - frozenset('"\\?%')
LONGEST_STRING = 60
RESERVED = frozenset((_KEYWORDS + _FILES).split())


def identifier(text: str, prefix: str = "model", taken: Collection[str] = ()) -> str:
    """A C and C++ identifier for any text: letters, digits and single underscores, never reserved, never too long.

    Reserved are keywords, names of standard headers and everything that begins with lbnn, the runtime's own; such names
    and those that begin with a digit get the prefix. `taken` names are avoided, whatever their case.
    """
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9]+", "_", ascii_text).strip("_") or _digest(text, prefix)
    if name[0].isdigit() or name.lower() in RESERVED or name.lower().startswith("lbnn"):
        name = f"{prefix}_{name}"
    if len(name) > LONGEST_NAME:
        name = _digest(text, name[: LONGEST_NAME - 9].rstrip("_"))
    return _unique(name, {other.lower() for other in taken})


def identifiers(texts: Iterable[str], prefix: str, taken: Collection[str] = ()) -> dict[str, str]:
    """A different identifier for each text."""
    names: dict[str, str] = {}
    for text in texts:
        names[text] = identifier(text, prefix, {*taken, *names.values()})
    return names


def comment(text: str) -> str:
    """Text that can't end a comment, continue a line or form a trigraph: printable ASCII without * ? \\ and quotes."""
    return re.sub(r"""[^ -~]|[*?\\"'`]""", "_", text)


def c_string(text: str) -> str:
    """Any text as a C string in UTF-8, cut where it is long; all but plain ASCII, and what C reads twice, in octal."""
    cut = text.encode("utf-8", "backslashreplace")[:LONGEST_STRING].decode("utf-8", "ignore").encode()
    return '"' + "".join(chr(byte) if chr(byte) in _PLAIN else f"\\{byte:03o}" for byte in cut) + '"'


def _digest(text: str, stem: str) -> str:
    """The stem and eight digits that stand for the whole text; nothing for an empty one."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{stem}_{digest}" if text else stem


def _unique(name: str, taken: Collection[str]) -> str:
    candidate, number = name, 1
    while candidate.lower() in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate
