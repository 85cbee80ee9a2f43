"""Outputs appear whole or not at all, whatever goes wrong while they are written."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
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
    monkeypatch.setattr(files, "_sync", lambda handle: (tmp_path / "out").write_text("theirs"))
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


KILLED = """
import os, signal, sys
from lbnn.base import files

out, moment = sys.argv[1], int(sys.argv[2])

def count(event, args):
    global moment
    if any(os.path.dirname(out) in str(arg) for arg in args):
        moment -= 1
        if not moment:
            os.kill(os.getpid(), signal.SIGKILL)

files._exchange = lambda a, b: False
sys.addaudithook(count)
files.write_folder(out, {f"{i}.c": "new" for i in range(2)}, force=True)
"""


def test_a_process_killed_where_folders_can_not_be_exchanged_leaves_the_old_one_or_the_new_one(tmp_path):
    """The moment in which neither has its name ends with the next output that is written there."""
    old, new = {"a.c": "old"}, {f"{i}.c": "new" for i in range(2)}
    found, missing, moment, status = [], 0, 0, -signal.SIGKILL
    while status == -signal.SIGKILL:
        out, moment = tmp_path / str(moment) / "out", moment + 1
        write_folder(out, old)
        status = subprocess.run([sys.executable, "-c", KILLED, str(out), str(moment)]).returncode
        missing += not out.exists()
        write_file(out.parent / "other", "")
        assert sorted(path.name for path in out.parent.iterdir()) == ["other", "out"], moment
        found.append(contents(out))
    assert status == 0 and moment > 20 and missing
    assert all(one in (old, new) for one in found) and found[0] == old and found[-1] == new


# The order in which things reach the disk


class Disk:
    """Records what is flushed (with its length), named and removed, in order, by inode."""

    def __init__(self, monkeypatch) -> None:
        self.calls = []
        fsync, rmtree = os.fsync, shutil.rmtree
        replace, link, exchange = Path.replace, Path.hardlink_to, files._exchange
        monkeypatch.setattr(os, "fsync", lambda handle: self.flushed(handle) or fsync(handle))
        monkeypatch.setattr(shutil, "rmtree", lambda path, **k: self.note("removed", path) or rmtree(path, **k))
        monkeypatch.setattr(Path, "replace", lambda a, b: (replace(a, b), self.note("named", b)))
        monkeypatch.setattr(Path, "hardlink_to", lambda a, b: (link(a, b), self.note("named", a)))
        monkeypatch.setattr(files, "_exchange", lambda a, b: exchange(a, b) and (self.note("named", b) or True))

    def flushed(self, handle) -> None:
        status = os.fstat(handle)
        self.calls.append(("flushed", status.st_ino, status.st_size))

    def note(self, what, path) -> None:
        self.calls.append((what, path.lstat().st_ino, 0))

    def when(self, what, path) -> list[int]:
        status = path.lstat()
        size = status.st_size if what == "flushed" and path.is_file() else None
        return [i for i, call in enumerate(self.calls) if call[:2] == (what, status.st_ino) and size in (None, call[2])]


WRITES = {
    "a new file": lambda out: write_file(out, "new"),
    "a forced file": lambda out: [write_file(out, "old"), write_file(out, "newer", force=True)],
    "a new folder": lambda out: write_folder(out, NEW),
    "a forced folder": lambda out: [write_folder(out, {"a.c": "old"}), write_folder(out, NEW, force=True)],
}


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two steps"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_an_output_is_on_the_disk_before_it_has_its_name_and_the_name_before_the_old_one_goes(
    write, exchange, tmp_path, monkeypatch
):
    """So that a power cut at any moment leaves the old or the new."""
    if not exchange:
        monkeypatch.setattr(files, "_exchange", lambda a, b: False)
    disk, out = Disk(monkeypatch), tmp_path / "out"
    write(out)
    (named,) = disk.when("named", out)
    for part in [out, *out.rglob("*")]:
        assert any(moment < named for moment in disk.when("flushed", part)), part
    kept = next(moment for moment in disk.when("flushed", tmp_path) if moment > named)
    removed = [i for i, call in enumerate(disk.calls) if call[0] == "removed" and i > named]
    assert all(moment > kept for moment in removed) and bool(removed) == out.is_dir()


def test_a_file_that_can_not_be_flushed_is_an_error_but_not_where_there_is_no_flush(tmp_path, monkeypatch):
    for number, wrong in ((errno.EIO, True), (errno.ENOSPC, True), (errno.EINVAL, False), (errno.ENOTSUP, False)):

        def refuse(handle, number=number):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(LbnnError, match="can't write") if wrong else contextlib.nullcontext():
            write_file(tmp_path / str(number), "new")
        assert (tmp_path / str(number)).exists() != wrong


def test_unicode_names_are_written(tmp_path):
    assert Path(write_folder(tmp_path / "mödel 模型", NEW)).is_dir()
