"""Templates are filled strictly, and escaped where the text is a web page."""

import re

import jinja2
import jinja2.meta
import pytest

from lbnn.base import resources, templates
from lbnn.base.templates import render

NAMES = sorted(
    str(path.relative_to(resources.folder("codegen_templates")))
    for path in resources.folder("codegen_templates").rglob("*.j2")
)
MEMORY = {"rom_base": "0x0", "rom_size": "1K", "ram_base": "0x10", "ram_size": "2K", "constants_size": ""}


@pytest.mark.parametrize("name", NAMES)
def test_every_template_and_what_it_includes_is_there(name: str) -> None:
    environment = templates._environment()
    text = environment.loader.get_source(environment, name)[0]
    found = jinja2.meta.find_referenced_templates(environment.parse(text))
    assert [other for other in found if other not in NAMES] == []


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("report/")])
def test_templates_of_code_hold_layout_only(name: str) -> None:
    text = (resources.folder("codegen_templates") / name).read_text()
    expressions, tags = re.findall(r"\{\{(.*?)\}\}", text), re.findall(r"\{%(.*?)%\}", text)
    assert all(re.fullmatch(r" [a-z0-9_.]+ ", expression) for expression in expressions)
    allowed = r" (if [a-z_.]+|else|endif|endfor|for \w+ in [a-z_.]+|include \"c/[a-z_.0-9]+\") "
    assert all(re.fullmatch(allowed, tag) for tag in tags)


def test_values_are_filled_in_and_the_last_newline_stays() -> None:
    script = render("device/image.ld.j2", name="<board>", entry="reset", **MEMORY)
    assert script.startswith("/* Memory of <board>: ") and "ENTRY(reset)\n" in script
    assert "RAM (rwx) : ORIGIN = 0x10, LENGTH = 2K\n" in script and script.endswith("}\n")


def test_a_value_that_is_left_out_is_named() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'entry' is undefined"):
        render("device/image.ld.j2", name="board", **MEMORY)


@pytest.mark.parametrize(("name", "escaped"), [("report/page.html.j2", True), ("c/model.c.j2", False)])
def test_web_pages_are_escaped_and_nothing_else(name: str, escaped: bool) -> None:
    assert templates._environment().autoescape(name) == escaped
