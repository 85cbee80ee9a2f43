"""int8 and int16: generated C gives the bits of the integer reference, everywhere, and says what went wrong."""

import subprocess

import numpy as np
import pytest
import torch

import lbnn
from c_models import STRICT, WARNINGS, generated
from int_models import CORES, branches, hostile_inputs, network, reference, same_bits
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, export_c, footprint, lower
from lbnn.exporters.c.folder import generate
from lbnn.graph.passes import prepare
from lbnn.graph.reference import predict as exactly
from lbnn.model.file import read_model
from places import need

DTYPES = ("int8", "int16")
FLT_MAX = np.finfo(np.float32).max


def run(device, model, folder, dtype, x, var=None, flags=()):
    options = dict(name="net", dtype=dtype, input_variance=var is not None)
    program = lower(model, COptions(**options))
    found = run_model(device, generated(model, folder, **options), x, var, flags=flags)
    return found, reference(program, x, var)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["full", "rank1", "row", "none"])
def test_every_operator_gives_the_bits_of_the_reference(tmp_path, form, dtype):
    x = hostile_inputs(5, 400)
    var = np.minimum(0.01 * np.square(x, dtype=np.float64) + 1e-9, 1e37).astype(np.float32)
    var[::7] = 0.0
    for number, spread in enumerate((None, var)):
        found, wanted = run("c", branches(form=form), tmp_path / str(number), dtype, x, spread)
        assert same_bits(found, wanted).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_activation_at_the_end_gives_the_bits_of_the_reference(tmp_path, dtype):
    torch.manual_seed(0)
    model = read_model(bnn.Sequential(bnn.Linear(5, 3), bnn.LeakyReLU(0.1)), (5,))
    found, wanted = run("c", model, tmp_path, dtype, hostile_inputs(5, 120))
    assert same_bits(found, wanted).all()


WITHOUT_WEIGHTS = {
    "average": ((1, 4, 4), bnn.AvgPool2d(2)),
    "largest": ((2, 4, 4), bnn.MaxPool2d(2)),
    "ramp": ((3,), bnn.ReLU()),
    "ramp of a map": ((2, 3, 3), bnn.LeakyReLU(0.1)),
    "upsampled": ((3, 2, 2), bnn.UpsampleNearest(2)),
    "padded": ((2, 2, 3), bnn.ZeroPad2d((1, 0, 2, 1))),
    "scaled": ((3,), bnn.Sequential(bnn.Affine(torch.tensor([2.0, -1.0, 0.5]), torch.ones(3)), bnn.ReLU())),
    "all": ((2, 4, 4), bnn.Sequential(bnn.ReLU(), bnn.AvgPool2d(2), bnn.Flatten())),
}


@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
def test_a_network_without_weights_gives_the_bits_of_the_reference(tmp_path, name):
    shape, module = WITHOUT_WEIGHTS[name]
    model, x = read_model(module, shape), np.random.default_rng(0).normal(size=(20, *shape)).astype(np.float32)
    found, wanted = run("c", model, tmp_path, "int8", x.reshape(20, -1))
    assert same_bits(found, wanted).all()
    exact = exactly(prepare(model.graph, False), x)
    assert np.allclose(wanted.mean, exact.mean.reshape(20, -1), atol=1e-3)


