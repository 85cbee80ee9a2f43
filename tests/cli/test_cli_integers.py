"""Integers from the command line: from a CSV to a booted Cortex-M0, and what each command tells of int8 and int16."""

import csv
import json
import subprocess

import numpy as np
import pytest
import torch

import commands
import lbnn
from lbnn import nn as bnn
from lbnn.model.file import read_model
from places import need
from reports import save_classes, write_classes
from saved import save_small


def run(folder, *words):
    return commands.lbnn(*words, folder=folder)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return save_small(tmp_path_factory.mktemp("small"))


def boot(folder):
    """What firmware says in QEMU."""
    done = subprocess.run(["make", "run"], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def need_a_board():
    for program in ("make", "arm-none-eabi-gcc", "qemu-system-arm"):
        need(program)


def readings(path):
    """y = 2 a - b with noise that grows with |a|."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=300), rng.uniform(-1, 1, 300)
    y = 2 * a - b + (0.2 + 0.3 * np.abs(a)) * rng.normal(size=300)
    np.savetxt(path, np.stack([a, b, y], axis=1), "%.6f", ",", header="a,b,y", comments="")


def test_three_commands_take_a_csv_to_a_cortex_m0(tmp_path):
    need_a_board()
    readings(tmp_path / "readings.csv")
    quick = ("--hidden", "8", "--epochs", "10")
    trained = run(tmp_path, "train", "readings.csv", "--target", "y", "--variance", "rank1", *quick)
    assert trained.status == 0, trained.stderr
    exported = run(tmp_path, "export", "model.pt", "--target", "c", "--dtype", "int8", "--board", "microbit")
    assert exported.status == 0, exported.stderr
    assert "self-test passed" in boot(tmp_path / "model_c")
    verdict = run(tmp_path, "verify", "model.pt", "--dtype", "int8", "--backends", "microbit", "--json")
    assert verdict.status == 0 and json.loads(verdict.stdout)["backends"][0]["differ"] == 0


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("classes", [False, True])
def test_firmware_boots_on_the_emulated_m0_and_wants_every_bit(tmp_path, small, dtype, classes):
    need_a_board()
    model = save_classes(tmp_path) if classes else small
    words = ("export", model, "--target", "c", "--dtype", dtype, "--board", "microbit", "-o", "fw", "--name", "net")
    assert run(tmp_path, *words).status == 0
    assert "self-test passed" in boot(tmp_path / "fw")
    weights = tmp_path / "fw" / "net_weights.h"
    text = weights.read_text()
    place = text.index("{\n    ", text.index("_rows[")) + 6
    weights.write_text(text[:place] + "4096 ^ " + text[place:])
    done = subprocess.run(["make", "run"], cwd=tmp_path / "fw", capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "self-test FAILED" in done.stdout + done.stderr


def test_bench_counts_integers(tmp_path, small):
    need("arm-none-eabi-gcc")
    done = run(tmp_path, "bench", small, "--dtype", "int8", "--backends", "c,cortex-m0-gcc,cortex-m4-gcc", "--json")
    found = json.loads(done.stdout)
    rows = {row["backend"]: row for row in found["backends"]}
    assert found["dtype"] == "int8" and all(row["plain"] is None for row in rows.values())
    layers = [layer["instructions"] for layer in found["layers"]]
    assert abs(sum(layers) - rows["cortex-m4-gcc"]["instructions"]) <= 1 and all(count > 0 for count in layers)
    floats = json.loads(run(tmp_path, "bench", small, "--backends", "cortex-m0-gcc", "--json").stdout)
    assert 5 * rows["cortex-m0-gcc"]["instructions"] < floats["backends"][0]["instructions"]


def test_predict_with_integers_gives_the_integer_reference(tmp_path, small):
    x = np.random.default_rng(0).normal(size=(20, 3))
    np.savetxt(tmp_path / "x.csv", x, "%.6f", ",", header="a,b,c", comments="")
    done = run(tmp_path, "predict", small, "x.csv", "--backend", "c", "--dtype", "int8", "-o", "p.csv")
    assert done.status == 0, done.stderr
    with (tmp_path / "p.csv").open() as file:
        told = [[float(row["y0_mean"]), float(row["y0_sd"])] for row in csv.DictReader(file)]
    found = lbnn.compile(read_model(small), dtype="int8")(np.round(x, 6).astype(np.float32))
    wanted = np.stack([found.mean[:, 0], np.sqrt(found.var[:, 0])], axis=1)
    np.testing.assert_allclose(told, wanted, rtol=1e-6)
    run(tmp_path, "predict", small, "x.csv", "--dtype", "int8", "-o", "q.csv").refused("'torch' has no --dtype int8")


def test_predict_tells_classes_by_integers(tmp_path):
    model, data = save_classes(tmp_path), write_classes(tmp_path / "d.csv")
    told = {}
    for dtype in ("float32", "int8"):
        out = tmp_path / f"{dtype}.csv"
        done = run(tmp_path, "predict", model, data, "--backend", "c", "--dtype", dtype, "-o", out)
        assert done.status == 0, done.stderr
        with out.open() as file:
            told[dtype] = np.array(
                [[float(row[f"p_{name}"]) for name in ("idle", "run", "walk")] for row in csv.DictReader(file)]
            )
    gap = np.abs(told["int8"] - told["float32"])
    assert 0.0 < gap.max() < 0.01


def test_verify_tells_what_integers_lose_and_takes_binary_weights(tmp_path, small):
    done = run(tmp_path, "verify", small, "--dtype", "int8", "--backends", "c", "--weights", "binary")
    assert done.status == 0, done.stderr
    for column in ("samples that differ", "KL mean", "KL 99 %", "KL worst", "mean error", "variance ratio"):
        assert column in done.stdout
    found = json.loads(run(tmp_path, "verify", small, "--dtype", "int8", "--backends", "c", "--json").stdout)
    loss = found["losses"]["loss"]["ordinary"]
    assert loss["least_ratio"] <= 1.0 <= loss["largest_ratio"] and 0.0 < loss["kl_mean"] <= loss["kl_worst"]
    run(tmp_path, "verify", small, "--dtype", "int8", "--weights", "half").refused("half floats are weights of float32")


def test_export_warns_where_eight_bits_are_too_few_and_names_sixteen(tmp_path):
    """Weights that cancel, with hardly a variance: what is left of them is below a step of eight bits."""
    torch.manual_seed(0)
    net = bnn.Sequential(bnn.Linear(8, 32, sigma=1e-4), bnn.LeakyReLU(0.1), bnn.Linear(32, 1, sigma=1e-4))
    path = lbnn.save(net, tmp_path / "sharp.pt", input_shape=(8,))
    for dtype, instead in (("int8", "int16"), ("int16", "float32")):
        done = run(tmp_path, "export", path, "--target", "c", "--dtype", dtype, "-o", dtype)
        assert done.status == 0 and f"warning: {dtype} loses KL" in done.stderr
        assert f"--dtype {instead} keeps more" in done.stderr
    assert run(tmp_path, "export", path, "--target", "c", "-o", "float32").stderr == ""


def test_streams_of_integers_are_refused_in_a_line(tmp_path, small):
    words = ("export", small, "--target", "c", "--dtype", "int8", "--stream")
    run(tmp_path, *words).refused("streams are computed in float32; with --dtype int8 leave out --stream")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("export", "--target", "onnx", "--dtype", "int8"), "--dtype int8 is for --target c; export ONNX in float32"),
        (
            ("export", "--target", "onnx", "--package", "arduino"),
            "--target onnx takes no --package; it takes --dtype, --input-variance, --opset",
        ),
        (("export", "--target", "c", "--board", "microbit", "--weights", "binary"), "leave out --weights binary"),
        (("export", "--target", "c", "--board", "microbit", "--package", "zephyr"), "leave out --package zephyr"),
        (("export", "--target", "c", "--board", "microbit", "--single-file"), "leave out --single-file"),
        (("verify", "--dtype", "int8", "--tolerance", "0.1"), "leave out --tolerance"),
        (("verify", "--dtype", "int8", "--backends", "uno"), "backend 'uno' has no integers, which need an int of 32"),
        (("verify", "--dtype", "int8", "--backends", "onnx"), "backend 'onnx' has no integers; choose from c, "),
    ],
)
def test_what_integers_can_not_do_is_one_line_that_names_the_option(small, tmp_path, words, says):
    done = run(tmp_path, words[0], small, *words[1:])
    assert done.status == 2 and done.stderr.count("\n") == 1 and says in done.stderr
    assert "mega2560" not in done.stderr and "/tmp" not in done.stderr and not list(tmp_path.iterdir())


def test_an_arduino_library_in_integers_says_that_it_is_not_for_avr(small, tmp_path):
    done = run(tmp_path, "export", small, "--target", "c", "--dtype", "int8", "--package", "arduino", "-o", "made")
    assert done.status == 0 and "32 bits, which AVR boards have not" in done.stderr
    properties = (tmp_path / "made" / "library.properties").read_text().splitlines()
    assert properties[5].startswith("paragraph=") and properties[5].endswith("not for AVR.")
    assert properties[6].startswith("category=")
