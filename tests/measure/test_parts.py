"""Device fit: what a model takes, what is left on each part, and a refusal where something is lacking.

What it says of AVR boards is held to what avr-gcc builds of models that are committed, and to runs in simavr.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lbnn.device.avr import AVR_BOARDS, AvrImage
from lbnn.device.compilers import CompileError
from lbnn.exporters.c import COptions, Footprint, footprint, lower
from lbnn.exporters.c.avr_footprint import LEAST_OF_BOUND
from lbnn.exporters.c.folder import write_program
from lbnn.measure import parts
from lbnn.measure.parts import KIB, PARTS, place, verdict
from lbnn.model.file import read_model
from places import ROOT
from tiny_net import need_device

SMALL = Footprint(weight_bytes=2000, code_bytes=3000, work_bytes=400, stack_bytes=200, macs=250, avr_code_bytes=9000)
BY_NAME = {part.name: part for part in PARTS}


def test_the_table_names_the_usual_parts():
    names = " ".join(BY_NAME)
    arduino = ("Uno", "Nano", "Mega", "Uno R4")
    stm32 = (f"STM32{family}" for family in ("F0", "G0", "L4", "F4", "H7", "U5"))
    others = ("ESP32", "ESP32-S3", "ESP32-C3", "RP2040", "RP2350", "Teensy 4", "nRF52840", "nRF5340")
    assert [part for part in (*arduino, *stm32, *others) if part not in names] == []
    assert all(part.datasheet and part.flash and part.ram for part in PARTS) and len(BY_NAME) == len(PARTS)


EXTERNAL = {"RP2040", "RP2350", "ESP32", "ESP32-S3", "ESP32-C3", "Teensy 4.0"}


def test_flash_outside_of_the_chip_is_that_of_a_board_whose_document_is_named_too():
    """A chip's datasheet knows no size of it."""
    documents = {part.name: part.datasheet.split("; flash: ") for part in PARTS}
    assert {name for name, found in documents.items() if len(found) == 2 and found[0] != found[1]} == EXTERNAL
    assert "Teensy" in documents["Teensy 4.0"][1] and "WROOM" in documents["ESP32"][1]


def test_flash_is_weights_code_and_reserve_and_ram_is_work_stack_and_reserve():
    found = place(SMALL, BY_NAME["STM32F407VG"])
    assert found.flash == 2000 + 3000 + parts.RESERVE_FLASH and found.flash_left == 1024 * KIB - found.flash
    assert found.ram == 400 + 200 + parts.RESERVE_RAM and found.ram_left == 128 * KIB - found.ram
    assert found.fits


def test_a_core_without_a_float_unit_needs_the_routines_for_it():
    assert place(SMALL, BY_NAME["STM32F030R8"]).flash == 2000 + 3000 + parts.SOFT_FLOAT + parts.RESERVE_FLASH


def test_integers_need_no_routines_for_float():
    whole = replace(SMALL, floats=False)
    assert place(whole, BY_NAME["STM32F030R8"]).flash == 2000 + 3000 + parts.RESERVE_FLASH
    assert place(whole, BY_NAME["STM32F407VG"]) == place(SMALL, BY_NAME["STM32F407VG"])


def test_integers_do_not_fit_a_part_whose_int_has_16_bits():
    whole = replace(SMALL, wide_int=True)
    assert [part.name for part in PARTS if not place(whole, part).fits] == [
        "Arduino Uno",
        "Arduino Nano",
        "Arduino Mega",
    ]


def test_an_avr_keeps_the_weights_in_flash_alone():
    found = place(SMALL, BY_NAME["Arduino Uno"])
    assert found.ram == 400 + 200 + parts.RESERVE_RAM
    assert found.flash == 2000 + 9000 + parts.RESERVE_FLASH, "libgcc is in the bound"
    assert found.fits and not place(replace(SMALL, weight_bytes=20000), BY_NAME["Arduino Uno"]).fits


def test_an_avr_is_refused_where_the_least_of_the_code_is_too_much_and_perhaps_between():
    uno, least = BY_NAME["Arduino Uno"], round(LEAST_OF_BOUND * 9000)
    room = uno.flash - parts.RESERVE_FLASH
    told = {kept: verdict(place(replace(SMALL, weight_bytes=kept), uno)) for kept in (room - 9000, room - least)}
    assert told == {room - 9000: "ok", room - least: "perhaps"}
    for change in ({"weight_bytes": room - least + 1}, {"weight_bytes": room - least, "work_bytes": 2000}):
        assert verdict(place(replace(SMALL, **change), uno)) == "too small"
    assert not place(replace(SMALL, weight_bytes=2**20), BY_NAME["STM32F030R8"]).perhaps


SAID = {
    ("sensor_firmware/thermometer", "source", "Arduino Uno"): "ok",
    ("sensor_firmware/thermometer", "half", "Arduino Uno"): "perhaps",
    ("edge_onnx/gas_sensor", "source", "Arduino Uno"): "ok",
    ("edge_onnx/gas_sensor", "half", "Arduino Uno"): "perhaps",
    ("digits_cnn/digits", "source", "Arduino Uno"): "too small",
    ("digits_cnn/digits", "source", "Arduino Mega"): "ok",
    ("digits_cnn/digits", "half", "Arduino Mega"): "ok",
}


@pytest.mark.parametrize(("name", "weights", "part"), SAID)
def test_what_is_said_of_an_avr_is_what_avr_gcc_links(name: str, weights: str, part: str, tmp_path: Path) -> None:
    """ "ok" links and runs in the stack of its bound; what is refused does not link; no bound is passed."""
    chip, model = BY_NAME[part], read_model(ROOT / f"examples/{name}.pt")
    board = AVR_BOARDS[need_device(chip.device)]
    options = COptions(name="net", weights=weights)
    program = lower(model, options)
    need = footprint(program)
    said = verdict(place(need, chip))
    assert said == SAID[name, weights, part]
    image = AvrImage(board, write_program(program, model, options, tmp_path / "net"), ())
    samples = [np.zeros((1, program.input_len), np.float32)]
    if said == "too small":
        with pytest.raises(CompileError, match="overflowed"):
            image.link(samples, tmp_path)
        return
    result = image.run(samples, profile=False)
    assert result.sizes is not None and result.stack_bytes is not None
    code = result.sizes.flash - need.weight_bytes
    assert LEAST_OF_BOUND * need.avr_code_bytes < code <= need.avr_code_bytes
    assert result.stack_bytes <= need.stack_bytes


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_one_byte_decides(part):
    spare = place(SMALL, part).ram_left
    full = replace(SMALL, work_bytes=SMALL.work_bytes + spare)
    assert place(full, part).fits and place(full, part).ram_left == 0
    assert not place(replace(full, work_bytes=full.work_bytes + 1), part).fits
