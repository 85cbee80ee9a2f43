"""What a user may choose of an export, declared once: the command line makes its flags of it, `lbnn.export` its checks.

This module is light, so that `lbnn export --help` is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any

from lbnn.base.errors import LbnnError
from lbnn.device.boards import BOARDS

DTYPES = ("float32", "int8", "int16")
"""The arithmetics of generated C: each is a module of lbnn/exporters/c/dtypes."""

PACKAGES = ("arduino", "platformio", "esp-idf", "zephyr", "npm")
WEIGHT_FORMS = ("source", "binary", "half", "half-binary")
"""How weights are written: floats or half floats, as C source or as a file."""

HOPS = range(1, 1_000_001)
OPSETS = range(13, 24)
"""ONNX operator sets that know every operator used here, with the same meaning."""


def option(default: Any, text: str, choices: Sequence[Any] | None = None) -> Any:
    """A field that the user may set: its default, its help, and what it may be besides a default of None."""
    return field(default=default, metadata={"help": text, "choices": choices})


def options_of(kind: type[Any]) -> dict[str, Field[Any]]:
    """The fields of a class of options that the user may set, by name."""
    return {each.name: each for each in fields(kind) if "help" in each.metadata}


def check_choices(chosen: Any) -> None:
    """Refuses a value that is none of an option's choices, and names them."""
    for name, each in options_of(type(chosen)).items():
        value, choices = getattr(chosen, name), each.metadata["choices"]
        if choices is not None and value not in choices and not (value is None and each.default is None):
            known = f"{choices[0]} to {choices[-1]}" if isinstance(choices, range) else ", ".join(map(str, choices))
            raise LbnnError(f"{name} {value!r} is not known; choose from {known}")


def make_options(kind: type[Any], target: str, given: dict[str, Any]) -> Any:
    """Options from keywords; one that the target does not take is refused."""
    known = options_of(kind)
    if unknown := sorted(set(given) - {*known, "command"}):
        raise LbnnError(f"--target {target} takes no {_flags(unknown)}; it takes {_flags(sorted(known))}")
    return kind(**given)


def _flags(names: Sequence[str]) -> str:
    """Options as they are typed."""
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


@dataclass(frozen=True)
class COptions:
    """How C is written. `name` is the model's own where it is None; `command` is for the banner."""

    name: str | None = None
    dtype: str = option("float32", "Arithmetic.", DTYPES)
    input_variance: bool = option(False, "The input has a variance of its own.")
    weights: str = option("source", "As C source or a .bin file; half: in half floats, 4 bytes a weight.", WEIGHT_FORMS)
    single_file: bool = option(False, "One .h and one .c.")
    package: str | None = option(None, "As a library for this platform.", PACKAGES)
    board: str | None = option(None, "Add start-up code and a Makefile for an emulated board.", tuple(BOARDS))
    optimize: str = option("speed", "What to favour.", ("speed", "size"))
    stream: bool = option(False, "Add NAME_push, which takes one sample of a signal at a time.")
    hop: int | None = option(None, "Samples between the results of a stream whose windows overlap.", HOPS)
    command: str = ""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.hop is not None and not self.stream:
            raise LbnnError("--hop says how often a stream gives a result; add --stream")
        if self.half and self.dtype != "float32":
            raise LbnnError(f"half floats are weights of float32; with --dtype {self.dtype} leave out --weights half")
        if self.dtype != "float32" and self.stream:
            raise LbnnError(f"streams are computed in float32; with --dtype {self.dtype} leave out --stream")
        if self.package == "npm" and self.stream:
            raise LbnnError("--package npm takes whole inputs; leave out --stream")
        if self.binary and (self.single_file or self.package):
            raise LbnnError("binary weights are a file of their own; leave out --single-file and --package")
        if self.board and (other := self._other_form()):
            raise LbnnError(f"firmware for a board is built from the plain folder; with --board leave out {other}")

    def _other_form(self) -> str:
        """The option that asks for something else than a plain folder."""
        forms = {
            "--single-file": self.single_file,
            f"--package {self.package}": self.package,
            f"--weights {self.weights}": self.binary,
        }
        return next((option for option, asked in forms.items() if asked), "")

    @property
    def half(self) -> bool:
        """Whether weights are half floats."""
        return self.weights.startswith("half")

    @property
    def binary(self) -> bool:
        """Whether weights are a file of their own."""
        return self.weights.endswith("binary")


@dataclass(frozen=True)
class OnnxOptions:
    """How ONNX is written."""

    dtype: str = option("float32", "Arithmetic.", ("float32",))
    input_variance: bool = option(False, "The input has a variance of its own.")
    opset: int = option(17, "Operator set version.", OPSETS)
    command: str = ""

    def __post_init__(self) -> None:
        if self.dtype in DTYPES[1:]:
            raise LbnnError(
                f"--dtype {self.dtype} is for --target c; export ONNX in float32 and keep it so: generic int8 tools "
                "destroy the variances (docs/onnx.md)"
            )
        check_choices(self)
