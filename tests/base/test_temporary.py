"""What is temporary goes: with its process, or if that was killed when the next one comes; and nothing else does."""

import os
import signal
import subprocess
import sys

import pytest

from lbnn.base import temporary
from lbnn.base.temporary import KEPT, held_file, held_folder, remove_all, sweep, temporary_folder

TOKEN = "0123456789abcdef"
HOLDING = {"file": held_file, "folder": held_folder}

HOLDER = """
import sys
from pathlib import Path
from lbnn.base import temporary
with getattr(temporary, sys.argv[1])(Path(sys.argv[2]), "out"):
    print("held", flush=True)
    sys.stdin.readline()
"""


def holder(kind, folder):
    """Another process that holds a temporary place in a folder."""
    words = [sys.executable, "-c", HOLDER, f"held_{kind}", str(folder)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    return process


@pytest.mark.parametrize("hold", HOLDING.values(), ids=HOLDING)
def test_a_place_lasts_as_long_as_it_is_held(hold, tmp_path):
    with hold(tmp_path, "out"):
        (path,) = tmp_path.iterdir()
        assert path.name.startswith(".out.lbnn-")
    assert not path.exists()
    with pytest.raises(KeyboardInterrupt), hold(tmp_path, ""):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", HOLDING)
def test_what_a_living_process_holds_stays_and_what_a_killed_one_held_goes(kind, tmp_path):
    with holder(kind, tmp_path) as process:
        before = list(tmp_path.iterdir())
        sweep(tmp_path)
        assert list(tmp_path.iterdir()) == before and len(before) == 1
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert list(tmp_path.iterdir()) == before
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_this_process_holds_is_not_swept_by_itself(tmp_path):
    with held_folder(tmp_path, "a") as folder, held_file(tmp_path, "b") as (file, _):
        sweep(tmp_path)
        assert folder.exists() and file.exists()


NAMES = [
    ".out.swp", ".lbnn", f"out.lbnn-{TOKEN}", f".out.lbnn-{TOKEN}.txt", f".out.lbnn-{TOKEN.upper()}",
    f".out.lbnn-{TOKEN[1:]}", f".out.lbnn-{TOKEN}0", f".out-lbnn-{TOKEN}", f"lbnn-{TOKEN}", ".out.abcd1234",
]  # fmt: skip


def test_no_other_name_is_ever_swept(tmp_path):
    for name in NAMES:
        (tmp_path / name).write_text("the user's")
        (tmp_path / f"{name}.d").mkdir()
    sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2 * len(NAMES)


def test_links_and_pipes_are_not_swept(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("old")
    (tmp_path / f".a.lbnn-{TOKEN}").symlink_to("precious")
    os.mkfifo(tmp_path / f".b.lbnn-{TOKEN}")
    sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3 and (tmp_path / "precious" / "file").exists()


def litter(folder):
    """A file and a folder as a killed process leaves them."""
    (folder / f".a.lbnn-{TOKEN}").write_text("half")
    (folder / f".b.lbnn-{TOKEN}" / "new").mkdir(parents=True)


def test_what_belongs_to_another_user_stays(tmp_path, monkeypatch):
    litter(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_locks_places_are_held_as_well_and_nothing_is_swept(tmp_path, monkeypatch):
    def refuse(handle):
        raise OSError("no locks here")

    monkeypatch.setattr(temporary, "_flock", refuse)
    litter(tmp_path)
    with held_folder(tmp_path, "out") as folder:
        sweep(tmp_path)
        assert folder.exists()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_place_that_was_swept_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    """Another process may find it in that moment."""
    lock, swept = temporary._flock, []

    def sweep_first(handle):
        if not swept:
            swept.append(handle)
            sweep(tmp_path)
        lock(handle)

    monkeypatch.setattr(temporary, "_flock", sweep_first)
    with held_folder(tmp_path, "out") as folder:
        assert swept and [folder] == list(tmp_path.iterdir())


@pytest.mark.parametrize("there", [False, True], ids=["its place is empty", "the new one is there"])
def test_an_old_output_that_a_killed_process_had_put_aside_comes_back(there, tmp_path):
    kept = tmp_path / f".out.lbnn-{TOKEN}" / KEPT / "out"
    kept.mkdir(parents=True)
    (kept / "a.c").write_text("old")
    if there:
        (tmp_path / "out").mkdir()
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "a.c").exists() != there


def test_at_its_end_a_process_removes_all_it_made_but_nothing_of_its_parent(tmp_path):
    (path, handle) = temporary._make(tmp_path, "out", temporary._make_folder)
    child = os.fork()
    if not child:
        remove_all()
        os._exit(0)
    os.waitpid(child, 0)
    assert path.exists()
    remove_all()
    assert not path.exists()
    os.close(handle)


def test_the_systems_folder_is_swept_when_it_is_first_used(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary.tempfile, "tempdir", str(tmp_path))
    temporary._system_folder.cache_clear()
    litter(tmp_path)
    try:
        with temporary_folder() as folder:
            assert list(tmp_path.iterdir()) == [folder] and folder.stat().st_mode & 0o777 == 0o700
    finally:
        temporary._system_folder.cache_clear()


CROWD = """
import sys
from pathlib import Path
from lbnn.base.temporary import held_folder, sweep
parent = Path(sys.argv[1])
for i in range(150):
    with held_folder(parent, "out") as folder:
        sweep(parent)
        (folder / "mine").write_text("")
        sweep(parent)
        assert (folder / "mine").exists()
"""


def test_processes_at_once_never_take_a_place_from_each_other(tmp_path):
    crowd = [subprocess.Popen([sys.executable, "-c", CROWD, str(tmp_path)]) for _ in range(4)]
    assert [process.wait() for process in crowd] == [0] * 4
    assert list(tmp_path.iterdir()) == []
