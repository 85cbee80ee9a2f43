"""`lbnn` as a process of its own."""

import subprocess
import sys


def run(*words, cwd=None):
    command = [sys.executable, "-m", "lbnn.cli.main", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)


def fails_in_one_line(result, message):
    assert result.returncode == 2, result
    assert result.stdout == ""
    assert message in result.stderr and result.stderr.count("\n") == 1, result.stderr
