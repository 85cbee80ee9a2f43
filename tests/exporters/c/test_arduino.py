"""The Arduino library with the real core of AVR boards: both sketches run on an Uno and a Mega in simavr.

Debian's arduino-core-avr has the core; Debian's avr-gcc 5.4 needs DECIMAL_DIG from outside to compile it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from arduino_table import BOARDS, CORE, KB, build, printed, ram, watched
from lbnn.exporters.c import COptions, export_c
from lbnn.graph.reference import predict
from lbnn.model.file import Model, read_model
from places import ROOT, need, need_file


@pytest.fixture(scope="module")
def thermometer() -> Model:
    return read_model(ROOT / "examples/sensor_firmware/thermometer.pt")


@pytest.fixture(scope="module")
def library(thermometer: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_c(thermometer, tmp_path_factory.mktemp("arduino") / "thermometer", COptions(package="arduino"))


@pytest.fixture(autouse=True)
def tools() -> None:
    need_file(CORE / "cores/arduino/Arduino.h", "arduino-core-avr")
    for tool in ("avr-gcc", "avr-g++", "simavr"):
        need(tool)


@pytest.mark.ecosystem(
    "C: Arduino",
    "library with the core of Debian, sketches on an Uno and a Mega in simavr",
    program="avr-gcc",
    result="self-test 0, the numbers of the reference, 0.8 KB of RAM at most on the Uno",
)
@pytest.mark.parametrize("board", BOARDS)
def test_the_example_runs_with_the_real_core(board: str, library: Path, thermometer: Model, tmp_path: Path) -> None:
    first, result, *later = printed(board, build(board, library, watched(library), tmp_path), 5)
    assert first == "self-test: ok"
    numbers = list(map(float, result.split(" variance ")))
    want = predict(thermometer.graph, np.zeros((1, 1)))
    np.testing.assert_allclose(numbers, [want.mean[0, 0], want.var[0, 0]], rtol=2e-6)
    used, static = ram(board, later[-1])
    assert later[-1].startswith("static ") and static < used
    assert board != "uno" or used <= 0.8 * KB, f"{used} bytes of RAM with stack, core and serial buffers"


@pytest.mark.ecosystem(
    "C: Arduino",
    "library with the core of Debian, sketches on an Uno and a Mega in simavr",
    program="avr-gcc",
    result="self-test 0, the numbers of the reference, 0.8 KB of RAM at most on the Uno",
)
def test_the_sensor_sketch_says_how_sure_it_is(library: Path, thermometer: Model, tmp_path: Path) -> None:
    text = (library / "examples/thermometer_sensor/thermometer_sensor.ino").read_text()
    elf = build("uno", library, text.replace("analogRead(A0)", "2048").replace("delay(1000)", "delay(1)"), tmp_path)
    mean, sd = map(float, printed("uno", elf, 1)[0].split("outside")[0].split(" +- "))
    want = predict(thermometer.graph, np.full((1, 1), 2048.0))
    np.testing.assert_allclose([mean, sd], [want.mean[0, 0], np.sqrt(want.var[0, 0])], atol=1e-3)
