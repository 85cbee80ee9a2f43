"""What the project is built from, and what it may do: pinned, as installed, no code from files, no network."""

import ctypes
import importlib.metadata
import os
import sys
from pathlib import Path

import pytest
import torch

import audit
import lbnn
from commands import Ended, finished, start
from commands import lbnn as command
from lbnn import nn as bnn
from places import ROOT


def test_the_audit_of_the_checkout_finds_nothing():
    """What is installed on this machine, which may differ for its owner's reasons, is looked at by `make audit`."""
    assert audit.audit(["ranges", "source"]) == []


# The audit itself notices what it should


BAD = {
    "eval('1')": "runs text",
    "import builtins\nbuiltins.exec('1')": "runs text",
    "compile('1', 'x', 'exec')": "runs text",
    "import os\nos.system('ls')": "shell",
    "from os import system as s\ns('ls')": "shell",
    "import os\nos.popen('ls')": "shell",
    "import os\nos.execvp('ls', [])": "starts a program",
    "import subprocess as s\ns.run('ls', shell=True)": "shell other than False",
    "from subprocess import Popen\nPopen('ls', shell=1)": "shell other than False",
    "import pickle": "unpickles",
    "from pickle import loads": "unpickles",
    "import shelve, marshal": "unpickles",
    "def f():\n    import socket": "network",
    "from urllib.request import urlopen": "network",
    "import http.client": "network",
    "import torch\ntorch.load('x')": "without weights_only=True",
    "from torch import load\nload('x', weights_only=False)": "without weights_only=True",
    "import numpy as np\nnp.load('x', allow_pickle=True)": "allow_pickle other than False",
    "import torch\ntorch.hub.load('x')": "network",
    "import yaml\nyaml.load('x')": "runs what a file says",
}
GOOD = [
    "import re\nre.compile('x')",
    "import torch\ntorch.load('x', weights_only=True)\ntorch.compile(f)\nmodel.eval()",
    "import numpy as np\nnp.load('x')\nnp.load('x', allow_pickle=False)",
    "import pickletools",
    "'eval(1)'  # exec(2)",
]


@pytest.mark.parametrize("source", BAD)
def test_the_audit_notices_forbidden_source(source):
    assert any(BAD[source] in problem for problem in audit.scan(source, "tools/x.py")), audit.scan(source, "tools/x.py")


@pytest.mark.parametrize("source", GOOD)
def test_the_audit_leaves_ordinary_source_alone(source):
    assert audit.scan(source, "lbnn/x.py") == []


def test_only_listed_modules_of_the_package_start_programs():
    source = "import subprocess\nsubprocess.run(['ls'])"
    assert "PROCESS_STARTERS" in audit.scan(source, "lbnn/train/datafile.py")[0]
    assert audit.scan(source, "lbnn/device/runs.py") == audit.scan(source, "tools/x.py") == []
    starters = {path for path in audit.PROCESS_STARTERS if "subprocess" in (ROOT / path).read_text()}
    assert starters == set(audit.PROCESS_STARTERS), "the list has no module that starts nothing"


@pytest.fixture
def package(tmp_path):
    """A package of two files, as pip leaves it."""
    about = tmp_path / "demo-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    for name in ("demo.py", "data.bin"):
        (tmp_path / name).write_text("12345")
    lines = [f"{name},sha256={audit.digest(tmp_path / name, 'sha256')},5" for name in ("demo.py", "data.bin")]
    unhashed = ["demo-1.0.dist-info/METADATA,,", "demo-1.0.dist-info/RECORD,,", "__pycache__/demo.cpython-311.pyc,,"]
    (about / "RECORD").write_text("\n".join([*lines, *unhashed]) + "\n")
    return tmp_path


def problems(folder: Path) -> list[str]:
    (found,) = importlib.metadata.distributions(path=[str(folder)])
    return [*audit.changed_files(found), *audit.strangers(folder, [found])]


