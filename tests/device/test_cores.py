"""Every family has all that its cores and boards need, and every core is compiled for what it is."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lbnn.base.resources import targets_folder
from lbnn.device.boards import BOARDS
from lbnn.device.compilers import TOOLCHAINS
from lbnn.device.cores import CORES, FAMILIES, Core, Family
from lbnn.device.elf import read_symbols
from lbnn.device.firmware import firmware_files, link_for_core
from places import need
from tiny_net import OPTIONAL

# Files of c_runtime/targets that speak to the processor itself, each in its family's branch of an #if.
SPOKEN_TO = ("semihosting.c", "stack.h", "run_samples.c")


def empty_fields(value: Any, path: str) -> Iterator[str]:
    """Texts without a character, also inside; an empty tuple and None are answers."""
    for field in fields(value):
        inner, name = getattr(value, field.name), f"{path}.{field.name}"
        if inner == "":
            yield f"{name} is empty"
        elif is_dataclass(inner):
            yield from empty_fields(inner, name)


def missing_parts(family: Family) -> list[str]:
    """What a family lacks, by name."""
    targets = targets_folder()
    texts = {name: (targets / name).read_text() for name in SPOKEN_TO}
    silent = [f"{name} has no branch for {family.macro}" for name, text in texts.items() if family.macro not in text]
    startup = [] if (targets / family.startup).is_file() else [f"c_runtime/targets/{family.startup} does not exist"]
    unknown = [] if family.gcc in TOOLCHAINS else [f"no compiler is called {family.gcc}"]
    return [*empty_fields(family, family.name), *startup, *silent, *unknown]


def missing_tools(core: Core) -> list[str]:
    """Tools that know the core, but of whose family nothing is said."""
    said = {"zig_targets": core.family.zig_targets, "unicorn": core.family.unicorn}
    used = {"zig_targets": core.zig_cpu, "unicorn": core.unicorn}
    return [f"{core.name} needs {core.family.name}.{name}" for name in said if used[name] and said[name] is None]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_family_has_every_field_and_file(family: Family) -> None:
    assert missing_parts(family) == []


@pytest.mark.parametrize("core", CORES.values(), ids=CORES)
def test_a_core_is_of_a_listed_family_that_says_how_its_tools_are_used(core: Core) -> None:
    assert FAMILIES[core.family.name] is core.family
    assert missing_tools(core) == []


ARM = FAMILIES["arm"]


@pytest.mark.parametrize(
    ("family", "named"),
    [
        (replace(ARM, gcc_packages=""), "arm.gcc_packages is empty"),
        (replace(ARM, qemu=replace(ARM.qemu, program="")), "arm.qemu.program is empty"),
        (replace(ARM, startup="startup_avr.c"), "c_runtime/targets/startup_avr.c does not exist"),
        (replace(ARM, macro="__AVR__"), "semihosting.c has no branch for __AVR__"),
        (replace(ARM, gcc="avr-gcc"), "no compiler is called avr-gcc"),
    ],
)
def test_what_a_family_lacks_is_named(family: Family, named: str) -> None:
    assert named in missing_parts(family)


def test_a_field_that_is_left_out_is_named() -> None:
    row = {field.name: getattr(ARM, field.name) for field in fields(ARM) if field.name != "startup"}
    with pytest.raises(TypeError, match="'startup'"):
        Family(**row)


def test_a_tool_that_a_family_does_not_know_is_named() -> None:
    core = replace(CORES["cortex-m4"], family=replace(ARM, unicorn=None, zig_targets=None))
    assert missing_tools(core) == ["cortex-m4 needs arm.zig_targets", "cortex-m4 needs arm.unicorn"]


def test_a_row_is_all_that_a_new_family_adds_to_firmware() -> None:
    board = BOARDS["mps2-an386"]
    qemu = replace(ARM.qemu, program="qemu-system-new", flags=("-bios", "new"))
    family = replace(ARM, startup="host_io.c", qemu=qemu)
    files = firmware_files(replace(board, core=replace(board.core, family=family)), "net")
    assert "host_io.c" in files and "startup_cortex_m.c" not in files
    assert "qemu-system-new -M mps2-an386 -bios new " in files["Makefile"]


ARITHMETIC = """
#include <math.h>
float norm(const float *x, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum += x[i] * x[i] / 3.0f;
    return sqrtf(sum);
}
"""


def gcc_is_tested(core: Core) -> bool:
    """That of RISC-V takes a gigabyte: where it is not installed, it is not tested."""
    return core.family.name not in OPTIONAL or not TOOLCHAINS[core.family.gcc].missing()


COMPILED = [(core, "zig") for core in CORES.values()] + [
    (core, "gcc") for core in CORES.values() if gcc_is_tested(core)
]


@pytest.mark.parametrize(("core", "compiler"), COMPILED, ids=lambda value: getattr(value, "name", value))
def test_a_core_uses_a_floating_point_unit_exactly_where_it_has_one(core: Core, compiler: str, tmp_path: Path) -> None:
    if compiler == "gcc":
        need(core.family.gcc)
    source = tmp_path / "norm.c"
    source.write_text(ARITHMETIC)
    symbols = read_symbols(link_for_core(core, [source], tmp_path / "norm.elf", ["norm"], compiler=compiler))
    soft = {name for name in symbols.addresses if name in ("__aeabi_fmul", "__mulsf3", "sqrtf")}
    assert bool(soft) != core.hard_float
