"""Compilers are found where they are, say clearly what is wrong, and keep their parts in a folder of the user's own."""

from pathlib import Path

import pytest

from lbnn.base.errors import LbnnError
from lbnn.device.compilers import HOST_TOOLCHAINS, TOOLCHAINS, CompileError, _temporary_cache, cache_folder, cross_gcc
from lbnn.device.cores import CORES, FAMILIES
from places import need


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


def test_every_family_has_its_gcc_and_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert set(TOOLCHAINS) - set(HOST_TOOLCHAINS) == {family.gcc for family in FAMILIES.values()}
    for core in CORES.values():
        assert cross_gcc(core).missing() == f"apt install {core.family.gcc_packages}"


@pytest.mark.parametrize(
    ("asked", "fused"), [((), False), (("-std=gnu99",), True), (("-ffp-contract=fast",), True), (("-O3",), False)]
)
def test_multiply_and_add_are_fused_only_for_a_caller_who_asks(
    asked: tuple[str, ...], fused: bool, tmp_path: Path
) -> None:
    need("clang")
    source = write(tmp_path, "fused.c", "float f(float a, float b, float c) { return a * b + c; }\n")
    out = TOOLCHAINS["clang"].compile([source], tmp_path / "fused.s", (*asked, "-S", "-mfma"))
    assert ("vfmadd" in out.read_text()) == fused


def test_the_cache_moves_to_a_private_temporary_folder_where_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LBNN_CACHE_DIR", str(write(tmp_path, "file", "") / "cache"))
    folder = cache_folder()
    assert folder == cache_folder() and folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
    _temporary_cache.cache_clear()
