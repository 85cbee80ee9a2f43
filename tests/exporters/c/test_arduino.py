"""The Arduino library with the real core of AVR boards: both sketches run on an Uno and a Mega in simavr.

Debian's arduino-core-avr has the core; Debian's avr-gcc 5.4 needs DECIMAL_DIG from outside to compile it.
"""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from c_models import run
from lbnn.exporters.c import COptions, export_c
from lbnn.graph.reference import predict
from lbnn.model.file import Model, read_model
from places import ROOT, need, need_file

CORE = Path("/usr/share/arduino/hardware/arduino/avr")
BOARDS = {"uno": ("atmega328p", "standard", "AVR_UNO"), "mega": ("atmega2560", "mega", "AVR_MEGA2560")}
C = "-std=gnu11 -fno-fat-lto-objects"
CPP = "-std=gnu++11 -fpermissive -fno-exceptions -fno-threadsafe-statics"
KB = 1024

# Paints all RAM before anything runs, and says after some rounds how much was never touched.
WITNESS = """
extern char __heap_start;
extern "C" void paint(void) __attribute__((naked, used, section(".init1")));
extern "C" void paint(void)
{
    __asm__ volatile("ldi r30, lo8(__heap_start)\\n ldi r31, hi8(__heap_start)\\n ldi r24, 0xa5\\n ldi r25, hi8(%0)\\n"
                     "1: st Z+, r24\\n cpi r30, lo8(%0)\\n cpc r31, r25\\n brlo 1b" :: "i"(RAMEND));
}
static void say_untouched()
{
    const char *at = &__heap_start;
    while (*at == static_cast<char>(0xa5)) at++;
    Serial.print(F("static "));
    Serial.print(reinterpret_cast<unsigned>(&__heap_start) - RAMSTART);
    Serial.print(F(" untouched "));
    Serial.println(static_cast<unsigned>(at - &__heap_start));
}
"""


@pytest.fixture(scope="module")
def thermometer() -> Model:
    return read_model(ROOT / "examples/sensor_firmware/thermometer.pt")


@pytest.fixture(scope="module")
def library(thermometer: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_c(thermometer, tmp_path_factory.mktemp("arduino") / "thermometer", COptions(package="arduino"))


def build(board: str, library: Path, sketch: str, folder: Path) -> Path:
    """What the Arduino builder does: its platform.txt has these flags."""
    chip, variant, name = BOARDS[board]
    need_file(CORE / "cores/arduino/Arduino.h", "arduino-core-avr")
    gcc, gpp = need("avr-gcc"), need("avr-g++")
    (folder / "sketch.cpp").write_text(f"#include <Arduino.h>\n{sketch}")
    include = [f"-I{CORE / 'cores/arduino'}", f"-I{CORE / 'variants' / variant}", f"-I{library / 'src'}"]
    flags = [f"-mmcu={chip}", "-DF_CPU=16000000L", "-DARDUINO=10819", f"-DARDUINO_{name}", "-DARDUINO_ARCH_AVR"]
    flags += ["-DDECIMAL_DIG=9", *include, "-Os", "-ffunction-sections", "-fdata-sections", "-flto"]
    core = CORE / "cores/arduino"
    strict = ["-Wall", "-Wextra", "-Werror"]
    commands = [[gcc, *flags, *C.split(), "-c", *sorted(core.glob("*.c"))]]
    commands += [[gcc, *flags, *C.split(), *strict, "-c", *sorted((library / "src").glob("*.c"))]]
    commands += [[gpp, *flags, *CPP.split(), "-c", *sorted(core.glob("*.cpp"))]]
    commands += [[gpp, *flags, *CPP.split(), *strict, "-c", "sketch.cpp"]]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda command: run(*command, cwd=folder), commands))
    objects = sorted(path.name for path in folder.glob("*.o"))
    link = ["-Os", "-flto", "-fuse-linker-plugin", "-Wl,--gc-sections", f"-mmcu={chip}"]
    run(gcc, *link, *objects, "-lm", "-o", "sketch.elf", cwd=folder)
    return folder / "sketch.elf"


def printed(board: str, elf: Path, lines: int) -> list[str]:
    """The first lines that the sketch writes to its serial port; it runs for ever."""
    command = [need("simavr"), "-m", BOARDS[board][0], "-f", "16000000", str(elf)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as sim:
        found: list[str] = []
        assert sim.stdout is not None
        for line in sim.stdout:
            text = re.sub(r"\x1b\[\d*m", "", line).strip()
            if text.endswith(".."):  # simavr shows the end of a line, CR and LF, as two dots
                found.append(text[:-2])
            if len(found) == lines:
                break
        sim.kill()
    return found


@pytest.mark.ecosystem(
    "C: Arduino",
    "library with the core of Debian, sketches on an Uno and a Mega in simavr",
    program="avr-gcc",
    result="self-test 0, the numbers of the reference, 0.8 KB of RAM at most on the Uno",
)
@pytest.mark.parametrize("board", BOARDS)
def test_the_example_runs_with_the_real_core(board: str, library: Path, thermometer: Model, tmp_path: Path) -> None:
    text = (library / "examples/thermometer_example/thermometer_example.ino").read_text()
    text = text.replace("void loop()", f"{WITNESS}\nvoid loop()").replace("delay(1000);", "say_untouched();")
    first, result, *later = printed(board, build(board, library, text, tmp_path), 5)
    assert first == "self-test: ok"
    numbers = list(map(float, result.split(" variance ")))
    want = predict(thermometer.graph, np.zeros((1, 1)))
    np.testing.assert_allclose(numbers, [want.mean[0, 0], want.var[0, 0]], rtol=2e-6)
    static, untouched = map(int, re.findall(r"\d+", later[-1]))
    used = {"uno": 2 * KB, "mega": 8 * KB}[board] - untouched
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
