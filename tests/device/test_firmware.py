"""Firmware for each emulated board: exported, built, booted; and boards that are too small for a model."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import lbnn
from lbnn import LbnnError
from lbnn import nn as bnn
from lbnn.cli.main import main
from lbnn.device.boards import BOARDS, Board
from lbnn.device.compilers import CompileError
from lbnn.device.cores import CORES, Core
from lbnn.device.elf import open_elf, read_symbols
from lbnn.device.firmware import compile_gcc, compile_zig, firmware_files, link_for_core, linker_script, zig_target
from lbnn.measure.parity import FLOAT32_TOLERANCE
from lbnn.measure.samples import draw_samples
from lbnn.measure.verify import show_verdicts, verify_backends
from lbnn.model.file import read_model
from places import need
from tiny_net import BOARDS_READY, SELFTEST, need_device, write_net


def need_board(name: str) -> None:
    """Skips, or fails in CI, where the tools of a board are missing."""
    need("make")
    need_device(name)


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small CNN: convolution, activation, pooling and a linear layer in 16 KB of RAM."""
    torch.manual_seed(3)
    layers = [bnn.Conv2d(1, 4, 3, padding=1), bnn.LeakyReLU(0.1), bnn.AvgPool2d(2), bnn.Flatten(), bnn.Linear(36, 2)]
    path = tmp_path_factory.mktemp("model") / "wake_word.pt"
    return Path(lbnn.save(bnn.Sequential(*layers), path, input_shape=(1, 6, 6)))


def run_lbnn(*words: Any) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def make_run(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "run"], cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def corrupt(selftest: Path) -> None:
    """Moves one expected variance by a ten-thousandth: ten times the tolerance."""
    text = selftest.read_text()
    start = text.index("_golden_variance[")
    number = re.search(r"\d\.?\d*(e-?\d+)?f", text[text.index("{", text.index("{", start) + 1) :])
    assert number
    selftest.write_text(text[:start] + text[start:].replace(number[0], f"{float(number[0][:-1]) * 1.0001:.9g}f", 1))


@pytest.mark.parametrize("board", BOARDS_READY)
def test_make_run_boots_what_export_wrote_and_exits_with_the_result(
    board: str, model_file: Path, tmp_path: Path
) -> None:
    need_board(board)
    out = tmp_path / "firmware"
    assert run_lbnn("export", model_file, "--target", "c", "--board", board, "-o", out) == 0
    good = make_run(out)
    assert good.returncode == 0 and "self-test passed" in good.stderr, good.stderr
    corrupt(out / "wake_word_selftest.c")
    bad = make_run(out)  # make notices that the source is newer than the image
    assert bad.returncode != 0 and "self-test FAILED" in bad.stderr, bad.stderr


