"""Devices that run a generated model: this host, another machine, an emulated core, an emulated board.

`run_model(device, model, inputs)` is the whole interface for those who want numbers and what they cost; DEVICES lists
what there is, which follows from the tables of compilers, cores and boards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.base.temporary import temporary_folder
from lbnn.device.avr import AVR_BOARDS, SimavrDevice
from lbnn.device.boards import BOARDS, Board
from lbnn.device.compilers import HOST_TOOLCHAINS
from lbnn.device.cores import CORES, Core
from lbnn.device.emulated import QemuDevice, UnicornDevice
from lbnn.device.firmware import CROSS_COMPILERS
from lbnn.device.generated import GeneratedModel
from lbnn.device.hosts import HostDevice, SanitizedDevice
from lbnn.device.machines import MACHINES, MachineDevice
from lbnn.device.results import DeviceResult, Image


class Device(Protocol):
    """A compiler and a place to run what it makes."""

    @property
    def name(self) -> str:
        """As in DEVICES."""

    def missing(self) -> str:
        """What to install to use it; nothing where it is ready."""

    def available(self) -> bool:
        """Whether it is ready."""

    def build(self, model: GeneratedModel, out: Path, flags: Iterable[str] = ()) -> Image:
        """Compiles a model, with files of its own in the folder `out`."""


def _host_devices() -> Iterator[Device]:
    yield HostDevice("c", HOST_TOOLCHAINS["host"])
    yield from (HostDevice(f"c-{name}", tool) for name, tool in HOST_TOOLCHAINS.items() if name != "host")
    yield SanitizedDevice("c-sanitized", HOST_TOOLCHAINS["host"])
    yield from (MachineDevice(f"c-{name}", machine) for name, machine in MACHINES.items())


def list_devices(cores: Iterable[Core], boards: Iterable[Board]) -> dict[str, Device]:
    """Every device by name: this host with each compiler, other machines, emulated cores, boards of QEMU and simavr."""
    emulated = [core for core in cores if core.unicorn]
    devices: list[Device] = [
        *_host_devices(),
        *(
            UnicornDevice(core.name + compiler.suffix, core, compiler)
            for compiler in CROSS_COMPILERS.values()
            for core in emulated
            if compiler.knows(core)
        ),
        *(QemuDevice(board) for board in boards),
        *map(SimavrDevice, AVR_BOARDS.values()),
    ]
    return {device.name: device for device in devices}


DEVICES: Mapping[str, Device] = list_devices(CORES.values(), BOARDS.values())


def find_device(name: str) -> Device:
    """The device called `name`, which must be ready for use."""
    if name not in DEVICES:
        raise LbnnError(f"unknown device '{name}'; known are {', '.join(DEVICES)}")
    if missing := DEVICES[name].missing():
        raise LbnnError(f"device '{name}' needs: {missing}")
    return DEVICES[name]


def run_model(
    device: str | Device,
    model: GeneratedModel,
    inputs: Floats,
    input_variance: Floats | None = None,
    flags: Iterable[str] = (),
    profile: bool = False,
) -> DeviceResult:
    """Compiles a generated model for `device` and predicts `inputs` [n, input_len] there."""
    chosen = find_device(device) if isinstance(device, str) else device
    samples = _samples(model, inputs, input_variance)
    with temporary_folder() as folder:
        return chosen.build(model, folder, tuple(flags)).run(samples, profile)


def _samples(model: GeneratedModel, inputs: Floats, input_variance: Floats | None) -> list[Floats]:
    """What the model's predict takes, as arrays whose memory it can read."""
    if model.input_variance != (input_variance is not None):
        wants = "an input variance" if model.input_variance else "no input variance"
        raise LbnnError(f"model {model.name} was generated for {wants}; export it again or call it accordingly")
    samples = [np.ascontiguousarray(x, np.float32) for x in (inputs, input_variance) if x is not None]
    wanted = (len(inputs), model.input_len)
    for array in samples:
        if array.shape != wanted:
            raise LbnnError(f"inputs have shape {array.shape}, but {model.name} wants {wanted}")
    return samples
