"""Rewrites the measured numbers of the pages: each block between markers names the command that prints it.

    python tools/tables/pages.py                     # every block that is no long run and no time of this machine
    python tools/tables/pages.py --kinds long,times  # those of these kinds
    python tools/tables/pages.py --only onnx.md      # those whose page or command holds a text
    python tools/tables/pages.py --check             # changes nothing; a diff, and status 1 where a block is not right
    python tools/tables/pages.py --list

    <!-- numbers: COMMAND; quick, gcc 12 -->     the block is what the command prints
    <!-- console: COMMAND -->                    the block is the command and what it prints, as code

A command runs in the top folder, for an example in its own. The words behind the semicolon say what a number depends
on: `quick` takes seconds, and the suite computes it again; `long` takes minutes; `times` are of the machine and of what
else it does; `gcc 12` is compiled by arm-none-eabi-gcc 12, `avr-gcc 5` by that, and another one counts otherwise;
`arduino core` needs Debian's.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lbnn.base.terminal import progress

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("quick", "long", "times", "gcc 12", "avr-gcc 5", "arduino core")
ASKED_FOR = {"long", "times"}
BLOCK = re.compile(r"(<!-- (numbers|console): ([^\n;]+)(?:; ([^\n]+))? -->\n)(.*?)(<!-- end of numbers -->\n)", re.S)


@dataclass(frozen=True)
class Block:
    """A part of a page and where it comes from."""

    page: Path
    form: str
    command: str
    kinds: frozenset[str]
    body: str

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.page.relative_to(ROOT)}: {self.command}"

    @property
    def folder(self) -> Path:
        """Where the command runs."""
        return self.page.parent if self.page.parent.parent == ROOT / "examples" else ROOT


def pages() -> list[Path]:
    """Everything that speaks to readers; the README last, for it shows rows of docs/performance.md."""
    folders = [ROOT / folder for folder in ("docs", "c_runtime", "examples")]
    tops = [ROOT / name for name in ("SECURITY.md", "CONTRIBUTING.md", "README.md")]
    return [*(page for folder in folders for page in sorted(folder.rglob("*.md"))), *tops]


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page."""
    for _, form, command, kinds, body, _ in BLOCK.findall(page.read_text()):
        found = frozenset(kind.strip() for kind in kinds.split(",") if kind)
        if not found <= set(KINDS):
            sys.exit(f"{page.relative_to(ROOT)}: {kinds!r} is none of {', '.join(KINDS)}")
        yield Block(page, form, command, found, body)


def printed(block: Block) -> str:
    """What the block would be now."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    seen = subprocess.STDOUT if block.form == "console" else subprocess.PIPE  # a console shows both
    words = shlex.split(block.command)
    done = subprocess.run(
        words, cwd=block.folder, env=environment, stdout=subprocess.PIPE, stderr=seen, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{block.name} failed: {done.stdout.strip()}{done.stderr or ''}")
    text = "".join(f"{line.rstrip()}\n" for line in done.stdout.strip("\n").splitlines())
    return f"```console\n$ {block.command}\n{text}```\n" if block.form == "console" else text


def rewrite(block: Block, body: str) -> None:
    """Puts the new body into the page."""

    def change(found: re.Match[str]) -> str:
        ours = found[3] == block.command and found[2] == block.form
        return found[1] + body + found[6] if ours else found[0]

    block.page.write_text(BLOCK.sub(change, block.page.read_text()))


def chosen(kinds: set[str], only: str) -> list[Block]:
    """The blocks that were asked for."""
    every = [block for page in pages() for block in blocks(page) if only in block.name]
    if kinds:
        return [block for block in every if block.kinds & kinds]
    return [block for block in every if not block.kinds & ASKED_FOR]


def main() -> None:
    """Rewrites, checks or lists."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default="", help=f"some of {', '.join(KINDS)}, with commas; or all")
    parser.add_argument("--only", default="", help="a text of the page's name or of the command")
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 if a block is out of date")
    parser.add_argument("--list", action="store_true", help="print the blocks and what they depend on")
    args = parser.parse_args()
    kinds = {kind.strip() for kind in args.kinds.split(",") if kind}
    found = chosen({*KINDS} if "all" in kinds else kinds, args.only)
    found += chosen(set(), args.only) if "all" in kinds else []
    by_name = {block.name: block for block in found}
    if args.list:
        print("\n".join(f"{name}  [{', '.join(sorted(block.kinds))}]" for name, block in by_name.items()))
        return
    with progress("measuring", list(by_name)) as names:
        differing = [name for name in names if differs(by_name[name], args.check)]
    sys.exit(1 if args.check and differing else 0)


def differs(block: Block, check: bool) -> bool:
    """Prints what changed, and unless only checking, writes it."""
    now = printed(block)
    lines = difflib.unified_diff(block.body.splitlines(), now.splitlines(), block.name, "now", lineterm="", n=0)
    print("\n".join(lines), end="\n" if now != block.body else "", flush=True)
    if not check and now != block.body:
        rewrite(block, now)
    return now != block.body


if __name__ == "__main__":
    main()
