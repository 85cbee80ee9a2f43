"""`lbnn export`: a model becomes C or ONNX. Its flags are the options that the targets declare."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import Field
from pathlib import Path
from typing import Any

import click

from lbnn.cli.command import MODEL, command
from lbnn.exporters import TARGETS, export
from lbnn.exporters.options import options_of


def _flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """A flag for each option of any target."""
    for flag in reversed(list(_declared())):
        function = flag(function)
    return function


def _declared() -> Iterator[Callable[..., Any]]:
    by_target = {target: options_of(row.options) for target, row in TARGETS.items()}
    for name in dict.fromkeys(name for options in by_target.values() for name in options):
        takers = {target: options[name] for target, options in by_target.items() if name in options}
        first = next(iter(takers.values()))
        only = "" if len(takers) == len(TARGETS) else f"{', '.join(takers)}: "
        default = f" Default {first.default}." if first.default not in (None, False) else ""
        text = f"{only}{first.metadata['help']}{default}"
        yield click.option(f"--{name.replace('_', '-')}", help=text, **_kind(list(takers.values())))


def _kind(takers: list[Field[Any]]) -> dict[str, Any]:
    """A switch, a number, or one of the choices of any target."""
    default, choices = takers[0].default, takers[0].metadata["choices"]
    if default is False:
        return {"is_flag": True}
    if isinstance(choices, range):
        return {"type": int}
    return {"type": click.Choice(list(dict.fromkeys(word for each in takers for word in each.metadata["choices"])))}


@command("lbnn export gas_sensor.pt --target c -o firmware/gas_sensor")
@MODEL
@click.option("--target", type=click.Choice(list(TARGETS)), required=True, help="What to write.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder (c) or file (onnx); default from the name.")
@click.option("--name", help="Name of the model in the output; default from the model file.")
@_flags
@click.option("--force", is_flag=True, help="Replace existing output.")
def export_command(model: Path, target: str, out: Path | None, name: str | None, force: bool, **options: Any) -> None:
    """Write MODEL as dependency-free C99 or as an ONNX file."""
    given = {key: value for key, value in options.items() if value not in (None, False)}
    print(export(model, target, out, name=name, force=force, command=command_line(), **given))
    if target == "c" and given.get("dtype", "float32") != "float32":
        if given.get("package") == "arduino":
            print("warning: integers need an int of 32 bits, which AVR boards have not: Uno, Mega", file=sys.stderr)
        _warn_of_loss(model, given["dtype"])


def _warn_of_loss(model: Path, dtype: str) -> None:
    """On stderr, where integers lose more of a model than they should."""
    from lbnn.measure.integer_verify import ordinary_loss, too_coarse
    from lbnn.model.file import read_model

    if lost := too_coarse(ordinary_loss(read_model(model), dtype)):
        instead = "--dtype int16" if dtype == "int8" else "--dtype float32"
        print(f"warning: {dtype} loses {lost}; {instead} keeps more", file=sys.stderr)


def command_line() -> str:
    """The command as typed, for banners: file names without their folders, so that output does not depend on them."""
    import shlex

    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    return shlex.join(["lbnn", *words])
