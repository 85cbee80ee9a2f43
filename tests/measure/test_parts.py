"""Device fit: what a model takes, what is left on each part, and a refusal where something is lacking."""

from dataclasses import replace

import pytest

from lbnn.exporters.c import Footprint
from lbnn.measure import parts
from lbnn.measure.parts import KIB, PARTS, place

SMALL = Footprint(weight_bytes=2000, code_bytes=3000, work_bytes=400, stack_bytes=200, macs=250)
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
    assert found.fits and not place(replace(SMALL, weight_bytes=16000), BY_NAME["Arduino Uno"]).fits


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_one_byte_decides(part):
    spare = place(SMALL, part).ram_left
    full = replace(SMALL, work_bytes=SMALL.work_bytes + spare)
    assert place(full, part).fits and place(full, part).ram_left == 0
    assert not place(replace(full, work_bytes=full.work_bytes + 1), part).fits
