"""What a user may choose about generated C."""

from __future__ import annotations

from dataclasses import dataclass

from lbnn.base.errors import LbnnError
from lbnn.device.boards import BOARDS

PACKAGES = ("arduino", "platformio", "esp-idf", "zephyr")
CHOICES: dict[str, tuple[str | None, ...]] = {
    "weights": ("source", "binary"),
    "optimize": ("speed", "size"),
    "package": (None, *PACKAGES),
    "board": (None, *BOARDS),
}


@dataclass(frozen=True)
class COptions:
    """How the C is written. `name` is the model's own where it is None; `command` is for the banner.

    `board` adds what makes firmware of the folder that runs the self-test in an emulator.
    """

    name: str | None = None
    input_variance: bool = False
    weights: str = "source"
    single_file: bool = False
    package: str | None = None
    optimize: str = "speed"
    board: str | None = None
    command: str = ""

    def __post_init__(self) -> None:
        for key, choices in CHOICES.items():
            if getattr(self, key) not in choices:
                names = ", ".join(str(choice) for choice in choices if choice)
                raise LbnnError(f"{key} {getattr(self, key)!r} is not known; choose from {names}")
        if self.weights == "binary" and (self.single_file or self.package):
            raise LbnnError("binary weights are a file of their own; leave out --single-file and --package")
        if self.board and (self.single_file or self.package or self.weights == "binary"):
            raise LbnnError("firmware for a board is built from the plain folder; choose --board alone")
