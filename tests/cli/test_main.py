"""The command line: its commands, exit codes, and one line on stderr for bad input."""

import ast
import os
import re
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


def named_in_messages():
    """(module, line, text, option) of all texts inside a call of LbnnError."""
    for path in sorted((ROOT / "lbnn").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "LbnnError":
                text = " ".join(str(part.value) for part in ast.walk(call) if isinstance(part, ast.Constant))
                for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text):
                    yield path.relative_to(ROOT / "lbnn").as_posix(), call.lineno, text, option


RAISED_BY = {
    "base/files.py": "train predict calibrate export report",
    "exporters/options.py": "export",
    "exporters/c/halves.py": "export verify",
    "measure/bench.py": "bench",
    "measure/class_prediction.py": "predict",
    "measure/prediction.py": "predict",
    "measure/report.py": "report",
    "train/csvfile.py": "train predict calibrate report",
    "train": "train",
}
"""The commands that reach a message, by its module or package. Only `train` chooses columns: models bring theirs."""


def commands_of(module, text):
    """Those that the text names, else those that raise it."""
    named = re.findall(r"\blbnn (\w+)|\b(export) (?:it )?with", text)
    said = {name for pair in named for name in pair if name} & {command.name for command in COMMANDS}
    own = Path(module).stem.split("_")[0] if module.startswith("cli/") else ""
    return said or {*(own or RAISED_BY.get(module) or RAISED_BY.get(module.split("/")[0], "")).split()}


def test_messages_name_options_that_their_own_commands_have():
    have = {c.name: {name for o in c.params for name in (*o.opts, *o.secondary_opts)} for c in COMMANDS}
    named = list(named_in_messages())
    assert len(named) > 40
    wrong = []
    for module, line, text, option in named:
        commands = commands_of(module, text)
        if not commands or any(option not in have[command] for command in commands):
            wrong.append((f"{module}:{line}", option, sorted(commands)))
    assert wrong == []


NO_MODEL = {
    "net.onnx": (b"\x08\x08", "is an ONNX file; give the model file (.pt) that it was exported from"),
    "rows.csv": (b"a,b\n1,2\n", "is a table, not a model; lbnn train makes a model file of it"),
    "picture.png": (b"\x89PNG", "is not an lbnn model, nor a file of torch.save; a model file is what lbnn.save"),
}


@pytest.mark.parametrize("name", NO_MODEL)
def test_another_file_given_as_a_model_is_told_from_one(tmp_path, name):
    data, message = NO_MODEL[name]
    (tmp_path / name).write_bytes(data)
    fails_in_one_line(run("inspect", tmp_path / name), message)
