"""Streams: samples pushed one at a time give the bits of windows, in every build, from any beginning."""

import ctypes
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import streams
from c_models import STRICT, WARNINGS, generated, run
from lbnn.base.errors import LbnnError
from lbnn.device.compilers import SANITIZE_FLAGS
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, footprint, lower
from places import TESTS, need
from streams import CASES, COLUMNS, MORE, Streamed, same, signal
from tiny_net import need_device

FEW = ("causal", "residual_moments", "gated_moments", "sliding_2")
BUILDS = {
    "gcc-O3-fused-vectors": ("gcc", "-O3", "-std=gnu99", "-march=native"),
    "gcc-O3-fused-scalars": ("gcc", "-O3", "-std=gnu99", "-march=native", "-DLBNN_NO_SIMD"),
    "gcc-Os": ("gcc", "-Os", "-DLBNN_OPTIMIZE_SIZE"),
    "clang-O2-fused": ("clang", "-O2", "-march=native"),
}


@pytest.fixture(scope="session")
def everything(tmp_path_factory):
    """All cases in one library, without optimisation."""
    need("gcc")
    folder = tmp_path_factory.mktemp("streams")
    programs = streams.write(folder, streams.programs())
    return streams.build(folder, "gcc", ("-O0", *WARNINGS)), programs


@pytest.fixture(scope="session")
def few(tmp_path_factory):
    """Some cases, to be built in several ways."""
    folder = tmp_path_factory.mktemp("few_streams")
    return folder, streams.write(folder, streams.programs(FEW))


def results(stream, state, samples):
    """(number of the sample, result) for each that gives one, counted from 1."""
    statuses = [stream.push(state, np.ascontiguousarray(samples[:, :, t])) for t in range(samples.shape[2])]
    assert all(status in (0, MORE) for status, _ in statuses)
    assert all(np.all(out == -7.0) for status, out in statuses if status == MORE), "written without a result"
    return [(number, out) for number, (status, out) in enumerate(statuses, 1) if status == 0]


def check_stream(library, programs, name, seed=0, loudness=1.0):
    """Three windows' worth of samples against windows, at every position that has a result."""
    case, stream = CASES[name], Streamed(library, programs[name])
    channels, length = case.shape
    samples = np.float32(loudness) * signal(np.random.default_rng(seed), stream.random, channels, 3 * length)
    found, tick = results(stream, stream.state(), samples), stream.push_program.stream.result
    assert [number for number, _ in found] == list(range(tick.first, 3 * length + 1, tick.every))
    if name not in COLUMNS:
        assert all(same(out, stream.predict(samples[:, :, number - length : number])) for number, out in found)
        return
    for window, owner in ((samples[:, :, :length], name), (samples, f"long_{name}")):
        rows = stream.predict(window, owner, programs[owner]).reshape(2, stream.push_program.result_len, -1)
        assert rows.shape[2] <= len(found) and rows.shape[2] >= 1
        assert all(same(found[j][1], rows[:, :, j]) for j in range(rows.shape[2]))


@pytest.mark.parametrize("name", CASES)
def test_samples_pushed_one_at_a_time_give_the_bits_of_windows(everything, name):
    check_stream(*everything, name)


@pytest.mark.parametrize("name", CASES)
def test_zeros_of_silence_have_the_signs_of_windows(everything, name):
    check_stream(*everything, name, loudness=0.0)


@pytest.mark.parametrize("build", BUILDS)
def test_every_build_gives_the_bits_of_its_windows(few, build):
    need(BUILDS[build][0])
    folder, programs = few
    library = streams.build(folder, BUILDS[build][0], BUILDS[build][1:])
    for name in FEW:
        check_stream(library, programs, name, seed=1)


