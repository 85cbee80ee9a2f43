"""The command line. Heavy imports wait until a command needs them, so that `lbnn --help` is quick."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from lbnn.base.errors import LbnnError, one_line
from lbnn.base.version import __version__

MODEL = click.argument("model", type=click.Path(path_type=Path))
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")


def main(arguments: list[str] | None = None) -> None:
    """Runs a command; whatever the user can mend is one line on stderr and exit status 2."""
    _accept_any_text()
    try:
        status = cli.main(arguments, prog_name="lbnn", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        _leave("interrupted", 130)
    except click.ClickException as error:
        _leave(error.format_message(), 2)
    except LbnnError as error:
        _leave(str(error), 2)
    except KeyboardInterrupt:
        _leave("interrupted", 130)
    except BrokenPipeError:
        _drop_output()
        sys.exit(0)
    except OSError as error:  # such as a full disk behind stdout or temporary files
        _drop_output()
        _leave(str(error), 2)
    except MemoryError:
        _leave("not enough memory", 2)
    sys.exit(status if isinstance(status, int) else 0)


def _leave(message: str, status: int) -> None:
    print("lbnn:", one_line(message), file=sys.stderr)
    sys.exit(status)


def _accept_any_text() -> None:
    """What stdout and stderr can't encode, such as a file name that is no UTF-8, is spelled out."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Nothing more goes to stdout, so that Python does not fail again when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _example(text: str) -> str:
    """A block that click prints as it is."""
    return f"\b\nExample:\n  {text}"


def command(example: str) -> Callable[[Callable[..., Any]], click.Command]:
    """A command whose help ends with an example."""
    return cli.command(epilog=_example(example), context_settings={"max_content_width": 100})


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lbnn")
def cli() -> None:
    """Bayesian neural networks in one pass, from PyTorch to a microcontroller."""


@command("lbnn demo --out demo")
@click.option("--out", type=click.Path(path_type=Path), default=Path("demo"), show_default=True, help="Where to write.")
@click.option("--quick", is_flag=True, help="Less training and fewer backends: about 20 seconds.")
def demo(out: Path, quick: bool) -> None:
    """The whole story on the paper's problem: train, picture, export, compile, verify."""
    from lbnn.cli.demo import run_demo

    run_demo(out, quick)


@command("lbnn train weather.csv --target temperature -o weather.pt")
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--target", help="The column to predict; an .npz has its targets in y.")
@click.option("--hidden", default="16,16", show_default=True, help="Sizes of the hidden layers.")
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("model.pt"), show_default=True)
@click.option("--epochs", type=click.IntRange(1, 1_000_000), default=400, show_default=True, help="At most so many.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Of split and training.")
@click.option("--force", is_flag=True, help="Replace existing output.")
@AS_JSON
def train(
    data: Path, target: str | None, hidden: str, out: Path, epochs: int, seed: int, force: bool, as_json: bool
) -> None:
    """Train a small network on DATA: a CSV with a header, or an .npz with arrays x and y."""
    from lbnn.train import regression

    sizes = regression.parse_hidden(hidden)
    found = regression.train_file(
        data, target, sizes, out, epochs, seed, force, say=(lambda text: None) if as_json else print
    )
    if as_json:
        print(json.dumps(found, indent=2))


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
def export(model: Path, target: str, out: Path | None, name: str | None, force: bool, **options: Any) -> None:
    """Write MODEL as dependency-free C99 or as an ONNX file."""
    from lbnn.exporters import export as write

    given = {key: value for key, value in options.items() if key != "dtype" and value not in (None, False)}
    path = write(model, target, out, name=name, force=force, command=command_line(), **given)
    print(path)


def command_line() -> str:
    """The command as typed, for banners: file names without their folders, so that output does not depend on them."""
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    return shlex.join(["lbnn", *words])