def test_a_board_that_is_not_known_is_refused_with_those_that_are(
    model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_lbnn("export", model_file, "--target", "c", "--board", "toaster", "-o", tmp_path / "out") == 2
    message = capsys.readouterr().err
    assert "'toaster' is not one of" in message and "mps2-an386" in message and message.count("\n") == 1
    assert not (tmp_path / "out").exists()


# ---- the files and the images -----------------------------------------------------------------------


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_firmware_files_name_the_board_its_compiler_its_start_up_and_its_emulator(board: Board) -> None:
    files, family = firmware_files(board, "net"), board.core.family
    common = {"Makefile", f"{board.name}.ld", "semihosting.c", "device_io.h", "cycles.h", "run_selftest.c"}
    assert set(files) == {*common, family.startup}
    assert "ENTRY(lbnn_reset)" in files[f"{board.name}.ld"]
    makefile = files["Makefile"].splitlines()
    assert f"CC     = {family.gcc}" in makefile and f"TARGET = {' '.join(board.core.gcc)}" in makefile
    assert f"SOURCES = {family.startup} semihosting.c run_selftest.c net.c net_selftest.c" in makefile
    assert any(line.startswith(f"\t{family.qemu.program} -M {board.machine} ") for line in makefile)
    assert "-DLBNN_MODEL=net -DLBNN_MODEL_UPPER=NET" in files["Makefile"]


def test_the_linker_script_places_an_image_in_the_boards_memory() -> None:
    script = linker_script("mps2-an505", BOARDS["mps2-an505"].memory, "start")
    assert "ENTRY(start)" in script
    assert "ROM (rx)  : ORIGIN = 0x10000000, LENGTH = 4096K" in script
    assert "RAM (rwx) : ORIGIN = 0x38000000, LENGTH = 4096K" in script


@pytest.mark.parametrize("name", BOARDS_READY)
def test_make_run_boots_the_firmware_and_its_status_is_the_selftest(name: str, tmp_path: Path) -> None:
    need_board(name)
    write_net(tmp_path)
    for file, text in firmware_files(BOARDS[name], "net").items():
        (tmp_path / file).write_text(text)
    for expected, status, words in (("3.0f", 0, "self-test passed"), ("3.5f", 2, "self-test FAILED")):
        (tmp_path / "net_selftest.c").write_text(SELFTEST.replace("EXPECTED", expected))
        run = subprocess.run([need("make"), "run"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert run.returncode == status and words in run.stderr


def test_the_first_values_of_variables_are_stored_in_rom(tmp_path: Path) -> None:
    """An emulator puts them into RAM at once, a chip has nothing there."""
    source = tmp_path / "counter.c"
    source.write_text("static volatile int count = 5;\nint next(void) { return ++count; }\n")
    elf = link_for_core(CORES["cortex-m3"], [source], tmp_path / "counter.elf", ["next"])
    with elf.open("rb") as stream:
        stored = {s["p_vaddr"] >> 24: s["p_paddr"] >> 24 for s in open_elf(stream).iter_segments("PT_LOAD") if s.data()}
    assert stored == {0x08: 0x08, 0x20: 0x08}


def test_zig_moves_bits_between_float_and_integer_without_a_call(tmp_path: Path) -> None:
    text = "#include <string.h>\nint bits(float x) { int y; memcpy(&y, &x, sizeof y); return y; }\n"
    source = tmp_path / "bits.c"
    source.write_text(text)
    symbols = read_symbols(link_for_core(CORES["cortex-m4"], [source], tmp_path / "bits.elf", ["bits"]))
    assert [name for _, _, name in symbols.functions] == ["bits"]


@pytest.mark.parametrize(
    ("size", "message"), [(17000, "RAM' overflowed by"), (16000, "RAM overflowed: less than 1 KB")]
)
def test_an_image_that_leaves_no_room_for_a_stack_is_refused(size: int, message: str, tmp_path: Path) -> None:
    need("arm-none-eabi-gcc")
    source, script = tmp_path / "big.c", tmp_path / "big.ld"
    source.write_text(f"static char big[{size}]; char *f(void) {{ return big; }}\n")
    script.write_text(linker_script("microbit", BOARDS["microbit"].memory, "f"))
    with pytest.raises(CompileError, match=message):
        compile_gcc(CORES["cortex-m0"], [source], tmp_path / "big.elf", script)


@pytest.mark.parametrize(
    ("core", "target", "cpu"),
    [
        ("cortex-m3", "thumb-freestanding-eabi", "cortex_m3"),
        ("cortex-m4", "thumb-freestanding-eabihf", "cortex_m4+vfp4d16sp"),
        ("rv32imafc", "riscv32-freestanding-none", "generic_rv32+m+a+f+c"),
    ],
)
def test_zig_is_told_the_core_and_whether_floats_travel_in_registers(core: str, target: str, cpu: str) -> None:
    assert zig_target(CORES[core]) == ("-target", target, f"-mcpu={cpu}", "-ffreestanding")


@pytest.mark.parametrize(
    "core",
    [
        replace(CORES["cortex-m4"], zig_cpu=None),
        replace(CORES["cortex-m4"], family=replace(CORES["cortex-m4"].family, zig_targets=None)),
    ],
)
def test_a_core_that_zig_does_not_know_is_sent_to_its_gcc(core: Core, tmp_path: Path) -> None:
    with pytest.raises(LbnnError, match="zig has no cortex-m4; compile for it with arm-none-eabi-gcc"):
        compile_zig(core, [], tmp_path / "none.elf", tmp_path / "none.ld")


# ---- boards that are too small ---------------------------------------------------------------------


def wide(inputs: int, outputs: int) -> Any:
    """A layer whose values (8 bytes each) or weights (8 bytes each) fill a microbit: 16 KB of RAM, 256 KB of flash."""
    return read_model(bnn.Sequential(bnn.Linear(inputs, outputs), bnn.ReLU(), bnn.Linear(outputs, 1)), (inputs,))


TOO_LARGE = {"RAM too small": (1, 2500), "flash too small": (200, 200)}


@pytest.mark.parametrize("reason", TOO_LARGE)
def test_a_board_that_is_too_small_is_left_out_with_the_reason(reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    need_board("microbit")
    model, left_out = wide(*TOO_LARGE[reason]), {}
    samples = draw_samples(model, 7, seed=0)
    rows = verify_backends(model, samples, ["torch", "microbit"], FLOAT32_TOLERANCE, left_out)
    assert [row.backend for row in rows] == ["torch"]
    show_verdicts(rows, left_out, "")
    assert re.search(rf"^left out: microbit \({reason} by [\d,]+ bytes\)$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("reason", TOO_LARGE)
def test_a_board_that_is_too_small_is_an_error_where_it_was_asked_for(reason: str) -> None:
    need_board("microbit")
    model = wide(*TOO_LARGE[reason])
    with pytest.raises(LbnnError, match=f"does not fit microbit: {reason} by [0-9,]+ bytes; choose another backend"):
        verify_backends(model, draw_samples(model, 7, seed=0), ["microbit"], FLOAT32_TOLERANCE)


def test_the_command_says_what_it_left_out_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_board("microbit")
    torch.manual_seed(1)
    network = bnn.Sequential(bnn.Linear(1, 2500), bnn.ReLU(), bnn.Linear(2500, 1))
    path = lbnn.save(network, tmp_path / "wide.pt", input_shape=(1,))
    assert run_lbnn("verify", path, "--samples", 7, "--backends", "microbit") == 2
    assert "wide does not fit microbit: RAM too small by" in capsys.readouterr().err
