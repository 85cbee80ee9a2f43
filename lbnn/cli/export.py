"""`lbnn export`: a model becomes C or ONNX."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from lbnn.cli.command import MODEL, command


@command("lbnn export gas_sensor.pt --target c -o firmware/gas_sensor")
@MODEL
@click.option("--target", type=click.Choice(["c", "onnx"]), required=True, help="What to write.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder (c) or file (onnx); default from the name.")
@click.option("--name", help="Name of the model in the output; default from the model file.")
@click.option("--dtype", type=click.Choice(["float32"]), help="Arithmetic; float32 is the only one so far.")
@click.option("--input-variance", is_flag=True, help="The input has a variance of its own.")
@click.option("--weights", type=click.Choice(["source", "binary"]), help="c: as C source (default) or a .bin file.")
@click.option("--single-file", is_flag=True, help="c: one .h and one .c.")
@click.option("--package", type=click.Choice(["arduino", "platformio", "esp-idf", "zephyr"]), help="c: as a library.")
@click.option("--board", help="c: add start-up code and a Makefile for an emulated board, e.g. mps2-an386.")
@click.option("--optimize", type=click.Choice(["speed", "size"]), help="c: what to favour (default speed).")
@click.option("--opset", type=int, help="onnx: operator set version (default 17).")
@click.option("--force", is_flag=True, help="Replace existing output.")
def export_command(model: Path, target: str, out: Path | None, name: str | None, force: bool, **options: Any) -> None:
    """Write MODEL as dependency-free C99 or as an ONNX file."""
    from lbnn.exporters import export

    given = {key: value for key, value in options.items() if key != "dtype" and value not in (None, False)}
    path = export(model, target, out, name=name, force=force, command=command_line(), **given)
    print(path)


def command_line() -> str:
    """The command as typed, for banners: file names without their folders, so that output does not depend on them."""
    import shlex

    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    return shlex.join(["lbnn", *words])
