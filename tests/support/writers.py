"""The commands that write, a folder with what they need, and processes that may not."""

import ctypes
import resource
import signal
from pathlib import Path

import torch

import lbnn
from lbnn import nn as bnn

QUICK = ["--backends", "torch", "--samples", "7"]
WRITERS = {
    "export c": (["export", "gas_sensor.pt", "--target", "c", "-o", "out"], "out"),
    "export onnx": (["export", "gas_sensor.pt", "--target", "onnx", "-o", "out.onnx"], "out.onnx"),
    "train": (["train", "data.csv", "--target", "y", "--hidden", "4", "--epochs", "1", "-o", "new.pt"], "new.pt"),
    "report": (["report", "gas_sensor.pt", *QUICK, "-o", "page.html"], "page.html"),
}
"""The commands that write, and where."""


def network() -> bnn.Sequential:
    torch.manual_seed(0)
    return bnn.Sequential(bnn.Linear(3, 8), bnn.LeakyReLU(0.1), bnn.Linear(8, 1))


def fill(folder: Path) -> Path:
    """A model and data."""
    lbnn.save(network(), folder / "gas_sensor.pt", input_shape=(3,))
    (folder / "data.csv").write_text("a,y\n" + "".join(f"{i},{i % 7}\n" for i in range(20)))
    return folder


def small_files() -> None:
    """No file of this process may grow beyond 2000 bytes: what a full disk does, for anybody."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


def without_privileges() -> None:
    """Gives up what lets root ignore permissions: an empty set of Linux capabilities."""
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, none) == 0
