"""The command line: exit codes, one line on stderr for bad input, JSON alone on stdout."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import lbnn
from lbnn import nn as bnn


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "gas_sensor.pt"
    return lbnn.save(bnn.Sequential(bnn.Linear(3, 8), bnn.LeakyReLU(0.1), bnn.Linear(8, 1)), path, input_shape=(3,))


def run(*words, cwd=None):
    command = [sys.executable, "-m", "lbnn.cli.main", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)


def fails_in_one_line(result, message):
    assert result.returncode == 2, result
    assert result.stdout == ""
    assert message in result.stderr and result.stderr.count("\n") == 1, result.stderr


@pytest.mark.parametrize("command", ["demo", "train", "export", "verify", "inspect", "bench", "report", "doctor"])
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
    script = "import sys, lbnn.cli.main; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_export_writes_onnx_and_c(model, tmp_path):
    assert run("export", model, "--target", "onnx", "-o", tmp_path / "m.onnx").returncode == 0
    assert (tmp_path / "m.onnx").stat().st_size > 0
    assert run("export", model, "--target", "c", "-o", tmp_path / "c").returncode == 0
    assert {"gas_sensor.h", "gas_sensor.c", "gas_sensor_weights.h"} <= {p.name for p in (tmp_path / "c").iterdir()}


def test_existing_output_is_kept_unless_forced(model, tmp_path):
    target = tmp_path / "m.onnx"
    target.write_text("precious")
    fails_in_one_line(run("export", model, "--target", "onnx", "-o", target), "--force")
    assert target.read_text() == "precious"
    assert run("export", model, "--target", "onnx", "-o", target, "--force").returncode == 0
    assert target.read_bytes() != b"precious"


def test_verify_prints_one_json_object_and_exits_0(model):
    result = run("verify", model, "--backends", "torch,onnx,c", "--samples", 14, "--json")
    report = json.loads(result.stdout)
    assert result.returncode == 0 and report["passed"]
    assert [row["backend"] for row in report["backends"]] == ["torch", "onnx", "c"]


def test_verify_exits_1_when_the_tolerance_is_not_met(model):
    result = run("verify", model, "--backends", "torch", "--tolerance", "1e-12")
    assert result.returncode == 1
    assert "first departs at 0 (linear)" in result.stdout


def test_inspect_lists_layers_and_the_graph(model):
    report = json.loads(run("inspect", model, "--json").stdout)
    assert report["parameters"] == 3 * 8 + 8 + 8 + 1
    assert report["macs"] == 3 * 8 + 8
    assert "linear_point(input" in run("inspect", model, "--graph").stdout
    assert "work buffer" in run("inspect", model, "--plan").stdout


def test_doctor_names_what_is_missing():
    tools = json.loads(run("doctor", "--json").stdout)
    assert {"torch", "qemu-system-arm"} <= {tool["name"] for tool in tools}
    assert all(tool["install"] for tool in tools)


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
