"""Fills the templates with frozen data; everything is text or an integer before it gets here."""

from __future__ import annotations

from functools import cache

import jinja2

from lbnn.base import resources


def render(template: str, model: object) -> str:
    """The text of a template of codegen_templates/c; an unknown field is an error."""
    return _environment().get_template(template).render(model=model)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.folder("codegen_templates") / "c"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # C, not HTML: names.py makes names safe
    )