@pytest.mark.parametrize("name", ["residual", "tumbling", "sliding_6", "valley"])
def test_streams_side_by_side_are_independent_and_reset_forgets(everything, name):
    library, programs = everything
    stream, rng = Streamed(library, programs[name]), np.random.default_rng(5)
    samples = [signal(rng, stream.random, CASES[name].shape[0], 40) for _ in range(3)]
    expected = [dict(results(stream, stream.state(), each)) for each in samples]
    states, at, many = [stream.state() for _ in samples], [0, 0, 0], 0
    for _ in range(400):
        which = int(rng.integers(3))
        if at[which] == 40 or rng.random() < 0.02:
            assert stream._call("reset", states[which]) == 0
            at[which] = 0
        status, out = stream.push(states[which], np.ascontiguousarray(samples[which][:, :, at[which]]))
        at[which] += 1
        assert (status == 0) == (at[which] in expected[which])
        assert status or same(out, expected[which][at[which]])
        many += status == 0
    assert many > 10


@pytest.mark.parametrize("name", ["sliding", "sliding_2", "pooled", "pooled_1"])
def test_classes_of_a_stream_are_those_of_the_window(everything, name):
    library, programs = everything
    stream, rng = Streamed(library, programs[name]), np.random.default_rng(6)
    length = stream.window
    samples = signal(rng, stream.random, CASES[name].shape[0], 2 * length)
    state, seen = stream.state(), 0
    for t in range(2 * length):
        inputs = [state, *np.ascontiguousarray(samples[:, :, t])]
        pushed = stream.classify(inputs, "push_classify", stream.push_program.work_len)
        if pushed[0] == 0:
            window = [np.ascontiguousarray(part) for part in samples[:, :, t + 1 - length : t + 1]]
            whole = stream.classify(window, "classify", programs[name].work_len)
            assert same(pushed[1], whole[1]) and pushed[2] == whole[2]
            seen += 1
    assert seen >= 2


@pytest.mark.parametrize("name", CASES)
def test_the_self_test_pushes_and_passes(everything, name):
    library, programs = everything
    work = np.full(programs[name].work_len, np.nan, np.float32)
    assert getattr(library, f"{name}_selftest")(ctypes.c_void_p(work.ctypes.data)) == 0


def test_the_self_test_finds_a_stream_that_departs_by_a_bit(tmp_path):
    need("gcc")
    folder = generated(CASES["tumbling"].model(), tmp_path, name="net", stream=True).folder
    source = (folder / "net.c").read_text()
    push = source.index("net_push(")
    (folder / "net.c").write_text(
        source[:push] + source[push:].replace("    net_reset(state);\n", "    mean[0] *= 1.0000001f;\n")
    )
    (folder / "main.c").write_text(
        '#include "net.h"\nstatic float work[NET_WORK_LEN];\nint main(void) { return net_selftest(work); }\n'
    )
    run("gcc", *STRICT, "-O0", "net.c", "net_selftest.c", "main.c", "-o", "program", "-lm", cwd=folder)
    assert subprocess.run([folder / "program"], check=False).returncode == 1


def test_a_sample_that_is_refused_is_not_taken(everything):
    stream = Streamed(everything[0], everything[1]["residual_moments"])
    samples = signal(np.random.default_rng(7), True, 3, 24)
    expected, state = results(stream, stream.state(), samples), stream.state()
    found = []
    for t in range(24):
        for part, number in ((0, np.nan), (0, np.inf), (1, -1.0), (1, np.nan)):
            bad = np.ascontiguousarray(samples[:, :, t])
            bad[part, 1] = number
            assert stream.push(state, bad)[0] == -2
        status, out = stream.push(state, np.ascontiguousarray(samples[:, :, t]))
        found += [] if status else [(t + 1, out)]
    assert len(found) == len(expected) and all(same(a[1], b[1]) for a, b in zip(found, expected, strict=True))


def test_null_pointers_and_one_array_for_both_results_are_reported(everything):
    library, programs = everything
    push = programs["causal"].push
    state, sample, mean, var, work = (
        np.zeros(n, np.float32) for n in (push.state_len, 2, push.result_len, push.result_len, push.work_len)
    )
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (state, sample, mean, var, work)]
    for missing in range(5):
        given = [None if number == missing else pointer for number, pointer in enumerate(pointers)]
        assert library.causal_push(*given) == -1
    assert library.causal_push(*pointers[:3], pointers[2], pointers[4]) == -4
    assert library.causal_reset(None) == -1
    assert not state.any(), "a refused call changed the state"


