"""Packages for Arduino, PlatformIO, ESP-IDF and Zephyr: their own files are well-formed and their sources compile."""

import json
import re

import numpy as np
import pytest

import streams
from c_models import STRICT, WARNINGS, export, run
from lbnn import nn as bnn
from lbnn.exporters.c import PACKAGES, COptions, export_c
from lbnn.graph.passes import prepare
from lbnn.graph.reference import predict
from lbnn.model.file import read_model
from places import need

OF_C = [name for name in PACKAGES if name != "npm"]

ARDUINO_STUB = """#pragma once
#include <stddef.h>
struct SerialStub {
    void begin(long) {}
    void print(const char *) {}
    void print(char) {}
    void print(int) {}
    void print(double, int) {}
    void println() {}
    void println(const char *) {}
    void println(int) {}
    void println(double, int) {}
};
#define F(text) (text)
enum { A0 = 14 };
int analogRead(int);
extern SerialStub Serial;
void delay(unsigned long);
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    base = tmp_path_factory.mktemp("packages")
    return {package: export("gas_sensor", base / package, package=package) for package in OF_C}


def files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def yaml(text):
    """The little of YAML that these files use: `key: value`, indented by two."""
    found, path = {}, []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        key, value = re.fullmatch(r'\s*([\w-]+):\s*"?(.*?)"?', line).groups()
        path = [*path[: indent // 2], key]
        found[".".join(path)] = value
    return found


@pytest.mark.parametrize("dtype", ["float32", "int8", "int16"])
@pytest.mark.parametrize("package", OF_C)
def test_the_sources_of_a_package_compile_alone(packages, tmp_path, package, dtype):
    need("gcc")
    own = packages[package] if dtype == "float32" else None
    folder = own or export("gas_sensor", tmp_path / "package", package=package, dtype=dtype)
    sources = sorted(folder.glob("src/*.c"))
    assert [path.name for path in sources] == ["gas_sensor.c", "gas_sensor_selftest.c"]
    main = tmp_path / "main.c"
    main.write_text(
        '#include "gas_sensor.h"\nstatic gas_sensor_work work[GAS_SENSOR_WORK_LEN];\n'
        "int main(void) { return gas_sensor_selftest(work); }\n"
    )
    include = folder / ("include" if (folder / "include").exists() else "src")
    run("gcc", *STRICT, f"-I{include}", main, *sources, "-o", tmp_path / "a.out", "-lm")
    run(tmp_path / "a.out")
    assert "gas_sensor_footprint.json" in files(folder) and "example_main.c" not in files(folder)


def test_an_arduino_library_has_its_properties_and_a_sketch(packages):
    folder = packages["arduino"]
    lines = (folder / "library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    wanted = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
    assert wanted <= set(properties) and all(properties.values())
    assert properties["name"] == "gas_sensor" and re.fullmatch(r"\d+\.\d+\.\d+", properties["version"])
    assert properties["includes"] == "gas_sensor.h" and properties["architectures"] == "*"
    assert properties["category"] in ("Data Processing",)
    assert "examples/gas_sensor_example/gas_sensor_example.ino" in files(folder)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("variance", [False, True])
def test_the_arduino_sketch_compiles_as_cpp(packages, tmp_path, variance, dtype):
    need("g++")
    folder = export("gas_sensor", tmp_path / "library", package="arduino", input_variance=variance, dtype=dtype)
    (tmp_path / "Arduino.h").write_text(ARDUINO_STUB)
    sketches = sorted(folder.glob("examples/*/*.ino"))
    assert [path.stem for path in sketches] == ["gas_sensor_example", "gas_sensor_sensor"]
    for sketch in sketches:
        # The Arduino builder puts this include before the sketch.
        (tmp_path / "sketch.cpp").write_text(f'#include <Arduino.h>\n#include "{sketch}"\n')
        run("g++", "-std=c++11", *WARNINGS, f"-I{tmp_path}", f"-I{folder / 'src'}", "-c", "sketch.cpp", cwd=tmp_path)


def test_the_keywords_of_an_arduino_library_are_names_of_its_header(packages):
    lines = (packages["arduino"] / "keywords.txt").read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert all(len(row) == 2 and row[1] in ("KEYWORD1", "KEYWORD2", "LITERAL1") for row in rows)
    headers = "".join(path.read_text() for path in (packages["arduino"] / "src").glob("*.h"))
    assert [name for name, _ in rows if not re.search(rf"\b{name}\b", headers)] == []
    assert ["gas_sensor_predict", "KEYWORD2"] in rows


ARDUINO_MAIN = """
#include <stdio.h>
SerialStub Serial;
void SerialStub::print(const char *text) { fputs(text, stdout); }
void SerialStub::print(char letter) { putchar(letter); }
void SerialStub::print(int value) { printf("%d", value); }
void SerialStub::print(double value, int digits) { printf("%.*f", digits, value); }
void SerialStub::println() { puts(""); }
void SerialStub::println(int value) { printf("%d\\n", value); }
void SerialStub::println(const char *text) { puts(text); }
void SerialStub::println(double value, int digits) { printf("%.*f\\n", digits, value); }
void delay(unsigned long) {}
int main() { setup(); for (int t = 0; t < 2 * NET_WINDOW; t++) { loop(); } return 0; }
"""


@pytest.mark.parametrize("name", ["tumbling", "causal_moments"])
def test_the_sketch_of_a_stream_pushes_samples_and_prints_what_a_window_of_them_gives(tmp_path, name):
    need("g++")
    case = streams.CASES[name]
    model, options = case.model(), COptions(name="net", package="arduino", stream=True, **dict(case.options))
    folder = export_c(model, tmp_path / "library", options)
    (tmp_path / "Arduino.h").write_text(ARDUINO_STUB.replace(") {}", ");").replace("begin(long);", "begin(long) {}"))
    sketch = next(folder.glob("examples/*/*_example.ino"))
    (tmp_path / "sketch.cpp").write_text(f'#include <Arduino.h>\n#include "{sketch}"\n{ARDUINO_MAIN}')
    include, sources = f"-I{folder / 'src'}", sorted(folder.glob("src/*.c"))
    run("gcc", *STRICT, include, "-c", *sources, cwd=tmp_path)
    objects = [path.with_suffix(".o").name for path in sources]
    run("g++", "-std=c++11", *WARNINGS, "-I.", include, "sketch.cpp", *objects, "-lm", "-o", "sketch", cwd=tmp_path)
    first, *lines = run(tmp_path / "sketch").splitlines()
    assert first == "self-test: ok" and "net_reset(state);" in sketch.read_text()
    printed = np.array([list(map(float, line.split(" variance "))) for line in lines])
    silence = np.zeros((1, case.shape[0], 2 * case.shape[1] if name in streams.COLUMNS else case.shape[1]))
    want = predict(prepare(case.model(silence.shape[2]).graph, "input_variance" in case.options), silence)
    rows = np.stack([np.asarray(part)[0].reshape(np.shape(part)[1], -1).T.reshape(-1) for part in want], 1)
    np.testing.assert_allclose(printed, rows if name in streams.COLUMNS else np.tile(rows, (2, 1)), atol=2e-6)


def test_a_platformio_library_is_described_in_json(packages):
    folder = packages["platformio"]
    data = json.loads((folder / "library.json").read_text())
    assert data["name"] == "gas_sensor" and re.fullmatch(r"\d+\.\d+\.\d+", data["version"])
    assert len(data["description"]) <= 255
    assert data["build"]["srcDir"] == data["build"]["includeDir"] == "src" and data["headers"] == "gas_sensor.h"
    for example in data["examples"]:
        assert {f"{example['base']}/{name}" for name in example["files"]} <= files(folder)


def test_an_esp_idf_component_registers_its_sources(packages):
    folder = packages["esp-idf"]
    text = (folder / "CMakeLists.txt").read_text()
    (call,) = re.findall(r"idf_component_register\((.*?)\)", text, re.DOTALL)
    sources = re.findall(r'"(src/[^"]+)"', call)
    assert sources == ["src/gas_sensor.c", "src/gas_sensor_selftest.c"] and set(sources) <= files(folder)
    assert re.search(r'INCLUDE_DIRS "include"', call) and "include/gas_sensor.h" in files(folder)
    component = yaml((folder / "idf_component.yml").read_text())
    assert component["version"] == "1.0.0" and component["dependencies.idf"] == ">=4.4"


def test_a_zephyr_module_names_its_build_and_its_switch(packages):
    folder = packages["zephyr"]
    module = yaml((folder / "zephyr/module.yml").read_text())
    assert module["name"] == "gas_sensor"
    assert module["build.cmake"] == "zephyr" and module["build.kconfig"] == "zephyr/Kconfig"
    assert re.search(r"^config LBNN_GAS_SENSOR\n\tbool ", (folder / "zephyr/Kconfig").read_text(), re.MULTILINE)
    cmake = (folder / "zephyr/CMakeLists.txt").read_text()
    assert "if(CONFIG_LBNN_GAS_SENSOR)" in cmake
    sources = re.findall(r"\$\{CMAKE_CURRENT_LIST_DIR\}/\.\./(src/\S+)", cmake)
    assert len(sources) == 2 and set(sources) <= files(folder)


STUBS = {
    "esp-idf": (
        ".",
        "function(idf_component_register)\n"
        '  cmake_parse_arguments(A "" "INCLUDE_DIRS" "SRCS" ${ARGN})\n'
        "  add_library(component STATIC ${A_SRCS})\n"
        "  target_include_directories(component PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/${A_INCLUDE_DIRS})\n"
        "  set(COMPONENT_LIB component PARENT_SCOPE)\n"
        "endfunction()\n",
    ),
    "zephyr": (
        "zephyr",
        "set(CONFIG_LBNN_GAS_SENSOR y)\n"
        "macro(zephyr_include_directories)\n  include_directories(${ARGN})\nendmacro()\n"
        "macro(zephyr_library_named name)\n  set(LIBRARY ${name})\nendmacro()\n"
        "macro(zephyr_library_compile_options)\n  add_compile_options(${ARGN})\nendmacro()\n"
        "macro(zephyr_library_sources)\n  add_library(${LIBRARY} STATIC ${ARGN})\nendmacro()\n",
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("package", STUBS)
def test_the_build_file_of_a_package_builds_its_sources(packages, tmp_path, package, dtype):
    """With stand-ins for the functions that ESP-IDF and Zephyr provide."""
    cmake = need("cmake")
    own = packages[package] if dtype == "float32" else None
    folder = own or export("gas_sensor", tmp_path / "package", package=package, dtype=dtype)
    subfolder, stubs = STUBS[package]
    project = f"cmake_minimum_required(VERSION 3.13)\nproject(test C)\n{stubs}"
    (tmp_path / "CMakeLists.txt").write_text(f'{project}add_subdirectory("{folder / subfolder}" model)\n')
    run(cmake, "-S", tmp_path, "-B", tmp_path / "build")
    run(cmake, "--build", tmp_path / "build")
    assert list((tmp_path / "build").rglob("*.a"))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("package", OF_C)
def test_a_package_can_hold_a_single_file(tmp_path, package, dtype):
    folder = export("gas_sensor", tmp_path / "out", package=package, single_file=True, dtype=dtype)
    assert {name for name in files(folder) if re.match(r"(src|include)/", name)} in (
        {"src/gas_sensor.c", "src/gas_sensor.h"},
        {"src/gas_sensor.c", "include/gas_sensor.h"},
    )


MANIFESTS = {
    "arduino": "library.properties",
    "esp-idf": "idf_component.yml",
    "platformio": "library.json",
    "zephyr": "zephyr/Kconfig",
}


@pytest.mark.parametrize("package", OF_C)
def test_a_package_says_whether_it_gives_probabilities(packages, tmp_path, package):
    model = read_model(bnn.Sequential(bnn.Linear(2, 3), bnn.SoftmaxHead()), (2,))
    told = (export_c(model, tmp_path / package, COptions(package=package)) / MANIFESTS[package]).read_text()
    assert "probabilities and how sure they are" in told and "variance" not in told
    told = (packages[package] / MANIFESTS[package]).read_text()
    assert "a mean and a variance" in told and "probabilities" not in told
