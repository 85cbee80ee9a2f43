"""A program runs in its folder to its end, or is stopped."""

import sys
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
