"""Follows the recipes of the documents word for word, each in a copy of the tree that is gone afterwards.

    python tools/check/follow_recipes.py                    every recipe
    python tools/check/follow_recipes.py --only 'a board'   those whose heading matches a pattern
    python tools/check/follow_recipes.py --list

A recipe is a section that has blocks between ``` lines. The sentence above a block says what becomes of it:

    Write `FILE`:                                     a new file
    At the end of `FILE`:                             after an empty line
    In `FILE`, below `TEXT`:                          behind the one line that holds TEXT; also: above, in place of
    In `FILE`, above the last `TEXT`:                 where more lines than one hold it; also: the first

Blocks of sh are run by bash in the copy, with every tool required; each command has to succeed. Exit status 1: a recipe
can't be followed, and the step where it ends is named.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from mutants import copy_of, environment

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("docs/extending.md", "docs/devices.md")
CONSOLE = Console(highlight=False)

FENCE = re.compile(r"^( *)```(\w*)$")
SHOWN = "console"
"""What a command printed; nothing is to be done with it."""
PLACE = re.compile(r"In `([^`]+)`, (below|above|in place of)( the first| the last)? `([^`]+)`:$")
WHOLE = re.compile(r"(Write|At the end of) `([^`]+)`:$")
PATH = re.compile(r"(?<![\w./-])(?:tests|tools|lbnn|docs|c_runtime|examples)/[\w./-]*\w")
"""What looks like a file or folder of the tree in a command."""


class RecipeError(Exception):
    """A step that can't be followed as it stands."""


@dataclass(frozen=True)
class Block:
    """A block of a recipe and what becomes of it: `action` is run, write, append, below, above or in place of."""

    where: str  # for people: document and line, recipe, step
    text: str
    action: str
    file: str = ""
    anchor: str = ""
    which: str = ""  # of several lines with the anchor: first, last, or empty for the only one


@dataclass(frozen=True)
class Recipe:
    """The blocks of a section, in order."""

    title: str
    blocks: tuple[Block, ...]


# ---- reading -------------------------------------------------------------------------------------------------


def read_recipes(root: Path = ROOT) -> list[Recipe]:
    """Every recipe of every document."""
    return [recipe for name in DOCUMENTS for recipe in parse((root / name).read_text(), name)]


def parse(text: str, document: str) -> Iterator[Recipe]:
    """The sections that have blocks."""
    lines = text.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("## ")]
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        title = lines[begin].removeprefix("## ")
        if blocks := tuple(_blocks(lines, begin, end, f"{document}:{{}}: {title}")):
            yield Recipe(title, blocks)


def _blocks(lines: list[str], begin: int, end: int, where: str) -> Iterator[Block]:
    step, number = "", begin
    while number < end:
        if item := re.match(r"(\d+)\. ", lines[number]):
            step = f", step {item[1]}"
        if fence := FENCE.match(lines[number]):
            place = where.format(number + 1) + step
            close = next((n for n in range(number + 1, end) if lines[n] == f"{fence[1]}```"), None)
            if close is None:
                raise RecipeError(f"{place}: the block does not end")
            inside = [line.removeprefix(fence[1]) for line in lines[number + 1 : close]]
            if fence[2] != SHOWN:
                yield _block(place, "\n".join(inside) + "\n", fence[2], _sentence(lines, number))
            number = close
        number += 1


def _sentence(lines: list[str], number: int) -> str:
    """The paragraph above a block."""
    end = number
    while end and not lines[end - 1].strip():
        end -= 1
    begin = end
    while begin and lines[begin - 1].strip() and not FENCE.match(lines[begin - 1]):
        begin -= 1
    return " ".join(line.strip() for line in lines[begin:end])


def _block(where: str, text: str, language: str, sentence: str) -> Block:
    if language == "sh":
        return Block(where, text, "run")
    if found := PLACE.search(sentence):
        file, action, which, anchor = found.groups()
        return Block(where, text, action, file, anchor, (which or "").removeprefix(" the "))
    if found := WHOLE.search(sentence):
        return Block(where, text, "write" if found[1] == "Write" else "append", found[2])
    raise RecipeError(f"{where}: the sentence above the block does not say where it goes: {sentence!r}")


# ---- following -----------------------------------------------------------------------------------------------


def edited(block: Block, old: str | None) -> str:
    """The text of the block's file after it; None stands for a file that does not exist.

    A tree in which somebody has followed the recipe already stays as it is, and its tests pass.
    """
    if old is not None and block.text in old:
        return old
    if (old is None) != (block.action == "write"):
        raise RecipeError(f"{block.where}: {block.file} {'does not exist' if old is None else 'exists already'}")
    if old is None:
        return block.text
    if block.action == "append":
        return f"{old.rstrip()}\n\n{block.text}"
    lines = old.splitlines(keepends=True)
    at = _line_of(block, lines)
    begin, end = {"below": (at + 1, at + 1), "above": (at, at), "in place of": (at, at + 1)}[block.action]
    return "".join([*lines[:begin], block.text, *lines[end:]])


