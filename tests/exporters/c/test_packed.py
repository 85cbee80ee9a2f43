"""Packages in the hands of the tools that take them: CMake, Zephyr's flags, west, compote of ESP-IDF, pio."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from c_models import export, run
from lbnn.base.resources import targets_folder
from lbnn.device.boards import BOARDS
from lbnn.device.firmware import RESET, linker_script
from lbnn.device.qemu import QemuBoard
from page_blocks import only
from places import need, need_packer
from tiny_net import need_device

# ---- CMake -----------------------------------------------------------------------------------------------------

USER = f"""
cmake_minimum_required(VERSION 3.13)
project(firmware C)
add_executable(firmware main.c)
{only("docs/c.md", "cmake")}
"""
MAIN = """
#include "gas_sensor.h"
static gas_sensor_work work[GAS_SENSOR_WORK_LEN];
int main(void) { return gas_sensor_selftest(work); }
"""


@pytest.mark.ecosystem(
    "C: CMake", "`cmake --install`, `find_package(NAME)`", program="cmake", result="found, links, runs"
)
@pytest.mark.parametrize("weights", ["source", "half-binary"])
def test_an_installed_model_is_found_by_its_name(tmp_path: Path, weights: str) -> None:
    cmake, folder = need("cmake"), export("gas_sensor", tmp_path / "gas_sensor", weights=weights)
    build, prefix, user = (tmp_path / name for name in ("build", "prefix", "user"))
    run(cmake, "-S", folder, "-B", build)
    run(cmake, "--build", build)
    run(cmake, "--install", build, "--prefix", prefix)
    folder.rename(tmp_path / "elsewhere")
    user.mkdir()
    (user / "CMakeLists.txt").write_text(USER)
    (user / "main.c").write_text(MAIN)
    run(cmake, "-S", user, "-B", user / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run(cmake, "--build", user / "build")
    run(user / "build/firmware")


@pytest.mark.ecosystem("C: CMake, inside of a project", "`add_subdirectory`", program="cmake", result="links, runs")
def test_a_folder_inside_of_a_project_has_the_same_name_and_installs_nothing(tmp_path: Path) -> None:
    cmake = need("cmake")
    export("gas_sensor", tmp_path / "gas_sensor")
    inside = USER.replace("find_package(gas_sensor REQUIRED)", "add_subdirectory(gas_sensor)")
    (tmp_path / "CMakeLists.txt").write_text(inside)
    (tmp_path / "main.c").write_text(MAIN)
    run(cmake, "-S", tmp_path, "-B", tmp_path / "build")
    run(cmake, "--build", tmp_path / "build")
    run(tmp_path / "build/firmware")
    run(cmake, "--install", tmp_path / "build", "--prefix", tmp_path / "prefix")
    assert not (tmp_path / "prefix").exists()


# ---- Zephyr ----------------------------------------------------------------------------------------------------

# Of a build with CONFIG_MINIMAL_LIBC: no header but the compiler's own and Zephyr's, and none of its libraries.
ZEPHYR = """
-std=c99 -Os -ffreestanding -nostdinc -fno-strict-aliasing -fno-common -Wall -Wformat -Wdouble-promotion -Wpointer-arith
-Wexpansion-to-defined -Werror -fno-pic -fno-pie -fno-asynchronous-unwind-tables -ftls-model=local-exec
-fno-reorder-functions --param=min-pagesize=0 -fno-defer-pop -ffunction-sections -fdata-sections
"""
MODULE = """
cmake_minimum_required(VERSION 3.13)
project(application C)
set(CONFIG_LBNN_GAS_SENSOR y)
macro(zephyr_include_directories)
  include_directories(${ARGN})
endmacro()
macro(zephyr_library_named name)
  set(LIBRARY ${name})
endmacro()
macro(zephyr_library_compile_options)
  add_compile_options(${ARGN})
endmacro()
macro(zephyr_library_sources)
  add_library(${LIBRARY} STATIC ${ARGN})
