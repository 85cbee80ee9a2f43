"""A model computes the same bits on the host, on every emulated core and on every board, at a counted cost."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lbnn.base.errors import LbnnError
from lbnn.device.avr import AVR_BOARDS
from lbnn.device.boards import BOARDS
from lbnn.device.compilers import HOST_TOOLCHAINS
from lbnn.device.cores import CORES
from lbnn.device.devices import DEVICES, find_device, list_devices, run_model
from lbnn.device.generated import GeneratedModel
from lbnn.device.machines import MACHINES
from lbnn.device.results import DeviceResult
from places import need
from tiny_net import READY, SOURCE, need_device, write_net


def bits(values: np.ndarray) -> np.ndarray:
    return values.view(np.uint32)


@pytest.mark.parametrize("name", READY)
def test_every_device_computes_the_bits_of_the_host(
    name: str, net: GeneratedModel, samples: np.ndarray, host: DeviceResult
) -> None:
    result = run_model(need_device(name), net, samples)
    assert np.array_equal(bits(result.mean), bits(host.mean))
    assert np.array_equal(bits(result.variance), bits(host.variance))
    assert not result.status.any() and result.work_bytes == 24


@pytest.mark.parametrize(
    "name", ["c", "c-sanitized", "c-s390x", "c-x86", "cortex-m0", "cortex-m4", "rv32imafc", "mps2-an386"]
)
def test_input_variances_reach_the_model(name: str, tmp_path: Path, samples: np.ndarray) -> None:
    model = write_net(tmp_path, input_variance=True)
    plain = run_model(need_device(name), model, samples, np.zeros_like(samples))
    shifted = run_model(name, model, samples, np.full_like(samples, 2.0))
    assert np.array_equal(shifted.variance, plain.variance + np.float32(2.0))


@pytest.mark.parametrize("name", ["c", "c-sanitized", "c-s390x", "cortex-m3", "mps2-an385"])
def test_the_status_of_each_sample_comes_back(name: str, net: GeneratedModel) -> None:
    inputs = np.array([[1, 2, 3], [np.nan, 2, 3], [4, 5, 6]], np.float32)
    assert run_model(need_device(name), net, inputs).status.tolist() == [0, -2, 0]


@pytest.mark.parametrize("name", ["cortex-m0", "cortex-m4", "rv32imafc", "cortex-m3-gcc", "cortex-m4-gcc"])
def test_the_profile_charges_each_layer_its_kernels_inlined_or_called(
    name: str, net: GeneratedModel, samples: np.ndarray
) -> None:
    result = run_model(need_device(name), net, samples[:10], profile=True)
    total = result.instructions.sum()
    assert sum(result.lines.values()) == sum(result.functions.values()) == total
    text = net.source.read_text().splitlines()
    layers = {number: result.lines[number] for number, line in enumerate(text, 1) if "/* layer" in line}
    divisions, products = 10 * 3, 10 * 6 * 3
    assert all(cost > least for cost, least in zip(layers.values(), (divisions, products), strict=True))
    assert sum(layers.values()) > 0.7 * total


def test_flags_of_the_caller_win(net: GeneratedModel, samples: np.ndarray) -> None:
    need("arm-none-eabi-gcc")
    plain, slow, fused = (
        run_model("cortex-m4-gcc", net, samples[:1], flags=flags)
        for flags in ((), ("-O0",), ("-O2", "-std=gnu99", "-fno-math-errno"))
    )
    assert fused.instructions[0] < plain.instructions[0] < slow.instructions[0]  # gnu99 fuses multiply and add


def test_an_unknown_device_and_a_missing_one_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LbnnError, match=r"unknown device 'cortex-m9'; known are c, .*mps2-an386"):
        find_device("cortex-m9")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(LbnnError, match=r"'mps2-an386' needs: apt install gcc-arm-none-eabi .*; apt install qemu"):
        find_device("mps2-an386")


def test_inputs_of_the_wrong_shape_are_refused(net: GeneratedModel) -> None:
    with pytest.raises(LbnnError, match=r"inputs have shape \(2, 4\), but net wants \(2, 3\)"):
        run_model("c", net, np.zeros((2, 4), np.float32))


def test_a_model_takes_input_variances_exactly_where_it_was_generated_for_them(net: GeneratedModel) -> None:
    inputs = np.zeros((2, 3), np.float32)
    with pytest.raises(LbnnError, match="net was generated for no input variance"):
        run_model("c", net, inputs, inputs)
    with pytest.raises(LbnnError, match="net was generated for an input variance"):
        run_model("c", replace(net, input_variance=True), inputs)


WEIGHTS = """
    .section .rodata
    .balign 4
    .globl net_weights
net_weights:
    .incbin "net_weights.bin"
"""


@pytest.mark.parametrize("name", ["c", "cortex-m4", "rv32imac", "cortex-m0-gcc"])
def test_weights_in_a_file_of_their_own_reach_the_model(
    name: str, tmp_path: Path, samples: np.ndarray, host: DeviceResult
) -> None:
    declared = SOURCE.replace("static const float net_weights[6] = {", "extern const float net_weights[6]; //")
    model = write_net(tmp_path, source=declared)
    (tmp_path / "net_weights.S").write_text(WEIGHTS)
    (tmp_path / "net_weights.bin").write_bytes(np.array([0.5, -1.25, 3, 0.1, 2, 0.3], "<f4").tobytes())
    assert np.array_equal(bits(run_model(need_device(name), model, samples).mean), bits(host.mean))


# ---- the table follows from the others ---------------------------------------------------------------


def test_every_compiler_core_and_board_is_a_device() -> None:
    hosts = {"c", "c-sanitized", *(f"c-{name}" for name in (*HOST_TOOLCHAINS, *MACHINES) if name != "host")}
    cores = {name for name, core in CORES.items() if core.unicorn}
    assert set(DEVICES) == hosts | cores | {f"{name}-gcc" for name in cores} | set(BOARDS) | set(AVR_BOARDS)
    assert [name for name, device in DEVICES.items() if device.name != name] == []


@pytest.mark.parametrize(
    ("changed", "added"),
    [
        ({}, {"new", "new-gcc"}),
        ({"zig_cpu": None}, {"new-gcc"}),
        ({"unicorn": None}, set()),
    ],
)
def test_a_row_for_a_core_adds_the_devices_that_its_tools_allow(changed: dict[str, None], added: set[str]) -> None:
    core = replace(CORES["cortex-m4"], name="new", **changed)
    assert set(list_devices([*CORES.values(), core], BOARDS.values())) - set(DEVICES) == added


def test_a_row_for_a_board_adds_a_device() -> None:
    board = replace(BOARDS["microbit"], name="new")
    assert set(list_devices(CORES.values(), [*BOARDS.values(), board])) - set(DEVICES) == {"new"}
