"""The examples run from a clean folder and do what their READMEs say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lbnn
from places import ROOT, need

EXAMPLES = ROOT / "examples"
DIGITS, SENSOR = EXAMPLES / "digits_cnn", EXAMPLES / "sensor_firmware"
MAX_PICTURE = 200_000  # bytes


def run(*command: str | Path) -> str:
    """What a command prints on both streams; it has to succeed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    done = subprocess.run(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def make(folder: Path, place: Path, *variables: str) -> str:
    """`make run` with this interpreter's lbnn, in a copy outside the checkout; paths may have spaces."""
    shutil.copytree(folder, place / "example", ignore=shutil.ignore_patterns("build"))
    return run("make", "-s", "-C", place / "example", "run", f"LBNN='{sys.executable}' -m lbnn.cli.main", *variables)


def shown(folder: Path, command: str) -> list[str]:
    """The lines that a README shows of what a command prints."""
    page = (folder / "README.md").read_text()
    return page.partition(f"\n```console\n$ {command}\n")[2].partition("```")[0].splitlines()


def percentages(output: str, row: str) -> list[float]:
    """The numbers of a row of the table that digits_cnn/train.py prints and its README shows."""
    line = next(line for line in output.splitlines() if re.match(rf" *{row}  .*\d%", line))
    return [float(number) for number in re.findall(r"([\d.]+)%", line)]


def test_every_example_is_in_the_index_and_has_a_readme_with_a_small_picture():
    index = (EXAMPLES / "README.md").read_text()
    for folder in (DIGITS, SENSOR):
        assert f"({folder.name}/)" in index
        shown = re.findall(r"!\[.*?\]\((.*?)\)", (folder / "README.md").read_text())
        assert shown and all((folder / name).stat().st_size < MAX_PICTURE for name in shown)


# ---- digits_cnn -------------------------------------------------------------------------------------------------


def test_a_short_training_learns_the_digits_and_abstains_more_on_foreign_input(tmp_path):
    output = run(sys.executable, DIGITS / "train.py", "--quick", "--out", tmp_path)
    accuracy, of_kept, clean, *_ = percentages(output, "clean")
    assert accuracy > 93.0 and of_kept >= accuracy
    assert clean < 12.0
    assert percentages(output, "rotated 45")[2] > 3 * clean
    assert percentages(output, "rotated 15")[2] > 3 * clean
    assert percentages(output, "noise")[0] > 3 * clean
    assert "generated C: 0 of" in output
    assert (tmp_path / "digits.png").stat().st_size < MAX_PICTURE


def test_the_stored_classifier_is_as_good_as_its_readme_says(tmp_path):
    output = run(sys.executable, DIGITS / "train.py", "--stored", "--out", tmp_path)
    readme = (DIGITS / "README.md").read_text()
    for row in ("clean", "rotated 15", "rotated 45", "rotated 90", "shuffled pixels", "noise"):
        assert percentages(output, row) == pytest.approx(percentages(readme, row), abs=1.0)
    assert "generated C: 0 of 2982 decisions differ" in output
    assert (tmp_path / "samples.h").read_text() == (DIGITS / "samples.h").read_text()


def test_main_c_names_clean_digits_and_is_unsure_of_noise(tmp_path):
    need("make")
    need("cc")
    lines = make(DIGITS, tmp_path).splitlines()
    clean = [re.match(r"clean +of a (\d): (\d), \d+ % \(entropy 0", line) for line in lines if line.startswith("clean")]
    assert len(clean) == 6 and sum(found is not None and found[1] == found[2] for found in clean) >= 5
    noise = [line for line in lines if line.startswith("noise")]
    assert len(noise) == 6 and sum("unsure" in line for line in noise) >= 4
    assert [line for line in shown(DIGITS, "make -s run") if line not in lines] == [], "make numbers ONLY=digits_cnn"


# ---- sensor_firmware --------------------------------------------------------------------------------------------


def test_a_short_training_of_the_thermometer_is_unsure_at_both_rails(tmp_path):
    output = run(sys.executable, SENSOR / "train.py", "--quick", "--out", tmp_path)
    covered = re.search(r"95 % interval ([\d.]+)%", output)
    assert covered and float(covered[1]) > 90.0
    limit = re.search(r"SIGMA_LIMIT ([\d.]+)f", (tmp_path / "readings.h").read_text())
    assert limit
    sigma = np.sqrt(lbnn.compile(tmp_path / "thermometer.pt")([[0.0], [4095.0], [2048.0]]).var[:, 0])
    assert min(sigma[0], sigma[1]) > float(limit[1]) > 2 * sigma[2]


@pytest.mark.parametrize("board", ["mps2-an386", "microbit"])
def test_the_firmware_boots_reads_room_temperature_and_flags_a_broken_wire(board, tmp_path):
    for tool in ("make", "arm-none-eabi-gcc", "qemu-system-arm"):
        need(tool)
    output = make(SENSOR, tmp_path, f"BOARD={board}")
    assert re.search(r"^broken wire, 4095 counts: unsure", output, re.MULTILINE), output
    assert re.search(r"^short circuit, 0 counts: unsure", output, re.MULTILINE), output
    room = re.search(r"^room, 2048 counts: (-?[\d.]+) \+- ([\d.]+) C", output, re.MULTILINE)
    assert room and abs(float(room[1]) - 25.0) < 0.5 and float(room[2]) < 0.5
    lines = shown(SENSOR, "make -s run")
    assert len(lines) == 8 and not {*lines} - {*output.splitlines()}, "make numbers ONLY=sensor_firmware"


def test_the_firmware_fails_its_boot_when_a_weight_is_damaged(tmp_path):
    for tool in ("make", "arm-none-eabi-gcc", "qemu-system-arm"):
        need(tool)
    make(SENSOR, tmp_path)
    folder = tmp_path / "example/build/mps2-an386"
    weights = folder / "thermometer_weights.h"
    numbers = weights.read_text()
    first = re.search(r"-?\d\.\d+e?-?\d*f", numbers)
    assert first
    weights.write_text(numbers.replace(first[0], "7.0f", 1))
    sources = "startup_cortex_m.c semihosting.c main.c thermometer.c thermometer_selftest.c"
    command = [shutil.which("make") or "make", "-C", str(folder), "run", f"SOURCES={sources}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0 and "self-test FAILED" in done.stdout + done.stderr
