"""How a command ends that is ended from outside: quietly, with the status that shells know, whatever it was doing."""

import json
import os
import signal
import subprocess
import sys

import pytest

from commands import lbnn as command
from commands import nothing, tree
from places import TESTS


def test_a_signal_while_modules_load_ends_at_once_with_one_line(model, tmp_path):
    """From the first import of the command line to the last one of torch's hundreds."""
    script, notes = TESTS / "support" / "struck_imports.py", tmp_path / "notes"
    words = [sys.executable, script, notes, "23", "inspect", model]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    assert done.returncode == 0 and "Cortex" in done.stdout, done
    ended = [json.loads(line) for line in notes.read_text().splitlines()]
    assert len(ended) > 50
    assert {tuple(end) for end in ended} == {
        (signal.SIGINT, 130, "lbnn: interrupted\n"),
        (signal.SIGTERM, 143, "lbnn: ended by SIGTERM\n"),
        (signal.SIGHUP, 129, "lbnn: ended by SIGHUP\n"),
    }


def ignored_and_struck() -> None:
    """What nohup does, and then the terminal goes while the command reads its model."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)

    def strike(event, args):
        if event == "open" and "gas_sensor" in str(args[0]):
            for number in (signal.SIGHUP, signal.SIGINT):
                os.kill(os.getpid(), number)

    sys.addaudithook(strike)


def test_signals_that_are_ignored_from_outside_stay_ignored(model):
    ended = command("inspect", model, folder=model.parent, before=ignored_and_struck)
    assert (ended.status, ended.stderr) == (0, "")


# Streams


CLOSED = {"stdout": ">&-", "stderr": "2>&-", "stdin": "<&-", "stdout and stderr": ">&- 2>&-", "all": "<&- >&- 2>&-"}


@pytest.mark.parametrize("streams", CLOSED.values(), ids=CLOSED)
@pytest.mark.parametrize("words, status", [("--version", 0), ("frobnicate", 2)])
def test_closed_streams_are_no_error(streams, words, status):
    line = f'"{sys.executable}" -m lbnn.cli {words} {streams}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert done.returncode == status
    said = {">&-": ("", done.stderr), "2>&-": (done.stdout, ""), "<&-": (done.stdout, done.stderr)}
    assert (done.stdout, done.stderr) == said.get(streams, ("", ""))
    assert (done.stdout + done.stderr).count("\n") == (streams in ("<&-", "2>&-" if status == 0 else ">&-"))


def test_what_a_command_writes_does_not_depend_on_its_streams(model, tmp_path):
    """A file that is opened first would get the number of a closed stream, and what is printed with it."""
    words = f'"{sys.executable}" -m lbnn.cli export "{model}" --target c -o out <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", words], cwd=tmp_path).returncode == 0
    (tmp_path / "open").mkdir()
    assert command("export", model, "--target", "c", "-o", "out", folder=tmp_path / "open").status == 0
    assert tree(tmp_path / "open" / "out") == tree(tmp_path / "out")


def reader_gone() -> None:
    """stdout is a pipe that nobody reads."""
    read, write = os.pipe()
    os.close(read)
    os.dup2(write, 1)
    sys.stdout = os.fdopen(1, "w", closefd=False)


def test_a_reader_that_has_gone_is_141_not_the_status_of_a_failed_check(model):
    for words in (["--help"], ["--version"], ["inspect", model], ["inspect", model, "--json"]):
        ended = command(*words, folder=model.parent, before=reader_gone)
        assert (ended.status, ended.stderr) == (141, ""), words


@pytest.mark.parametrize("before, status", [(reader_gone, 141), (nothing, 1)], ids=["reader gone", "read"])
def test_a_check_that_fails_is_1_only_where_its_answer_is_read(model, before, status):
    words = ["verify", model, "--backends", "torch", "--samples", "1", "--tolerance", "1e-30"]
    assert command(*words, folder=model.parent, before=before).status == status


def test_head_gets_its_line(model):
    line = f'"{sys.executable}" -m lbnn.cli inspect "{model}" | head -1'
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True)
    assert done.returncode in (0, 141) and done.stdout.count("\n") == 1 and done.stderr == ""