class Joined(torch.nn.Module):
    """The input beside what a layer makes of it."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = bnn.Linear(5, 4), bnn.Linear(9, 2)

    def forward(self, x):
        return self.head(bnn.cat([x, self.inner(x)]))


def test_a_known_value_takes_no_digits_from_the_variances_that_it_is_joined_with(tmp_path):
    torch.manual_seed(0)
    found, wanted = run("c", read_model(Joined(), (5,)), tmp_path, "int8", hostile_inputs(5, 120))
    assert same_bits(found, wanted).all()


@pytest.mark.parametrize("free", [0, 2])
def test_free_variances_beside_products_of_factors_give_the_bits_of_the_reference(tmp_path, free):
    """Neither kernel is left out of a network that has layers of both kinds."""
    torch.manual_seed(0)
    kinds = ("full", "rank1") if free == 0 else ("rank1", "full")
    layers = bnn.Linear(5, 4, variance=kinds[0]), bnn.LeakyReLU(0.1), bnn.Linear(4, 3, variance=kinds[1])
    with torch.no_grad():
        layers[free].weight_rho.add_(0.3 * torch.randn_like(layers[free].weight_rho))
    found, wanted = run("c", read_model(bnn.Sequential(*layers), (5,)), tmp_path, "int8", hostile_inputs(5, 120))
    assert same_bits(found, wanted).all()


@pytest.mark.parametrize(
    ("device", "flags"),
    [
        ("c", ("-O0",)),
        ("c-clang", ("-O3", "-march=native")),
        ("c-clang", ("-Os", "-DLBNN_OPTIMIZE_SIZE")),
        ("c-sanitized", ()),
    ],
)
def test_no_compiler_and_no_level_changes_a_bit(tmp_path, device, flags):
    found, wanted = run(device, branches(1), tmp_path, "int8", hostile_inputs(5, 100), flags=flags)
    assert same_bits(found, wanted).all()


@pytest.mark.parametrize("device", CORES)
def test_no_core_changes_a_bit(tmp_path, device):
    if device.endswith(("gcc", "547")):
        need("arm-none-eabi-gcc")
    for dtype in DTYPES:
        found, wanted = run(device, branches(2), tmp_path / dtype, dtype, hostile_inputs(5, 60))
        assert same_bits(found, wanted).all()


def test_bad_input_is_refused_and_what_is_beyond_float_saturates(tmp_path):
    x = np.zeros((4, 3), np.float32)
    x[0, 1], x[1, 2], x[2] = np.nan, np.inf, FLT_MAX
    model = network((3, 4, 2), "full")
    found = run_model("c", generated(model, tmp_path / "c", name="net", dtype="int8"), x)
    assert found.status.tolist() == [-2, -2, 2, 0]
    assert np.all(found.variance[2] == FLT_MAX) and np.isfinite(found.mean[2]).all()
    spread = generated(model, tmp_path / "v", name="net", dtype="int8", input_variance=True)
    var = np.array([[1, 1, 1], [-1, 1, 1], [1, np.nan, 1], [-0.0, 1, 1]], np.float32)
    assert run_model("c", spread, 0 * np.ones((4, 3), np.float32), var).status.tolist() == [0, -2, -2, 0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_self_test_wants_every_bit(tmp_path, dtype):
    files = generate(branches(4), COptions(name="net", dtype=dtype))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    build = ["cc", *STRICT, "-O1", *map(str, tmp_path.glob("*.c")), "-o", str(tmp_path / "run")]
    subprocess.run(build, check=True)
    assert subprocess.run([tmp_path / "run"], check=False).returncode == 0
    weights = (tmp_path / "net_weights.h").read_text()
    rows = weights.index("net_out_rows")
    place = weights.index("{\n    ", rows) + 6
    (tmp_path / "net_weights.h").write_text(weights[:place] + "1 + " + weights[place:])
    subprocess.run(build, check=True)
    assert subprocess.run([tmp_path / "run"], check=False, capture_output=True).returncode == 1


def test_weights_take_a_byte_or_two_each_and_fourteen_a_row():
    for form, each in (("rank1", 1), ("row", 1), ("full", 2)):
        program = lower(network((16, 64, 64, 1), form), COptions(dtype="int8"))
        tables = sum(array.values.nbytes for array in program.weights if array.name.endswith("_tail"))
        assert tables + 194 <= 800
        assert program.weight_bytes - tables <= each * 5184 + 14 * 129 + 2 * 144 + 2
        assert footprint(program).work_bytes == 4 * program.work_len


@pytest.mark.parametrize("device", ["cortex-m0-gcc", "cortex-m4-gcc"])
def test_the_stack_of_a_deep_network_is_stated(tmp_path, device):
    need("arm-none-eabi-gcc")
    model = network((6,) * 14, "full")
    found = run_model(device, generated(model, tmp_path, name="net", dtype="int8"), hostile_inputs(6, 4))
    stated = footprint(lower(model, COptions(dtype="int8"))).stack_bytes
    assert found.stack_bytes <= found.stack_bound.bytes <= stated <= found.stack_bound.bytes + 200


def test_compiled_for_python_it_gives_the_same_bits():
    model, x = network((4, 9, 2), "rank1"), hostile_inputs(4, 50)
    program = lower(model, COptions(dtype="int16"))
    found, wanted = lbnn.compile(model, dtype="int16")(x), reference(program, x)
    assert np.array_equal(found.mean, wanted.mean) and np.array_equal(found.var, wanted.var)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(stream=True), "streams are computed in float32"),
        (dict(weights="half"), "half floats are weights of float32"),
    ],
)
def test_what_integers_do_not_have_is_refused(options, message):
    with pytest.raises(LbnnError, match=message):
        COptions(dtype="int8", **options)


def built_example(folder, *compiler):
    """The output of the example of an exported folder."""
    files = [*map(str, folder.glob("*.c")), str(folder / "net_weights.S")]
    flags = ["-O1", *WARNINGS, "-Wsign-conversion", "-Wshadow"]
    objects = []
    for source in files:
        made = f"{source}.o"
        language = compiler[1:] if source.endswith(".c") else []
        command = [compiler[0], *language, *(flags if source.endswith(".c") else []), "-c", source, "-o", made]
        subprocess.run(command, check=True, cwd=folder)
        objects.append(made)
    subprocess.run([compiler[0], *objects, "-o", "run", "-lm"], check=True, cwd=folder)
    return subprocess.run([folder / "run"], check=False, capture_output=True, text=True).stdout


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compiler", [("gcc", "-std=c99"), ("clang", "-xc++", "-std=c++11")], ids=" ".join)
def test_binary_weights_are_the_same_numbers(tmp_path, dtype, compiler):
    need(compiler[0])
    folder = export_c(branches(5), tmp_path / "c", COptions(name="net", dtype=dtype, weights="binary"))
    assert "self-test: ok" in built_example(folder, *compiler)
    program, stored, start = lower(branches(5), COptions(dtype=dtype)), (folder / "net_weights.bin").read_bytes(), 0
    for array in program.weights:
        end = start + array.values.nbytes
        assert stored[start:end] == array.values.astype(array.values.dtype.newbyteorder("<")).tobytes()
        start = end + -end % 4
    assert start == len(stored) < program.weight_bytes + 4 * len(program.weights)


def test_the_self_test_sees_a_changed_byte_of_the_binary_weights(tmp_path):
    folder = export_c(branches(5), tmp_path / "c", COptions(name="net", dtype="int8", weights="binary"))
    stored = bytearray((folder / "net_weights.bin").read_bytes())
    stored[-8] ^= 1  # the unit of the first output
    (folder / "net_weights.bin").write_bytes(bytes(stored))
    assert "self-test: FAILED" in built_example(folder, "gcc", "-std=c99")


@pytest.mark.parametrize("device", ["cortex-m0-gcc", "cortex-m4-gcc"])
def test_binary_weights_give_the_same_bits_on_a_core(tmp_path, device):
    need("arm-none-eabi-gcc")
    x = hostile_inputs(5, 20)
    written = generated(branches(6), tmp_path, name="net", dtype="int8", weights="binary")
    assert same_bits(run_model(device, written, x), reference(lower(branches(6), COptions(dtype="int8")), x)).all()
