"""Outputs appear whole or not at all, whatever goes wrong while they are written."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lbnn import LbnnError
from lbnn.base import files
from lbnn.base.files import write_file, write_folder

NEW = {"a.c": "new", "src/b.h": b"new"}


def contents(folder):
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_file_and_a_folder_are_written_with_all_parents(tmp_path):
    assert write_file(tmp_path / "x" / "y.bin", b"\x00").read_bytes() == b"\x00"
    assert contents(write_folder(tmp_path / "p" / "q", NEW)) == {"a.c": "new", "src/b.h": "new"}


def test_a_file_has_the_permissions_of_any_other(tmp_path):
    (tmp_path / "plain").write_text("")
    assert write_file(tmp_path / "ours", "").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    "write", [lambda p, **k: write_file(p / "f", "new", **k), lambda p, **k: write_folder(p, NEW, **k)]
)
def test_existing_output_is_kept_unless_forced(write, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "f").write_text("old")
    with pytest.raises(LbnnError, match="exists; choose another place or add --force"):
        write(out)
    assert contents(out) == {"f": "old"}
    write(out, force=True)
    assert "old" not in contents(out).values()


def test_a_forced_folder_keeps_nothing_of_the_old_one(tmp_path):
    write_folder(tmp_path / "out", {"stale.c": "old"})
    assert contents(write_folder(tmp_path / "out", NEW, force=True)) == {"a.c": "new", "src/b.h": "new"}
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_without_an_atomic_exchange_the_result_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_exchange", lambda a, b: False)
    write_folder(tmp_path / "out", {"stale.c": "old"})
    assert contents(write_folder(tmp_path / "out", NEW, force=True)) == {"a.c": "new", "src/b.h": "new"}


def test_without_an_atomic_exchange_a_failure_brings_the_old_folder_back(tmp_path, monkeypatch):
    write_folder(tmp_path / "out", {"a.c": "old"})
    rename = Path.replace

    def refuse_new(self, target):
        if self.name == "new":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(files, "_exchange", lambda a, b: False)
    monkeypatch.setattr(Path, "replace", refuse_new)
    with pytest.raises(LbnnError, match="Input/output error"):
        write_folder(tmp_path / "out", NEW, force=True)
    assert contents(tmp_path / "out") == {"a.c": "old"}


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_full_disk_leaves_the_old_output_and_no_litter(kind, tmp_path, monkeypatch):
    out = tmp_path / "out"
    write_file(out, "old") if kind == "file" else write_folder(out, {"a.c": "old"})

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_bytes", full)
    with pytest.raises(LbnnError, match=r"can.t write .*out: No space left on device"):
        write_file(out, "new", force=True) if kind == "file" else write_folder(out, NEW, force=True)
    assert (out.read_text() if kind == "file" else contents(out)["a.c"]) == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_place_that_can_not_be_written_is_named():
    with pytest.raises(LbnnError, match="can't write /proc/"):
        write_file("/proc/lbnn/x", "")
    with pytest.raises(LbnnError, match="can't write /dev/null/"):
        write_folder("/dev/null/x", NEW)


def test_kinds_are_not_mixed_up(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(LbnnError, match="is a file; name a folder"):
        write_folder(tmp_path / "file", NEW, force=True)
    with pytest.raises(LbnnError, match="is a folder; name a file"):
        write_file(tmp_path, "new", force=True)


def test_a_symbolic_link_is_replaced_not_followed(tmp_path):
    (tmp_path / "precious").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    write_file(tmp_path / "link", "new", force=True)
    assert (tmp_path / "precious").read_text() == "old" and not (tmp_path / "link").is_symlink()


def test_a_link_counts_as_output_wherever_it_leads(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for write in (
        lambda **k: write_file(tmp_path / "link", "new", **k),
        lambda **k: write_folder(tmp_path / "link", NEW, **k),
    ):
        with pytest.raises(LbnnError, match="exists; choose another place"):
            write()
    assert contents(write_folder(tmp_path / "link", NEW, force=True)) == {"a.c": "new", "src/b.h": "new"}


def test_a_file_that_came_meanwhile_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_umask", lambda: (tmp_path / "out").write_text("theirs") and 0)
    with pytest.raises(LbnnError, match=r"can't write .*out: File exists"):
        write_file(tmp_path / "out", "ours")
    assert (tmp_path / "out").read_text() == "theirs" and len(list(tmp_path.iterdir())) == 1


def test_a_file_system_without_hard_links_is_written_too(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert write_file(tmp_path / "out", "ours").read_text() == "ours"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_the_longest_names_are_written(tmp_path):
    assert write_file(tmp_path / ("n" * 255), "new").read_text() == "new"
    assert contents(write_folder(tmp_path / ("模" * 85), NEW)) == {"a.c": "new", "src/b.h": "new"}


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 300], ids=["zero byte", "surrogate", "too long"])
def test_names_that_no_file_can_have_are_one_line(name, tmp_path):
    for write in (lambda p: write_file(p, "new"), lambda p: write_folder(p, NEW)):
        with pytest.raises(LbnnError, match="can't write"):
            write(tmp_path / name)


def test_exports_at_once_into_one_folder_leave_one_of_them_whole(tmp_path):
    def attempt(i):
        with contextlib.suppress(LbnnError):
            write_folder(tmp_path / "out", {f"{j}.c": str(i) for j in range(30)}, force=True)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(attempt, range(40)))
    written = contents(tmp_path / "out")
    assert len(written) == 30 and len(set(written.values())) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


LOOP = """
import sys
from lbnn.base.files import write_folder
print("ready", flush=True)
while True:
    write_folder(sys.argv[1], {f"{i}.c": "x" * 1000 for i in range(50)}, force=True)
"""


def test_a_process_killed_while_writing_leaves_a_whole_folder(tmp_path):
    out = tmp_path / "out"
    for i in range(6):
        with subprocess.Popen([sys.executable, "-c", LOOP, str(out)], stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(0.05 + 0.013 * i)
            os.kill(process.pid, signal.SIGKILL)
        if out.exists():
            assert len(contents(out)) == 50
    assert out.exists()


def test_unicode_names_are_written(tmp_path):
    assert Path(write_folder(tmp_path / "mödel 模型", NEW)).is_dir()
