"""Prints what models of the examples take of an AVR's flash in each form, as avr-gcc builds them (docs/forms.md)."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lbnn.base.terminal import thousands
from lbnn.device.avr import AVR_BOARDS, AvrImage
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.folder import write_program
from lbnn.model.file import Model, read_model

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODELS = ("sensor_firmware/thermometer", "edge_onnx/gas_sensor", "stream_monitor/monitor", "digits_cnn/digits")
FORMS = {
    "float32": COptions(name="net"),
    "`--weights half`": COptions(name="net", weights="half"),
    "`--optimize size`": COptions(name="net", optimize="size"),
    "both": COptions(name="net", weights="half", optimize="size"),
}


def flash(model: Model, options: COptions) -> int:
    """Bytes of weights and code, libgcc's routines for float included; -O2."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = write_program(lower(model, options), model, options, folder / "net")
        return AvrImage(AVR_BOARDS["uno"], written, ()).sizes(folder).flash


def main() -> None:
    """The table."""
    print(f"| | {' | '.join(FORMS)} |\n|---|{'---:|' * len(FORMS)}")
    for name in MODELS:
        model = read_model(EXAMPLES / f"{name}.pt")
        print(f"| {Path(name).name} | {' | '.join(thousands(flash(model, form)) for form in FORMS.values())} |")


if __name__ == "__main__":
    main()