def test_the_audit_names_changed_missing_and_planted_files(package):
    assert problems(package) == []
    (package / "demo.py").write_text("1234x")
    (package / "data.bin").unlink()
    (package / "planted.pth").write_text("import os")
    assert problems(package) == [
        "demo.py has been changed",
        "data.bin is missing",
        "planted.pth belongs to no package",
    ]
    (package / "demo.py").write_text("123456")
    assert "demo.py has 6 bytes, not 5" in problems(package)


@pytest.mark.parametrize(
    ("pin", "problem"),
    [
        ("demo==1.0", ""),
        ("demo==1.1", "demo is pinned ==1.1 but 1.0 is installed"),
        ("other==1.0", "demo 1.0 is installed but not pinned"),
        ("demo>=1.0", "constraints.txt: demo is not pinned to one version"),
    ],
)
def test_the_audit_compares_what_is_installed_with_the_pins(package, monkeypatch, pin, problem):
    (package / "constraints.txt").write_text(f"{pin}  # a comment\n")
    found, pins = audit.installed(package), audit.pinned(package / "constraints.txt")
    monkeypatch.setattr(audit, "installed", lambda: found)
    monkeypatch.setattr(audit, "pinned", lambda path=None: {} if path else pins)
    assert audit.audit(["pins"]) == ([problem] if problem else [])


def test_the_audit_of_files_names_the_package(package, monkeypatch):
    found = audit.installed(package)
    monkeypatch.setattr(audit, "installed", lambda: found)
    assert audit.audit(["files"]) == []
    (package / "data.bin").write_text("more certificates")
    assert audit.audit(["files"]) == ["demo: data.bin has 17 bytes, not 5"]


def test_what_is_needed_follows_requirements_of_requirements(package):
    metadata = package / "demo-1.0.dist-info" / "METADATA"
    metadata.write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nRequires-Dist: demo2; extra == 'x'\n")
    found = audit.installed(package)
    found["demo2"] = found["demo"]
    assert audit.closure(found, [audit.Requirement("demo")]) == {"demo"}
    assert audit.closure(found, [audit.Requirement("demo[x]")]) == {"demo", "demo2"}


# No network


NETWORK = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethost")
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


def offline() -> None:
    """Ends the process at its first use of the network; programs that it starts have none, where the kernel allows."""
    libc = ctypes.CDLL(None)
    if libc.unshare(CLONE_NEWNET) != 0:
        libc.unshare(CLONE_NEWUSER | CLONE_NEWNET)
    sys.addaudithook(lambda event, args: os._exit(77) if event.startswith(NETWORK) else None)


def connecting() -> None:
    """A process that does use the network, to see that it is noticed."""
    offline()
    import socket

    socket.create_connection(("127.0.0.1", 9))


@pytest.fixture
def work(tmp_path):
    torch.manual_seed(0)
    model = bnn.Sequential(bnn.Linear(3, 8), bnn.LeakyReLU(0.1), bnn.Linear(8, 1))
    lbnn.save(model, tmp_path / "model.pt", input_shape=(3,))
    (tmp_path / "data.csv").write_text("a,y\n" + "".join(f"{i},{i % 7}\n" for i in range(20)))
    return tmp_path


def test_the_test_notices_a_connection(work):
    process = start(["--version"], work, work, connecting)
    assert finished(process, work).status == 77


@pytest.mark.parametrize(
    "words",
    [
        "inspect model.pt",
        "export model.pt --target c -o out",
        "export model.pt --target onnx -o out.onnx",
        "verify model.pt --backends torch,onnx,c --samples 7",
        "train data.csv --target y --hidden 4 --epochs 1 -o new.pt",
        "report model.pt --backends torch --samples 7 -o page.html",
        "doctor",
    ],
)
def test_no_command_uses_the_network(work, words):
    ended: Ended = command(*words.split(), folder=work, before=offline)
    assert ended.status == 0, ended