def _line_of(block: Block, lines: list[str]) -> int:
    found = [number for number, line in enumerate(lines) if block.anchor in line]
    if not found or (len(found) > 1 and not block.which):
        raise RecipeError(f"{block.where}: {len(found)} lines of {block.file} hold {block.anchor!r}")
    return found[-1 if block.which == "last" else 0]


def follow(recipe: Recipe, read: Callable[[str], str | None], write: Callable[[str, str], None]) -> Iterator[Block]:
    """Does the edits, and gives each block as it is done; one that is run is left to the caller."""
    for block in recipe.blocks:
        if block.action != "run":
            write(block.file, edited(block, read(block.file)))
        yield block


def strangers(recipe: Recipe, root: Path = ROOT) -> list[str]:
    """Files that commands name and that neither the tree nor the recipe has."""
    written = {block.file for block in recipe.blocks if block.action == "write"}
    named = [(block, path) for block in recipe.blocks if block.action == "run" for path in PATH.findall(block.text)]
    return [f"{block.where}: {path}" for block, path in named if path not in written and not (root / path).exists()]


def follow_in(tree: Path, recipe: Recipe) -> Iterator[tuple[Block, str]]:
    """Follows a recipe in a tree; gives each block that has been done, and what its commands printed."""

    def read(file: str) -> str | None:
        path = tree / file
        return path.read_text() if path.is_file() else None

    def write(file: str, text: str) -> None:
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        (tree / file).write_text(text)

    for block in follow(recipe, read, write):
        yield block, run(block, tree) if block.action == "run" else ""


def run(block: Block, tree: Path) -> str:
    """Runs the commands of a block as one shell would, with the tools of this Python first."""
    found = environment(tree)
    tools = {"PATH": f"{Path(sys.prefix) / 'bin'}{os.pathsep}{found['PATH']}", "VIRTUAL_ENV": sys.prefix}
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        done = subprocess.run(
            ["bash", "-exo", "pipefail", "-c", block.text],
            cwd=tree,
            env={**found, **tools},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
        log.seek(0)
        text = log.read()
    if done.returncode:
        raise RecipeError(f"{block.where}: exit status {done.returncode}\n{text[-8000:]}")
    return text


def lend_tools(tree: Path) -> None:
    """This Python as .venv, and younger than what it is made of, so that make does not make one."""
    (tree / ".venv").mkdir()
    for part in Path(sys.prefix).iterdir():
        if part.name != "installed":
            (tree / ".venv" / part.name).symlink_to(part)
    (tree / ".venv/installed").touch()


def processor_seconds() -> float:
    """Of all commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def try_recipe(recipe: Recipe) -> str:
    """Follows a recipe in a fresh copy, with a line for each block; the failure, or nothing."""
    CONSOLE.print(f"[bold]{recipe.title}[/bold]")
    begin = processor_seconds()
    with copy_of(ROOT) as tree, CONSOLE.status(recipe.title):
        lend_tools(tree)
        try:
            for block, log in follow_in(tree, recipe):
                what = block.action if block.action == "run" else f"{block.action} {block.file}"
                CONSOLE.out(f"  {processor_seconds() - begin:5.0f} s  {block.where.split(':')[1]:>4}  {what}")
                for line in re.findall(r"^(?:\+ .*|.* passed.*)$", log, re.MULTILINE):
                    CONSOLE.out(f"                 {line[:100]}")
        except RecipeError as error:
            CONSOLE.out(str(error))
            return str(error).splitlines()[0]
    return ""


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--only", default="", metavar="PATTERN", help="Recipes whose heading matches.")
@click.option("--list", "listing", is_flag=True, help="Print the recipes and their blocks.")
def main(only: str, listing: bool) -> None:
    """Follows the recipes that `only` selects."""
    recipes = [recipe for recipe in read_recipes() if re.search(only, recipe.title, re.IGNORECASE)]
    if listing:
        print("\n".join(f"{block.where}: {block.action} {block.file}" for r in recipes for block in r.blocks))
        return
    failures = [failure for recipe in recipes if (failure := try_recipe(recipe))]
    print("\n".join([*failures, f"{len(recipes) - len(failures)} of {len(recipes)} recipes work as they are written"]))
    sys.exit(1 if failures or not recipes else 0)


if __name__ == "__main__":
    main()
