"""Images are measured right, and an address leads to its function."""

from pathlib import Path

import pytest

from lbnn.base.errors import LbnnError
from lbnn.device.cores import CORES
from lbnn.device.elf import SourceLines, Symbols, image_sizes, read_segments
from lbnn.device.firmware import link_for_core
from places import need


def test_sizes_split_flash_into_code_and_weights_and_ram_into_data_and_bss(tmp_path: Path) -> None:
    need("arm-none-eabi-gcc")
    source = tmp_path / "net.c"
    source.write_text(
        """
        static const float net_weights[100] = {1.0f, 2.0f};
        static const float lbnn_table[10] = {3.0f, 4.0f};
        static float scale[4] = {5.0f};
        static float memory[25];
        float look(int i) { memory[i] += scale[i & 3] *= net_weights[i] + lbnn_table[i % 10]; return memory[i / 2]; }
        """
    )
    elf = link_for_core(CORES["cortex-m4"], [source], tmp_path / "net.elf", ["look"], compiler="gcc")
    sizes = image_sizes(elf, "net_")
    assert (sizes.weights, sizes.data, sizes.bss) == (400, 16, 104)  # sections are filled up to 8 bytes
    assert 40 < sizes.code < 200
    assert sizes.flash == sizes.code + 400 + 16 and sizes.ram == 120


SYMBOLS = Symbols({"first": 0x101, "second": 0x120}, ((0x100, 0x10, "first"), (0x120, 0, "second")))


@pytest.mark.parametrize(
    ("address", "found"),
    [
        (0x100, ("first", 0)),
        (0x10E, ("first", 0xE)),
        (0x110, ("no function", 0)),  # behind the end of the first
        (0x0FE, ("no function", 0)),  # before all
        (0x200, ("second", 0xE0)),  # assembly does not say how long it is
    ],
)
def test_an_address_belongs_to_the_function_that_holds_it(address: int, found: tuple[str, int]) -> None:
    assert SYMBOLS.function_at(address) == found


def test_segments_are_code_that_cannot_be_written_and_data_that_cannot_be_run(tmp_path: Path) -> None:
    source = tmp_path / "counter.c"
    source.write_text("static int count = 5;\nint *next(void) { ++count; return &count; }\n")
    segments = read_segments(link_for_core(CORES["cortex-m3"], [source], tmp_path / "counter.elf", ["next"]))
    assert {(s.address >> 24, s.writable, s.executable) for s in segments if s.executable} == {(0x08, False, True)}
    assert [s.data[:4] for s in segments if s.writable and s.data] == [b"\x05\0\0\0"]


def test_a_function_without_debug_information_says_how_to_get_it(tmp_path: Path) -> None:
    source = tmp_path / "f.c"
    source.write_text("int f(void) { return 1; }\n")
    elf = link_for_core(CORES["cortex-m3"], [source], tmp_path / "f.elf", ["f"])
    assert SourceLines(elf, "f.c", "f").line_at(0x08000000) == 1
    with pytest.raises(LbnnError, match="g has no debug information; compile it with -g"):
        SourceLines(elf, "f.c", "g")
