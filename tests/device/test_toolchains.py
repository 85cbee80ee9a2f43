"""Compilers say clearly what is wrong, images are measured right, and every core is compiled for what it is."""

import re
from pathlib import Path

import pytest

from lbnn.base.errors import LbnnError
from lbnn.device.devices import link_for_core
from lbnn.device.elf import image_sizes, read_symbols, stack_bound
from lbnn.device.toolchains import (
    BOARDS,
    CORES,
    TOOLCHAINS,
    CompileError,
    _temporary_cache,
    cache_folder,
    compile_gcc,
    firmware_files,
    linker_script,
    model_flags,
)
from places import need

ARITHMETIC = """
#include <math.h>
float norm(const float *x, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum += x[i] * x[i] / 3.0f;
    return sqrtf(sum);
}
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_host_compiler_is_the_one_in_cc_with_its_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc -m64")
    assert TOOLCHAINS["host"].command() == (need("gcc"), "-m64")


def test_a_cc_that_is_not_there_is_missing_and_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert not TOOLCHAINS["host"].available()
    with pytest.raises(LbnnError, match="compiler host is not here; set CC, or: apt install"):
        TOOLCHAINS["host"].command()


def test_without_any_system_compiler_the_host_falls_back_to_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert TOOLCHAINS["host"].command()[1:] == ("-m", "ziglang", "cc")


@pytest.mark.parametrize("name", ["gcc", "clang", "zig"])
def test_a_compile_error_is_one_line_and_keeps_the_whole_log(name: str, tmp_path: Path) -> None:
    if name != "zig":
        need(name)
    source = write(tmp_path, "broken.c", "int f(void) { return undeclared; }\nint g(void) { return also; }\n")
    with pytest.raises(CompileError) as caught:
        TOOLCHAINS[name].compile_shared([source], tmp_path / "broken.so")
    message = str(caught.value)
    assert message.startswith(f"{name} failed: ") and "undeclared" in message and "\n" not in message
    assert "also" in caught.value.log


@pytest.mark.parametrize("core", CORES.values(), ids=CORES)
def test_zig_uses_the_floating_point_unit_exactly_where_there_is_one(core, tmp_path: Path) -> None:
    source = write(tmp_path, "norm.c", ARITHMETIC)
    symbols = read_symbols(link_for_core(core, [source], tmp_path / "norm.elf", ["norm"]))
    soft = {name for name in symbols.addresses if name in ("__aeabi_fmul", "__mulsf3", "sqrtf")}
    assert bool(soft) != core.hard_float


def test_zig_moves_bits_between_float_and_integer_without_a_call(tmp_path: Path) -> None:
    text = "#include <string.h>\nint bits(float x) { int y; memcpy(&y, &x, sizeof y); return y; }\n"
    source = write(tmp_path, "bits.c", text)
    symbols = read_symbols(link_for_core(CORES["cortex-m4"], [source], tmp_path / "bits.elf", ["bits"]))
    assert [name for _, _, name in symbols.functions] == ["bits"]


def test_sizes_split_flash_into_code_and_weights_and_ram_into_data_and_bss(tmp_path: Path) -> None:
    need("arm-none-eabi-gcc")
    source = write(
        tmp_path,
        "net.c",
        """
        static const float net_weights[100] = {1.0f, 2.0f};
        static const float lbnn_table[10] = {3.0f, 4.0f};
        static float scale[4] = {5.0f};
        static float memory[25];
        float look(int i) { memory[i] += scale[i & 3] *= net_weights[i] + lbnn_table[i % 10]; return memory[i / 2]; }
        """,
    )
    elf = link_for_core(CORES["cortex-m4"], [source], tmp_path / "net.elf", ["look"], compiler="gcc")
    sizes = image_sizes(elf, "net_")
    assert (sizes.weights, sizes.data, sizes.bss) == (400, 16, 104)  # sections are filled up to 8 bytes
    assert 40 < sizes.code < 200
    assert sizes.flash == sizes.code + 400 + 16 and sizes.ram == 120


CALLGRAPH = """graph: { title: "net.c"
node: { title: "predict" label: "predict\\nnet.c:1:1\\n16 bytes (static)" }
node: { title: "net.c:kernel" label: "kernel\\nnet.c:2:1\\n40 bytes (static)" }
node: { title: "net.c:small" label: "small\\nnet.c:3:1\\n8 bytes (static)" }
node: { title: "sqrtf" label: "sqrtf\\n<built-in>" shape : ellipse }
edge: { sourcename: "predict" targetname: "net.c:kernel" label: "net.c:4:1" }
edge: { sourcename: "predict" targetname: "net.c:small" label: "net.c:5:1" }
edge: { sourcename: "net.c:small" targetname: "sqrtf" label: "net.c:6:1" }
}
"""


def test_the_stack_bound_follows_the_deepest_calls_and_names_what_it_cannot_know(tmp_path: Path) -> None:
    bound = stack_bound([write(tmp_path, "net.ci", CALLGRAPH)], "predict")
    assert (bound.bytes, bound.path, bound.unknown) == (56, ("predict", "net.c:kernel"), {"sqrtf"})


def test_recursion_has_no_stack_bound(tmp_path: Path) -> None:
    again = 'edge: { sourcename: "net.c:kernel" targetname: "predict" label: "" }\n'
    with pytest.raises(LbnnError, match="recursive"):
        stack_bound([write(tmp_path, "net.ci", CALLGRAPH + again)], "predict")


@pytest.mark.parametrize(
    ("size", "message"), [(17000, "RAM' overflowed by"), (16000, "RAM overflowed: less than 1 KB")]
)
def test_an_image_that_leaves_no_room_for_a_stack_is_refused(size: int, message: str, tmp_path: Path) -> None:
    need("arm-none-eabi-gcc")
    source = write(tmp_path, "big.c", f"static char big[{size}]; char *f(void) {{ return big; }}\n")
    script = write(tmp_path, "big.ld", linker_script("microbit", BOARDS["microbit"].memory, "f"))
    with pytest.raises(CompileError, match=message):
        compile_gcc(CORES["cortex-m0"], [source], tmp_path / "big.elf", script)


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_firmware_files_hold_no_unfilled_place(board) -> None:
    files = firmware_files(board, "net")
    assert {"Makefile", f"{board.name}.ld", "semihosting.c", "device_io.h", "run_selftest.c"} < set(files)
    assert not [name for name, text in files.items() if re.search(r"@[A-Z_]+@", text)]


def test_the_model_is_named_to_the_driver_by_flags() -> None:
    flags = ("-include", "net.h", "-DLBNN_MODEL=net", "-DLBNN_MODEL_UPPER=NET")
    assert model_flags("net") == flags
    assert model_flags("net", input_variance=True) == (*flags, "-DLBNN_INPUT_VARIANCE")


def test_the_cache_moves_to_a_private_temporary_folder_where_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LBNN_CACHE_DIR", str(write(tmp_path, "file", "") / "cache"))
    folder = cache_folder()
    assert folder == cache_folder() and folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
    _temporary_cache.cache_clear()
