"""The folder layouts of Arduino, PlatformIO, ESP-IDF, Zephyr and npm around the same C files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lbnn.base.templates import render
from lbnn.exporters.c.npm import npm
from lbnn.exporters.c.view import ModelView

Files = dict[str, bytes | str]

_HOST_ONLY = ("example_main.c", "CMakeLists.txt")
_ARDUINO = (("library", "properties"), ("keywords", "txt"))


def arduino(data: ModelView, files: Files) -> Files:
    """A library: sources in src/, keywords, and two sketches under examples/."""
    sketches = {f"{data.name}_example": "stream" if data.stream else "example", f"{data.name}_sensor": "sensor"}
    return {
        **{f"{name}.{end}": render(f"c/arduino/{name}.{end}.j2", model=data) for name, end in _ARDUINO},
        **{f"examples/{s}/{s}.ino": render(f"c/arduino/{kind}.ino.j2", model=data) for s, kind in sketches.items()},
        **_sources(
            {name: text for name, text in files.items() if not name.endswith(".hpp")}, "src"
        ),  # AVR has no <array>
    }


def platformio(data: ModelView, files: Files) -> Files:
    """A library: sources in src/, the host example under examples/."""
    return {
        "library.json": render("c/platformio/library.json.j2", model=data),
        "examples/example_main.c": render("c/example_main.c.j2", model=data),
        **_sources(files, "src"),
    }


def esp_idf(data: ModelView, files: Files) -> Files:
    """A component: put it into the project's components/ folder."""
    return {
        "CMakeLists.txt": render("c/esp-idf/CMakeLists.txt.j2", model=data),
        "idf_component.yml": render("c/esp-idf/idf_component.yml.j2", model=data),
        **{_include(name): text for name, text in _sources(files, "").items()},
    }


def zephyr(data: ModelView, files: Files) -> Files:
    """A module: name it in ZEPHYR_EXTRA_MODULES and switch it on with CONFIG_LBNN_<NAME>=y."""
    return {
        "zephyr/module.yml": render("c/zephyr/module.yml.j2", model=data),
        "zephyr/CMakeLists.txt": render("c/zephyr/CMakeLists.txt.j2", model=data),
        "zephyr/Kconfig": render("c/zephyr/Kconfig.j2", model=data),
        "zephyr/west.yml": render("c/zephyr/west.yml.j2", model=data),
        **{_include(name): text for name, text in _sources(files, "").items()},
    }


LAYOUTS: Mapping[str, Callable[[ModelView, Files], Files]] = {
    "arduino": arduino,
    "platformio": platformio,
    "esp-idf": esp_idf,
    "zephyr": zephyr,
    "npm": npm,
}


def _sources(files: Files, folder: str) -> Files:
    """The C files under `folder`; what describes the model stays at the top."""
    kept = {name: text for name, text in files.items() if name not in _HOST_ONLY}
    code = (".c", ".h", ".hpp")
    return {f"{folder}/{name}" if folder and name.endswith(code) else name: text for name, text in kept.items()}


def _include(name: str) -> str:
    """Headers under include/, sources under src/."""
    places = {"c": "src/", "h": "include/", "hpp": "include/"}
    return places.get(name.rpartition(".")[2], "") + name
