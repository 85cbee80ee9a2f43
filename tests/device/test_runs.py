"""A program runs in its folder to its end, or is stopped."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lbnn.device.runs import EmulationFault, run_program


def test_status_and_messages_come_back_and_files_are_in_the_folder(tmp_path: Path) -> None:
    script = "import sys; open('made', 'w').close(); sys.stderr.write('words'); sys.exit(5)"
    done = run_program("python", (sys.executable, "-c", script), tmp_path)
    assert (done.status, done.stderr) == (5, "words")
    assert (tmp_path / "made").exists()


def test_a_program_that_does_not_end_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(EmulationFault, match=r"sleeper: the program did not end within 0\.2 s"):
        run_program("sleeper", (sys.executable, "-c", "import time; time.sleep(60)"), tmp_path, timeout=0.2)


FAMILY = 'sleep 1000 & echo $! > "$0"; wait'


def test_what_interrupts_the_wait_ends_the_program_and_all_that_it_started(tmp_path: Path, monkeypatch) -> None:
    """A compiler is a driver that starts others; left alone they would go on writing where nothing is any more."""
    os.mkfifo(tmp_path / "child")
    started = []

    def interrupted(process, **_):
        started.extend((process.pid, int((tmp_path / "child").read_text())))
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_program("family", ("sh", "-c", FAMILY, "child"), tmp_path)
    deadline = time.monotonic() + 60
    while any(map(lives, started)) and time.monotonic() < deadline:
        os.sched_yield()
    assert not any(map(lives, started))


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
