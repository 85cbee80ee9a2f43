"""What an ELF image holds: segments, symbols, bytes of flash and RAM, the source line behind an instruction."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from lbnn.base.errors import LbnnError

_WRITE, _ALLOC = 1, 2


def open_elf(stream: BinaryIO) -> Any:
    """pyelftools' view of an ELF file."""
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError:
        raise LbnnError("reading images needs pyelftools: pip install 'lbnn[mcu]'") from None
    return ELFFile(stream)


@dataclass(frozen=True)
class Segment:
    """Bytes of an image at the address where the program expects them; `size` may be larger than the data."""

    address: int
    size: int
    writable: bool
    executable: bool
    data: bytes


def read_segments(elf: Path) -> list[Segment]:
    """The segments that a loader puts into memory."""
    with elf.open("rb") as stream:
        return [
            Segment(s["p_vaddr"], s["p_memsz"], bool(s["p_flags"] & 2), bool(s["p_flags"] & 1), s.data())
            for s in open_elf(stream).iter_segments("PT_LOAD")
            if s["p_memsz"]
        ]


@dataclass(frozen=True)
class Symbols:
    """Names of an image: address by name, and functions in the order of their addresses."""

    addresses: Mapping[str, int]
    functions: tuple[tuple[int, int, str], ...]  # start, size, name

    def function_at(self, address: int) -> tuple[str, int]:
        """The function that holds `address` and the offset in it; assembly functions may not say how long they are."""
        index = bisect.bisect_right(self.functions, address, key=lambda function: function[0]) - 1
        start, size, name = self.functions[index] if index >= 0 else (address, 1, "no function")
        return (name, address - start) if not size or address < start + size else ("no function", 0)

    def range_of(self, function: str) -> tuple[int, int]:
        """Begin and end of a function's code."""
        return next((start, start + size) for start, size, name in self.functions if name == function)


def read_symbols(elf: Path) -> Symbols:
    """Symbols of an image; where several functions share an address the global name counts."""
    with elf.open("rb") as stream:
        defined = [s for s in _symbols(open_elf(stream)) if s.name and s["st_shndx"] != "SHN_UNDEF"]
    defined.sort(key=lambda symbol: symbol["st_info"]["bind"] == "STB_GLOBAL")
    # Bit 0 of the address of a Thumb function is a mark, not a place; RISC-V code is even anyway.
    functions = {
        s["st_value"] & ~1: (s["st_value"] & ~1, s["st_size"], s.name)
        for s in defined
        if s["st_info"]["type"] == "STT_FUNC"
    }
    return Symbols({s.name: s["st_value"] for s in defined}, tuple(sorted(functions.values())))


def _symbols(image: Any) -> Iterator[Any]:
    table = image.get_section_by_name(".symtab")
    yield from table.iter_symbols() if table else ()


@dataclass(frozen=True)
class Sizes:
    """Bytes of an image. Flash also holds the first values of `data`; the stack is not in RAM here."""

    code: int
    weights: int
    data: int
    bss: int

    @property
    def flash(self) -> int:
        """Everything that has to be stored."""
        return self.code + self.weights + self.data

    @property
    def ram(self) -> int:
        """Static variables."""
        return self.data + self.bss


def image_sizes(elf: Path, weights: str = "(?!)") -> Sizes:
    """Sizes of an ELF file; constants whose symbol matches the regular expression `weights` are weights."""
    with elf.open("rb") as stream:
        image = open_elf(stream)
        sections = [(s["sh_flags"], s["sh_type"], s["sh_size"]) for s in image.iter_sections()]
        weight_bytes = sum(_weight_symbols(image, re.compile(weights)).values())
    allocated = [(flags, kind, size) for flags, kind, size in sections if flags & _ALLOC]
    bss = sum(size for _, kind, size in allocated if kind == "SHT_NOBITS")
    data = sum(size for flags, kind, size in allocated if flags & _WRITE and kind != "SHT_NOBITS")
    constant = sum(size for flags, _, size in allocated if not flags & _WRITE)
    return Sizes(constant - weight_bytes, weight_bytes, data, bss)


