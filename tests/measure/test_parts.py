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
    for part in ("RP2040", "STM32F030", "STM32F407", "STM32L476", "STM32H743", "nRF52840", "ESP32-C3", "ATmega2560"):
        assert part in names
    assert {part.core for part in PARTS if part.fpu} == {"Cortex-M4F", "Cortex-M7"}


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
    assert [part.name for part in PARTS if not place(whole, part).fits] == ["ATmega2560"]


def test_an_avr_keeps_the_weights_in_ram_too():
    found = place(SMALL, BY_NAME["ATmega2560"])
    assert found.ram == 400 + 200 + 2000 + parts.RESERVE_RAM
    assert found.fits and not place(replace(SMALL, weight_bytes=7000), BY_NAME["ATmega2560"]).fits


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_one_byte_decides(part):
    spare = place(SMALL, part).ram_left
    full = replace(SMALL, work_bytes=SMALL.work_bytes + spare)
    assert place(full, part).fits and place(full, part).ram_left == 0
    assert not place(replace(full, work_bytes=full.work_bytes + 1), part).fits
