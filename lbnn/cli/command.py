"""What the commands share: how one is declared, the model it takes, and `--json`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from lbnn.exporters.options import DTYPES

MODEL = click.argument("model", type=click.Path(path_type=Path))
FORCE = click.option("--force", is_flag=True, help="Replace existing output.")
DECIMAL = click.option(
    "--decimal", type=click.Choice(["point", "comma"]), default="point", show_default=True, help="Sign in a CSV."
)
ENCODING = click.option("--encoding", default="utf-8-sig", show_default=True, help="Of a CSV, such as latin-1.")
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
DTYPE = click.option(
    "--dtype", type=click.Choice(DTYPES), default="float32", show_default=True, help="Arithmetic of the C."
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")


def command(*examples: str) -> Callable[[Callable[..., Any]], click.Command]:
    """A command whose help ends with an example or more: `lbnn NAME ...`, which names it too."""
    name = examples[0].split()[1]
    return click.command(name, epilog=_as_it_is(examples), context_settings={"max_content_width": 100})


def _as_it_is(examples: Sequence[str]) -> str:
    """A block that click does not wrap."""
    return "\n  ".join(["\b\nExample:", *examples])


def split_names(text: str | None) -> list[str] | None:
    """The names in a comma-separated option, or None where it was not given."""
    return text.split(",") if text else None


def quiet_if(as_json: bool) -> Callable[[str], None]:
    """What a command says on the way: nothing where stdout is for one JSON object."""
    return (lambda text: None) if as_json else print


def print_json(data: Any) -> None:
    """One JSON object on stdout."""
    import json

    print(json.dumps(data, indent=2))
