"""The runtime and generated code link without a C library: what they leave undefined is the compiler's own."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from places import ROOT, need

# What compilers want of every environment (docs/c.md), and their own arithmetic, which comes with them: that of ARM's
# ABI, of libgcc by its modes (si, sf, ...), and of AVR, which also has functions' beginnings, ends and tables there.
MODE = "(?:[qhsd]i|[hsd]f)"
ARITHMETIC = (
    r"__aeabi_[a-z0-9]+|__gnu_(?:f2h_ieee|h2f_ieee)|__gnu_thumb1_case_[us](?:qi|hi|si)",
    rf"__(?:add|sub|mul|div|mod|udiv|umod|neg|ashl|ashr|lshr|clz|ctz|eq|ne|lt|le|gt|ge|unord|cmp|ucmp){MODE}[23]?",
    rf"__(?:float|floatun|fix|fixuns|extend|trunc){MODE}{MODE}2?",
    rf"__(?:u?div|u?mul)mod{MODE}4|__u?mul{MODE}{MODE}3",
    r"__(?:prologue_saves|epilogue_restores|do_copy_data|do_clear_bss|tablejump2|tablejump|load_[234]|xload_[1234])(?:__)?",
)
ALLOWED = re.compile("|".join(("memcpy|memset|memcmp|memmove|_GLOBAL_OFFSET_TABLE_", *ARITHMETIC)))

ZIG = f"{shlex.quote(sys.executable)} -m ziglang cc -fno-sanitize=undefined --target=riscv32-freestanding-none"
CROSS = {
    "cortex-m0": "arm-none-eabi-gcc -mthumb -mcpu=cortex-m0",
    "cortex-m3": "arm-none-eabi-gcc -mthumb -mcpu=cortex-m3",
    "cortex-m4f": "arm-none-eabi-gcc -mthumb -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16",
    "cortex-m55": "arm-none-eabi-gcc -mthumb -mcpu=cortex-m55 -mfloat-abi=hard",
    "riscv": f"{ZIG} -mcpu=generic_rv32+m+a+c",
    "riscv-fpu": f"{ZIG} -mcpu=generic_rv32+m+a+f+c",
    "avr": "avr-gcc -mmcu=atmega2560",
    "x86-64": "gcc -fno-stack-protector",
}
RUNTIME = ROOT / "c_runtime"
CNN = ROOT / "tests/golden/c/cnn"
# Without optimisation a compiler calls whatever it can; all kernels take long to compile in any other way than small.
SOURCES = [(ROOT / "tests/c/all_kernels.c", "-Os"), (CNN / "cnn.c", "-O0"), (CNN / "cnn_selftest.c", "-O0")]


def taken_from_outside(compiled: Path) -> set[str]:
    with compiled.open("rb") as stream:
        symbols = ELFFile(stream).get_section_by_name(".symtab").iter_symbols()
        return {symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name}


def foreign(compiled: Path) -> set[str]:
    return {name for name in taken_from_outside(compiled) if not ALLOWED.fullmatch(name)}


@pytest.mark.parametrize("name", ["__errno", "__assert_func", "__stack_chk_fail", "__ieee754_sqrtf", "sqrtf", "printf"])
def test_a_function_of_a_library_is_noticed(name: str, tmp_path: Path) -> None:
    source, out = tmp_path / "use.c", tmp_path / "use.o"
    source.write_text(f"extern int {name}(int); int use(int x) {{ return {name}(x); }}")
    subprocess.run([need("gcc"), "-std=c99", "-ffreestanding", "-fno-pic", "-c", source, "-o", out], check=True)
    assert foreign(out) == {name}


@pytest.mark.parametrize("core", CROSS)
def test_nothing_is_taken_from_a_library(core: str, tmp_path: Path) -> None:
    compiler, *flags = shlex.split(CROSS[core])
    need(compiler)
    fixed = ["-std=c99", "-ffreestanding", "-nostdlib", "-DLBNN_KERNEL=", f"-I{RUNTIME}"]
    for source, level in SOURCES:
        out = tmp_path / f"{source.stem}.o"
        subprocess.run([compiler, *flags, *fixed, level, "-c", str(source), "-o", str(out)], check=True)
        assert foreign(out) <= {"cnn_predict"}, (source.name, level, foreign(out))


def test_the_root_by_digits_is_that_of_the_library(tmp_path: Path) -> None:
    program = tmp_path / "roots"
    command = [need("gcc"), "-std=c99", "-O2", f"-I{RUNTIME}", str(ROOT / "tests/c/roots.c"), "-o", str(program), "-lm"]
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout
