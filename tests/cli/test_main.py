"""The command line: its commands, exit codes, and one line on stderr for bad input."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lbnn
from lbnn.cli.program import COMMANDS, cli
from places import ROOT
from shell import fails_in_one_line, run

SHARED = {"__init__", "__main__", "main", "ending", "program", "command", "ranks"}


def test_every_module_is_a_command_of_the_table_or_belongs_to_one():
    """A module that no command runs is named here: put its command into COMMANDS of lbnn/cli/program.py."""
    modules = {path.stem for path in (ROOT / "lbnn" / "cli").glob("*.py")} - SHARED
    names = {command.name for command in COMMANDS}
    assert sorted(modules - {module for module in modules if module.split("_")[0] in names}) == []
    assert {name: f"lbnn.cli.{name}" for name in names} == {c.name: c.callback.__module__ for c in COMMANDS}


def test_a_command_is_offered_by_being_in_the_table():
    assert dict(cli.commands) == {command.name: command for command in COMMANDS}


@pytest.mark.parametrize("module", ["lbnn.cli", "lbnn.cli.main"])
def test_the_module_is_the_program(module):
    done = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True)
    assert done.stdout == run("--help").stdout != ""


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_help_has_an_example(command):
    result = run(command, "--help")
    assert result.returncode == 0
    assert f"lbnn {command}" in result.stdout.split("Example:")[1]


def test_version_is_the_packages():
    assert run("--version").stdout.strip() == f"lbnn, version {lbnn.__version__}"


def test_shell_completion_knows_the_commands():
    words = {"_LBNN_COMPLETE": "bash_complete", "COMP_WORDS": "lbnn ex", "COMP_CWORD": "1"}
    script = Path(sys.executable).parent / "lbnn"
    assert (
        subprocess.run([script], env={**os.environ, **words}, capture_output=True, text=True).stdout == "plain,export\n"
    )


def test_help_does_not_wait_for_torch():
    script = "import sys, lbnn.cli.program; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["inspect", "nowhere.pt"], "nowhere.pt"),
        (["inspect", "."], "."),
        (["verify", "nowhere.pt"], "nowhere.pt"),
        (["export", "nowhere.pt", "--target", "c"], "nowhere.pt"),
        (["export", "nowhere.pt"], "--target"),
        (["export", "nowhere.pt", "--target", "tflite"], "'tflite' is not one of"),
        (["verify", "nowhere.pt", "--samples", "none"], "'none' is not a valid integer"),
        (["verify", "nowhere.pt", "--backends", "gpu"], "unknown backend 'gpu'"),
        (["frobnicate"], "No such command"),
    ],
)
def test_bad_usage_is_one_line_and_status_2(words, message, tmp_path):
    fails_in_one_line(run(*words, cwd=tmp_path), message)


def test_a_file_that_is_no_model_is_refused(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"not a model")
    for command in (["inspect", path], ["verify", path], ["export", path, "--target", "c"]):
        fails_in_one_line(run(*command), "model.pt")


def test_output_into_a_file_as_folder_is_refused(model, tmp_path):
    (tmp_path / "file").write_text("x")
    fails_in_one_line(run("export", model, "--target", "c", "-o", tmp_path / "file" / "c"), "can't write")


def test_a_terminal_sees_a_table_and_a_pipe_plain_text(model):
    assert "│" not in run("inspect", model).stdout


def test_console_script_is_the_same_program():
    script = Path(sys.executable).parent / "lbnn"
    assert subprocess.run([script, "--version"], capture_output=True, text=True).stdout == run("--version").stdout
