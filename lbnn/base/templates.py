"""Fills the templates of codegen_templates: the one place where text is made from them."""

from __future__ import annotations

from functools import cache

import jinja2

from lbnn.base import resources


def render(template: str, **values: object) -> str:
    """The text of a template, named by its path in codegen_templates; an unknown name in it is an error."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.folder("codegen_templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Web pages are escaped; in C and build files exporters/c/names.py makes names safe.
        autoescape=jinja2.select_autoescape(("html.j2",), default=False, default_for_string=False),
    )