def _weight_symbols(image: Any, pattern: re.Pattern[str]) -> dict[int, int]:
    """Address -> size of the constants whose name matches; by address, as several names may share one."""
    constant = {
        index
        for index, section in enumerate(image.iter_sections())
        if section["sh_flags"] & _ALLOC and not section["sh_flags"] & _WRITE
    }
    return {
        symbol["st_value"]: symbol["st_size"]
        for symbol in _symbols(image)
        if symbol["st_info"]["type"] == "STT_OBJECT" and symbol["st_shndx"] in constant and pattern.match(symbol.name)
    }


class SourceLines:
    """The line of one source file that is behind each instruction of a function, seen through inlined calls.

    Generated code has one line for each layer and kernels are inlined into it: an instruction of a kernel belongs to
    the line that called the kernel. Needs an image compiled with -g.
    """

    def __init__(self, elf: Path, source: str, function: str) -> None:
        self._source = source
        with elf.open("rb") as stream:
            dwarf = open_elf(stream).get_dwarf_info()
            unit, die = _find_function(dwarf, function)
            self._files = _file_names(dwarf, unit)
            self._table = _line_table(dwarf, unit)
            # Outer calls come before the calls inside them.
            self._calls = [
                (_ranges(dwarf, unit, call), self._files[_attribute(call, "call_file")], _attribute(call, "call_line"))
                for call in _inlined_calls(die)
            ]

    def line_at(self, address: int) -> int | None:
        """The innermost line of the source file that leads to the instruction at `address`."""
        row = bisect.bisect_right(self._table, address, key=lambda entry: entry[0]) - 1
        _, file, line = self._table[row]
        calls = [(name, at) for ranges, name, at in self._calls if any(a <= address < b for a, b in ranges)]
        frames = [(self._files.get(file, ""), line), *reversed(calls)]
        return next((at for name, at in frames if name == self._source and at), None)


def _attribute(die: Any, name: str, default: Any = None) -> Any:
    attribute = die.attributes.get(f"DW_AT_{name}")
    return default if attribute is None else attribute.value


def _find_function(dwarf: Any, function: str) -> tuple[Any, Any]:
    for unit in dwarf.iter_CUs():
        for die in unit.get_top_DIE().iter_children():
            named = _attribute(die, "name") == function.encode()
            if die.tag == "DW_TAG_subprogram" and named and "DW_AT_low_pc" in die.attributes:
                return unit, die
    raise LbnnError(f"{function} has no debug information; compile it with -g")


def _inlined_calls(die: Any) -> Iterator[Any]:
    for child in die.iter_children():
        if child.tag == "DW_TAG_inlined_subroutine" and "DW_AT_call_line" in child.attributes:
            yield child
        yield from _inlined_calls(child)


def _file_names(dwarf: Any, unit: Any) -> dict[int, str]:
    """File numbers start at 1 up to DWARF 4 and at 0 from DWARF 5."""
    header = dwarf.line_program_for_CU(unit).header
    first = 0 if header["version"] >= 5 else 1
    return {i: PurePosixPath(entry.name.decode()).name for i, entry in enumerate(header["file_entry"], first)}


def _line_table(dwarf: Any, unit: Any) -> list[tuple[int, int, int]]:
    states = (entry.state for entry in dwarf.line_program_for_CU(unit).get_entries())
    rows = [(s.address, s.file, s.line) for s in states if s is not None and not s.end_sequence]
    return sorted(rows, key=lambda row: row[0])  # of rows at one address the last one holds


def _ranges(dwarf: Any, unit: Any, die: Any) -> list[tuple[int, int]]:
    low = _attribute(die, "low_pc")
    if low is not None:
        high = die.attributes["DW_AT_high_pc"]
        return [(low, high.value if high.form == "DW_FORM_addr" else low + high.value)]
    offset = _attribute(die, "ranges")
    if offset is None:
        return []
    base = _attribute(unit.get_top_DIE(), "low_pc", 0)
    lists = dwarf.range_lists()
    found: list[tuple[int, int]] = []
    for entry in lists.get_range_list_at_offset(offset, unit):
        if hasattr(entry, "base_address"):
            base = entry.base_address
        else:
            shift = 0 if entry.is_absolute else base
            found.append((entry.begin_offset + shift, entry.end_offset + shift))
    return found