endmacro()
add_subdirectory(module/zephyr model)
"""
# What Zephyr's minimal libc gives; strlen is for the messages of the emulator.
MINIMAL = """
#include <stddef.h>
void *memcpy(void *to, const void *from, size_t n) {
    char *t = to; const char *f = from;
    while (n--) *t++ = *f++;
    return to;
}
void *memset(void *to, int c, size_t n) { char *t = to; while (n--) *t++ = (char)c; return to; }
int memcmp(const void *a, const void *b, size_t n) {
    const unsigned char *x = a, *y = b;
    for (; n--; x++, y++) if (*x != *y) return *x - *y;
    return 0;
}
size_t strlen(const char *s) { size_t n = 0; while (s[n]) n++; return n; }
"""


@pytest.mark.ecosystem(
    "C: Zephyr",
    "module linked with the flags of the minimal libc, on three boards in QEMU",
    program="arm-none-eabi-gcc",
    result="self-test 0",
)
@pytest.mark.parametrize("board", ["microbit", "mps2-an385", "mps2-an386"])
def test_a_zephyr_module_links_with_the_minimal_libc_and_passes_its_selftest(tmp_path: Path, board: str) -> None:
    cmake, gcc, core = need("cmake"), need("arm-none-eabi-gcc"), BOARDS[need_device(board)].core
    export("gas_sensor", tmp_path / "module", package="zephyr")
    (tmp_path / "CMakeLists.txt").write_text(MODULE)
    own = [run(gcc, f"-print-file-name={name}").strip() for name in ("include", "include-fixed")]
    flags = " ".join((*core.gcc, *ZEPHYR.split(), *(f"-isystem {folder}" for folder in own)))
    bare = ("-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY")
    run(cmake, "-S", tmp_path, "-B", tmp_path / "build", *bare, f"-DCMAKE_C_COMPILER={gcc}", f"-DCMAKE_C_FLAGS={flags}")
    run(cmake, "--build", tmp_path / "build")
    (archive,) = (tmp_path / "build").rglob("*.a")
    (tmp_path / "minimal.c").write_text(MINIMAL)
    (tmp_path / "board.ld").write_text(linker_script(board, BOARDS[board].memory, RESET))
    targets = targets_folder()
    names = ("-include", "gas_sensor.h", "-DLBNN_MODEL=gas_sensor", "-DLBNN_MODEL_UPPER=GAS_SENSOR")
    sources = [tmp_path / "minimal.c", *(targets / n for n in (core.family.startup, "semihosting.c", "run_selftest.c"))]
    include = (f"-I{targets}", f"-I{tmp_path / 'module/include'}")
    link = ("-nostdlib", "-nostartfiles", "-Wl,--gc-sections", f"-T{tmp_path / 'board.ld'}")
    image = tmp_path / "image.elf"
    run(
        gcc,
        *core.gcc,
        "-O2",
        "-fno-tree-loop-distribute-patterns",
        *names,
        *include,
        *link,
        *sources,
        archive,
        "-lgcc",
        "-o",
        image,
    )
    done = QemuBoard(BOARDS[board]).run(image, tmp_path)
    assert done.status == 0, done.stderr


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=name", "-c", "user.email=name@example.com", "-c", "init.defaultBranch=main")
    run(need("git"), *identity, *words, cwd=folder)


def yaml_lines(text: str) -> list[str]:
    """What a file says besides its comments."""
    return [line for line in re.sub(r"\s*#.*", "", text).splitlines() if line.strip()]


@pytest.mark.ecosystem(
    "C: Zephyr, west", "manifest of the module in a workspace", package="west", result="module is found"
)
def test_west_takes_the_manifest_of_a_zephyr_module(tmp_path: Path) -> None:
    west = need_packer("west")
    module, application = export("gas_sensor", tmp_path / "gas_sensor", package="zephyr"), tmp_path / "work/application"
    git(module, "init", "-q")
    git(module, "add", ".")
    git(module, "commit", "-qm", "a model")
    application.mkdir(parents=True)
    snippet = (module / "zephyr/west.yml").read_text()
    page = only("docs/c.md", "yaml")
    assert yaml_lines(page) == yaml_lines(snippet)
    there = re.sub(r"url: \S+", f"url: {module.as_uri()}", page)
    assert there != page
    (application / "west.yml").write_text(there)
    home = {**os.environ, "HOME": str(tmp_path), "GIT_CONFIG_COUNT": "0"}
    run(west, "init", "-l", application, cwd=application.parent, env=home)
    run(west, "update", cwd=application.parent, env=home)
    assert (application.parent / "modules/lib/gas_sensor/zephyr/module.yml").is_file()


# ---- ESP-IDF and PlatformIO ------------------------------------------------------------------------------------


def packed(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A packer without the user's settings, and without the network, which none of them needs for this."""
    own = {"HOME": str(folder), "PLATFORMIO_CORE_DIR": str(folder / ".pio")}
    own |= {"PLATFORMIO_SETTING_ENABLE_TELEMETRY": "No"}
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    env = {**os.environ, **own, **nowhere}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.ecosystem("C: ESP-IDF", "`compote component pack`", package="idf-component-manager", result="packs")
def test_compote_packs_an_esp_idf_component(tmp_path: Path) -> None:
    compote, folder = need_packer("compote"), export("gas_sensor", tmp_path / "gas_sensor", package="esp-idf")
    done = packed([compote, "component", "pack", "--name", "gas_sensor", "--dest-dir", str(tmp_path / "out")], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = (tmp_path / "out").glob("gas_sensor_1.0.0.tgz")
    with tarfile.open(archive) as tar:
        held = {name.removeprefix("./") for name in tar.getnames()}
    assert {"CMakeLists.txt", "idf_component.yml", "src/gas_sensor.c", "include/gas_sensor.h", "include/lbnn.h"} <= held


@pytest.mark.ecosystem(
    "C: PlatformIO", "`pio pkg pack`, also of the Arduino library", package="platformio", result="packs"
)
def test_pio_packs_a_platformio_library(tmp_path: Path) -> None:
    pio, folder = need_packer("pio"), export("gas_sensor", tmp_path / "gas_sensor", package="platformio")
    done = packed([pio, "pkg", "pack", str(folder), "--output", str(tmp_path / "gas_sensor.tar.gz")], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    with tarfile.open(tmp_path / "gas_sensor.tar.gz") as tar:
        held = {name.removeprefix("./") for name in tar.getnames()}
        described = json.load(tar.extractfile("library.json"))  # type: ignore[arg-type]
    assert {"src/gas_sensor.c", "src/gas_sensor.h", "examples/example_main.c"} <= held
    assert described["name"] == "gas_sensor"


@pytest.mark.ecosystem(
    "C: PlatformIO", "`pio pkg pack`, also of the Arduino library", package="platformio", result="packs"
)
def test_pio_packs_an_arduino_library_too(tmp_path: Path) -> None:
    pio, folder = need_packer("pio"), export("gas_sensor", tmp_path / "gas_sensor", package="arduino")
    done = packed([pio, "pkg", "pack", str(folder), "--output", str(tmp_path / "gas_sensor.tar.gz")], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
