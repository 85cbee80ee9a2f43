"""NAME_predict_q: mantissas in and out are the numbers of NAME_predict, for vectors, maps and input variances."""

import ctypes
import subprocess

import numpy as np
import pytest

from c_models import STRICT, generated
from int_maps import map_network
from int_models import branches
from lbnn.device.cores import CORES
from lbnn.device.devices import run_model
from lbnn.device.firmware import link_for_core
from lbnn.device.unicorn import UnicornMachine
from places import need

EXPONENT, VAR_EXPONENT = -20, -30
MODELS = {
    "vector": lambda: branches(3),
    "maps": lambda: map_network("cnn", "full", 3),
    "maps in branches": lambda: map_network("branches", "rank1", 3),
}


def written(name, folder, variance, dtype="int8"):
    return generated(MODELS[name](), folder, name="net", dtype=dtype, input_variance=variance)


def mantissas(net, count, variance):
    """Means, and variances that are zero now and then; all of them are exact in float."""
    rng = np.random.default_rng(0)
    x = rng.integers(-(2**23), 2**23, (count, net.input_len)).astype(np.int32)
    var = rng.integers(0, 2**23, x.shape).astype(np.int32)
    var[::5] = 0
    return (x, var) if variance else (x,)


def given_to(sample):
    """Arrays of a sample with their exponents, as the function takes them."""
    return [part for pair in zip(sample, (EXPONENT, VAR_EXPONENT), strict=False) for part in pair]


def on_host(net, folder):
    """The function on this machine: a sample's arrays and exponents -> status, mean, exponents, variance, exponents."""
    library = folder / "net.so"
    subprocess.run(["cc", *STRICT, "-O2", "-shared", "-fPIC", net.source, "-o", library], check=True)
    predict = ctypes.CDLL(str(library)).net_predict_q
    arrays, work = [np.zeros(net.output_len, np.int32) for _ in range(4)], np.zeros(net.work_len, np.int32)

    def run(*given):
        held = [np.ascontiguousarray(part) if isinstance(part, np.ndarray) else part for part in given]
        words = [part.ctypes.data_as(ctypes.c_void_p) if isinstance(part, np.ndarray) else part for part in held]
        status = predict(*words, *(array.ctypes.data_as(ctypes.c_void_p) for array in (*arrays, work)))
        return status, *(array.copy() for array in arrays)

    return run


def on_core(net, folder, core):
    """The same on an emulated core."""
    elf = link_for_core(CORES[core], net.sources, folder / "q.elf", ["net_predict_q"], ("-O2",), [net.folder], "gcc")
    machine = UnicornMachine(elf, CORES[core])
    inputs = [machine.alloc(net.input_len, np.int32) for _ in range(2)]
    outputs, work = [machine.alloc(net.output_len, np.int32) for _ in range(4)], machine.alloc(net.work_len, np.int32)

    def run(*given):
        for address, array in zip(inputs, given[::2], strict=False):
            machine.write(address, array)
        words = [inputs[i // 2] if i % 2 == 0 else part for i, part in enumerate(given)]
        status = machine.call("net_predict_q", *words, *outputs, work)
        return status, *(machine.read(address, net.output_len, np.int32) for address in outputs)

    return run


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("variance", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_mantissas_in_and_out_are_the_same_numbers(tmp_path, name, variance, dtype):
    net = written(name, tmp_path, variance, dtype)
    samples = mantissas(net, 20, variance)
    floats = [(part * 2.0**e).astype(np.float32) for part, e in zip(samples, (EXPONENT, VAR_EXPONENT), strict=False)]
    found, predict = run_model("c", net, *floats), on_host(net, tmp_path)
    for i, sample in enumerate(zip(*samples, strict=True)):
        status, *parts = predict(*given_to(sample))
        mean, var = (parts[at].astype(float) * 2.0 ** parts[at + 1].astype(float) for at in (0, 2))
        assert status == 0
        assert np.allclose(mean, found.mean[i], rtol=1e-7) and np.allclose(var, found.variance[i], rtol=3e-7)


@pytest.mark.parametrize("variance", [False, True])
def test_what_is_no_input_is_refused(tmp_path, variance):
    net = written("maps", tmp_path, variance)
    predict, zeros = on_host(net, tmp_path), np.zeros(net.input_len, np.int32)
    good = given_to((zeros, zeros) if variance else (zeros,))
    assert predict(*good)[0] == 0 and predict(None, *good[1:])[0] == -1
    huge = np.full(net.input_len, 2**30, np.int32)
    assert predict(huge, 120, *good[2:])[0] == -2
    if variance:
        assert predict(*good[:2], None, good[3])[0] == -1 and predict(*good[:2], huge, 120)[0] == -2
        assert predict(*good[:2], zeros - 1, VAR_EXPONENT)[0] == -2


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4"])
@pytest.mark.parametrize("name", MODELS)
def test_a_core_gives_the_same_mantissas(tmp_path, name, core):
    need("arm-none-eabi-gcc")
    net = written(name, tmp_path, True)
    here, there = on_host(net, tmp_path), on_core(net, tmp_path, core)
    for sample in zip(*mantissas(net, 6, True), strict=True):
        pairs = zip(here(*given_to(sample)), there(*given_to(sample)), strict=True)
        assert all(np.array_equal(one, other) for one, other in pairs)
