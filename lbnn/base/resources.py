"""Finds the C runtime and the templates: beside the package in a checkout, inside it once installed."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_INCLUDE = re.compile(r'^#include "(lbnn\w*\.h)".*\n', re.MULTILINE)


@cache
def folder(name: str) -> Path:
    """The folder `c_runtime` or `codegen_templates`."""
    places = (_PACKAGE / name, _PACKAGE.parent / name)
    return next(place for place in places if place.is_dir())


def targets_folder() -> Path:
    """What makes firmware of a model: start-up code, drivers, clocks."""
    return folder("c_runtime") / "targets"


@cache
def header(name: str) -> str:
    """The text of a header of the runtime."""
    return (folder("c_runtime") / name).read_text(encoding="utf-8")


def with_dependencies(names: list[str]) -> list[str]:
    """The headers and all that they include, each behind those it needs."""
    found: list[str] = []
    for name in names:
        needed = [other for other in _INCLUDE.findall(header(name)) if other != name]
        found += [other for other in [*with_dependencies(needed), name] if other not in found]
    return found


def without_includes(text: str) -> str:
    """A header's text for a file that already holds the headers it includes."""
    return _INCLUDE.sub("", text)


@cache
def abi_version() -> int:
    """What LBNN_ABI_VERSION is in this runtime."""
    match = re.search(r"#define LBNN_ABI_VERSION (\d+)", header("lbnn.h"))
    assert match, "lbnn.h defines LBNN_ABI_VERSION"
    return int(match[1])
