"""Firmware for each emulated board: exported, built, booted; and boards that are too small for a model."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

import lbnn
from lbnn import LbnnError
from lbnn import nn as bnn
from lbnn.cli.main import main as cli
from lbnn.device.devices import DEVICES
from lbnn.device.toolchains import BOARDS
from lbnn.measure.parity import FLOAT32_TOLERANCE
from lbnn.measure.samples import draw_samples
from lbnn.measure.verify import show_verdicts, verify_backends
from lbnn.model.file import read_model
from places import need

# The RISC-V compiler and emulator take a gigabyte: where they are not installed, their boards are not tested.
READY = [name for name, board in BOARDS.items() if not (board.core.startswith("rv") and DEVICES[name].missing())]


def need_board(name: str) -> None:
    """Skips, or fails in CI, where the tools of an Arm board are missing."""
    need("make")
    if not BOARDS[name].core.startswith("rv"):
        need("arm-none-eabi-gcc")
        need("qemu-system-arm")


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small CNN: convolution, activation, pooling and a linear layer in 16 KB of RAM."""
    torch.manual_seed(3)
    layers = [bnn.Conv2d(1, 4, 3, padding=1), bnn.LeakyReLU(0.1), bnn.AvgPool2d(2), bnn.Flatten(), bnn.Linear(36, 2)]
    path = tmp_path_factory.mktemp("model") / "wake_word.pt"
    return Path(lbnn.save(bnn.Sequential(*layers), path, input_shape=(1, 6, 6)))


def run_lbnn(*words: Any) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main([str(word) for word in words])
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


@pytest.mark.parametrize("board", READY)
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
    assert "'toaster' is not known" in message and "mps2-an386" in message and message.count("\n") == 1
    assert not (tmp_path / "out").exists()


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