def test_a_result_beyond_float32_is_reported_and_the_stream_goes_on(everything):
    stream = Streamed(everything[0], everything[1]["tumbling"])
    huge, samples = np.full((1, 1), 3e38, np.float32), signal(np.random.default_rng(8), False, 1, 14)
    state = stream.state()
    assert [stream.push(state, huge)[0] for _ in range(14)] == [MORE] * 13 + [-3]
    assert same(results(stream, state, samples)[0][1], stream.predict(samples))


@pytest.mark.parametrize("device", ["cortex-m0", "cortex-m4"])
def test_a_device_gives_the_bits_of_its_windows(tmp_path, device):
    need_device(device)
    model = CASES["residual"].model()
    written = generated(model, tmp_path, name="residual", stream=True)
    inputs = signal(np.random.default_rng(9), False, 3, 48).reshape(2, -1)
    window, pushed = (run_model(device, replace(written, replays=replays), inputs) for replays in (False, True))
    assert np.all(pushed.status == 0)
    assert same(pushed.mean, window.mean) and same(pushed.variance, window.variance)


def test_random_pushes_and_resets_of_any_memory_stay_inside_of_it(tmp_path):
    """Under sanitizers, arrays of exactly the lengths of the header, and states that were never reset."""
    need("gcc")
    names = ("residual", "sliding_2", "tumbling")
    streams.write(tmp_path, streams.programs(names))
    includes = "".join(f'#include "{name}/{name}.h"\n' for name in names)
    (tmp_path / "main.c").write_text(includes + (TESTS / "c/random_streams.c").read_text())
    sources = (tmp_path / "main.c", tmp_path / "all.c")
    run("gcc", "-std=c99", *WARNINGS, "-O0", *SANITIZE_FLAGS, *sources, "-o", tmp_path / "program", "-lm")
    counts = [int(word) for word in run(tmp_path / "program").split()]
    assert len(counts) == 3 and min(counts) > 20, f"results of each stream: {counts}"


@pytest.mark.parametrize("language", ["c", "c++"])
def test_generated_streams_are_clean_under_warnings(tmp_path, language):
    need("g++")
    folder = generated(CASES["sliding_6"].model(), tmp_path, name="net", stream=True, input_variance=True).folder
    standard = STRICT if language == "c" else ("-std=c++11", *WARNINGS)
    run("gcc", "-x", language, *standard, "-O1", "-c", "net.c", "net_selftest.c", "example_main.c", cwd=folder)


def test_the_footprint_states_the_memory_of_a_stream_and_its_costliest_sample():
    program = lower(CASES["tumbling"].model(), COptions(name="net", stream=True))
    found, plain = footprint(program), footprint(lower(CASES["tumbling"].model(), COptions(name="net")))
    # counts of 2 ticks; window of the input: 1 + 2; all 7 columns of 4 channels, mean and variance: 2 (1 + 28)
    assert found.state_bytes == 4 * (2 + 3 + 58) and found.push_macs == 4 * 3 + 28 * 5 + 5 * 2
    assert '"state_bytes"' in found.json("net", "0", "1") and "state" not in plain.json("net", "0", "1")
    assert found.push_work_bytes < plain.work_bytes and found.work_bytes >= found.state_bytes + found.push_work_bytes


def test_a_hop_without_a_stream_is_refused():
    with pytest.raises(LbnnError, match="add --stream"):
        COptions(hop=2)


def test_both_programs_share_one_set_of_weights():
    program = lower(CASES["residual"].model(), COptions(name="net", stream=True))
    plain = lower(CASES["residual"].model(), COptions(name="net"))
    assert [array.name for array in program.weights] == [array.name for array in plain.weights]
    assert program.push.program.weights[0].name in {array.name for array in plain.weights}
