"""The table of backends: which a command takes, and what is said of one that is not there."""

import subprocess
import sys
from dataclasses import replace

import pytest

from lbnn import LbnnError
from lbnn.cli.program import COMMANDS
from lbnn.measure.backends import BACKENDS, DEFAULTS, choose_backends, default_backends


def test_an_unknown_or_missing_backend_is_refused(monkeypatch):
    with pytest.raises(LbnnError, match="unknown backend 'gpu'"):
        choose_backends(["gpu"], "verify")
    monkeypatch.setitem(BACKENDS, "c", replace(BACKENDS["c"], missing=lambda: "apt install it"))
    with pytest.raises(LbnnError, match="backend 'c' is not available here: apt install it"):
        choose_backends(["c"], "verify")
    names, lacking = choose_backends(None, "verify")
    assert "c" not in names and lacking == {"c": "apt install it"}


def test_the_defaults_are_backends_and_commands_that_there_are():
    commands = {command for commands in DEFAULTS.values() for command in commands}
    assert set(DEFAULTS) <= set(BACKENDS)
    assert commands == {"verify", "bench", "report", "demo"} <= {command.name for command in COMMANDS}


def test_each_command_has_its_own_choice_in_the_order_of_the_table():
    order = list(DEFAULTS)
    for command in ("verify", "bench", "report", "demo"):
        chosen = default_backends(command)
        assert [order.index(name) for name in chosen] == sorted(order.index(name) for name in chosen)
        assert chosen[:3] == ("torch", "onnx", "c")
    assert "c-sanitized" in default_backends("verify") and "c-sanitized" not in default_backends("bench")
    assert default_backends("demo") == ("torch", "onnx", "c", "cortex-m4")


def test_the_table_needs_no_package_that_may_be_missing():
    script = "import sys, lbnn.measure.backends; sys.exit(any(name in sys.modules for name in ('onnx', 'onnxruntime')))"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