@command("lbnn verify gas_sensor.pt --backends torch,onnx,c,cortex-m4")
@MODEL
@click.option("--backends", help="Comma-separated; default is every one whose tools are here.")
@click.option("--samples", type=click.IntRange(1, 1_000_000), default=64, show_default=True, help="Inputs to compare.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the inputs.")
@click.option("--tolerance", type=float, help="Largest error that passes; default 1e-5.")
@click.option("--input-variance", is_flag=True, help="Verify the variant whose input has a variance.")
@AS_JSON
def verify(
    model: Path,
    backends: str | None,
    samples: int,
    seed: int,
    tolerance: float | None,
    input_variance: bool,
    as_json: bool,
) -> int:
    """Prove that every backend computes what MODEL computes; exit status 1 if one does not."""
    from lbnn.measure import parity, verify
    from lbnn.model.file import read_model

    names, lacking = parity.choose(backends.split(",") if backends else None)
    read = read_model(model)
    drawn = parity.draw_samples(read, samples, seed, input_variance)
    rows = verify.run(read, drawn, names, tolerance or parity.FLOAT32_TOLERANCE, None if backends else lacking)
    if as_json:
        print(json.dumps({"model": str(model), "sha256": read.sha256, **verify.as_plain(rows, lacking)}, indent=2))
    else:
        verify.show(rows, lacking, f"{model}: {len(drawn)} samples against float64")
    return 0 if all(row.passed for row in rows) else 1


@command("lbnn bench gas_sensor.pt --backends onnx,c,cortex-m4-gcc --layers")
@MODEL
@click.option("--backends", help="Comma-separated; default is a choice of those whose tools are here.")
@click.option("--layers", is_flag=True, help="Instructions of each layer on a Cortex-M4F, and the fewest possible.")
@AS_JSON
def bench(model: Path, backends: str | None, layers: bool, as_json: bool) -> None:
    """What a prediction of MODEL costs: instructions, flash, RAM, and time relative to onnxruntime."""
    from lbnn.measure import bench

    names, lacking = bench.choose(backends.split(",") if backends else None)
    found = bench.run(model, names, asked=backends is not None)
    if as_json:
        print(json.dumps({"model": str(model), **bench.as_plain(found, lacking)}, indent=2))
        return
    bench.show(found, lacking, f"{model}: one prediction")
    if layers:
        bench.show_layers(found)


@command("lbnn inspect gas_sensor.pt --graph")
@MODEL
@click.option("--graph", "show_graph", is_flag=True, help="Print the graph as it is exported.")
@click.option("--plan", "show_plan", is_flag=True, help="Print the memory plan.")
@click.option("--input-variance", is_flag=True, help="For the variant whose input has a variance.")
@AS_JSON
def inspect(model: Path, show_graph: bool, show_plan: bool, input_variance: bool, as_json: bool) -> None:
    """Layers, parameters, multiplications, flash and RAM, before anything is compiled."""
    from lbnn.measure import inspection
    from lbnn.model.file import read_model

    report = inspection.inspect(read_model(model), input_variance)
    if as_json:
        print(json.dumps(inspection.as_plain(report), indent=2))
    elif show_graph or show_plan:
        print(
            "\n\n".join(str(part) for part, wanted in ((report.graph, show_graph), (report.plan, show_plan)) if wanted)
        )
    else:
        inspection.show(report)


@command("lbnn report weather.pt -o weather.html --data weather.csv --target temperature")
@MODEL
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("report.html"), show_default=True)
@click.option("--data", type=click.Path(path_type=Path), help="CSV or .npz to show predictions and calibration on.")
@click.option("--target", help="The column of --data that MODEL predicts; default from the model file.")
@click.option("--backends", help="Comma-separated, for the parity table; default is a choice of those here.")
@click.option(
    "--samples", type=click.IntRange(1, 1_000_000), default=32, show_default=True, help="For the parity table."
)
@click.option("--force", is_flag=True, help="Replace existing output.")
def report(model: Path, out: Path, backends: str | None, **options: Any) -> None:
    """Write one self-contained page about MODEL, to attach to a review."""
    from lbnn.measure.report import write_report

    print(write_report(model, out, backends=backends.split(",") if backends else None, **options))


@command("lbnn doctor")
@AS_JSON
def doctor(as_json: bool) -> None:
    """Which tools are here, what each missing one would add, and how to install it."""
    from lbnn.cli import doctor as examination

    found = examination.examine()
    if as_json:
        print(json.dumps([asdict(tool) for tool in found], indent=2))
    else:
        examination.show(found)


if __name__ == "__main__":
    main()
