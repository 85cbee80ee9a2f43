"""Every block of code in the pages: fenced, or indented by four spaces. Measured blocks have commands of their own."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from pages import BLOCK as MEASURED
from places import ROOT

FOLDERS = ("*.md", "docs/*.md", "examples/**/*.md", "c_runtime/**/*.md")
PAGES = sorted(page for folder in FOLDERS for page in ROOT.glob(folder))
FENCED = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:(?<=\n\n)|\A)((?: {4}[^\n]*\n|\n(?= {4}))+)")
INDENT = ""
"""The language of an indented block, which names none."""


@dataclass(frozen=True)
class PageBlock:
    """A block, its page below the top folder, and the language that a fence names."""

    page: str
    language: str
    text: str

    @property
    def name(self) -> str:
        """Page and beginning, for people and for tables."""
        return f"{self.page}: {' '.join(self.text.split())[:48].strip()}"


def blocks_of(page: Path) -> list[PageBlock]:
    """The blocks of a page, fenced ones first."""
    text, name = MEASURED.sub("\n", page.read_text()), str(page.relative_to(ROOT))
    fenced = [PageBlock(name, kind, textwrap.dedent(body)) for _, kind, body in FENCED.findall(text)]
    bodies = map(textwrap.dedent, INDENTED.findall(FENCED.sub("\n", text)))
    return fenced + [PageBlock(name, INDENT, body.strip("\n") + "\n") for body in bodies if body.strip()]


def only(page: str, language: str) -> str:
    """The text of the one block of a language that a page has."""
    (block,) = (block for block in blocks_of(ROOT / page) if block.language == language)
    return block.text
