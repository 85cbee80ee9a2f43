"""int8 and int16 with feature maps: generated C gives the bits of the integer reference, everywhere."""

import subprocess

import numpy as np
import pytest
import torch

import lbnn
from bench_models import MODELS, build
from c_models import STRICT, generated
from int_maps import MAPS, map_network
from int_models import CORES, hostile_inputs, reference, same_bits, with_variances
from lbnn.base.errors import LbnnError
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, footprint, lower
from lbnn.exporters.c.folder import generate
from lbnn.model.file import read_model
from places import need

DTYPES, FORMS = ("int8", "int16"), ("full", "rank1", "row", "none")


def run(device, model, folder, dtype, count, variance=False, flags=()):
    shape = model.graph.input.shape
    x = hostile_inputs(int(np.prod(shape)), count)
    var = None
    if variance:
        var = np.minimum(0.01 * np.square(x, dtype=np.float64) + 1e-9, 1e37).astype(np.float32)
        var[::7] = 0.0
    options = dict(name="net", dtype=dtype, input_variance=variance)
    found = run_model(device, generated(model, folder, **options), x, var, flags=flags)
    program = lower(model, COptions(**options))
    given = [None if part is None else part.reshape(count, *shape) for part in (x, var)]
    return same_bits(found, reference(program, *given))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MAPS)
def test_every_geometry_gives_the_bits_of_the_reference(tmp_path, name, form):
    number = list(MAPS).index(name) + FORMS.index(form)
    for variance in (False, True):
        dtype = DTYPES[(number + variance) % 2]
        assert run("c", map_network(name, form), tmp_path / dtype, dtype, 60, variance, ("-O1",)).all()


@pytest.mark.parametrize(
    ("device", "flags"),
    [
        ("c", ("-O0",)),
        ("c", ("-O3",)),
        ("c-clang", ("-O3", "-march=native")),
        ("c-clang", ("-Os", "-DLBNN_OPTIMIZE_SIZE")),
        ("c-sanitized", ()),
    ],
)
@pytest.mark.parametrize(
    "name", ["dilated groups", "odd branches", "pools", "max pools", "a map as result", "windows outside"]
)
def test_no_compiler_and_no_level_changes_a_bit(tmp_path, name, device, flags):
    assert run(device, map_network(name, "full", 1), tmp_path, "int8", 40, True, flags).all()


@pytest.mark.parametrize("device", CORES)
@pytest.mark.parametrize("name", ["cnn", "odd branches", "max pools"])
def test_no_core_changes_a_bit(tmp_path, name, device):
    if device.endswith(("gcc", "547")):
        need("arm-none-eabi-gcc")
    for form in ("rank1", "full"):
        for dtype in DTYPES if device == "cortex-m3" or name == "cnn" else DTYPES[:1]:
            assert run(device, map_network(name, form, 2), tmp_path / form / dtype, dtype, 12).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_self_test_wants_every_bit(tmp_path, dtype):
    files = generate(map_network("branches", "rank1"), COptions(name="net", dtype=dtype))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    build_it = ["cc", *STRICT, "-O1", *map(str, tmp_path.glob("*.c")), "-o", str(tmp_path / "run")]
    subprocess.run(build_it, check=True)
    assert subprocess.run([tmp_path / "run"], check=False).returncode == 0
    weights = (tmp_path / "net_weights.h").read_text()
    place = weights.index("{\n    ", weights.index("net_inner_rows")) + 6
    (tmp_path / "net_weights.h").write_text(weights[:place] + "7 + " + weights[place:])
    subprocess.run(build_it, check=True)
    assert subprocess.run([tmp_path / "run"], check=False, capture_output=True).returncode == 1


def m2(form):
    return with_variances(read_model(build("m2"), MODELS["m2"][1]), form, 0)


@pytest.mark.parametrize(("form", "each", "work"), [("rank1", 1, 4000), ("row", 1, 4000), ("full", 2, 5600)])
def test_a_small_cnn_fits_a_small_memory(form, each, work):
    program = lower(m2(form), COptions(dtype="int8"))
    assert footprint(program).work_bytes == 4 * program.work_len <= work
    tables = sum(array.values.nbytes for array in program.weights if array.name.endswith("_tail"))
    weights, rows, inputs = 72 + 1152 + 2560, 8 + 16 + 10, 9 + 72 + 256
    more = 8 + 2 + 2 * 10  # windows of nine numbers, and their factors, are filled up to ten; units of the outputs
    assert program.weight_bytes - tables <= each * weights + more + 14 * rows + 2 * inputs


def test_compiled_for_python_it_gives_the_same_bits():
    model = map_network("one axis", "rank1")
    x = hostile_inputs(42, 30).reshape(30, 2, 21)
    found, wanted = lbnn.compile(model, dtype="int8")(x), reference(lower(model, COptions(dtype="int8")), x)
    assert np.array_equal(found.mean, wanted.mean) and np.array_equal(found.var, wanted.var)


def test_what_a_map_can_not_do_is_refused_in_one_line():
    from lbnn import nn as bnn

    tiny = bnn.Affine(torch.full((1, 1, 1), 1e-41), torch.ones(1, 1, 1))
    for module, shape, says in (
        (bnn.Sequential(bnn.Conv2d(1, 2, 3), bnn.ELU()), (1, 6, 6), "op 'elu' has no integer kernel"),
        (bnn.Sequential(bnn.Conv2d(1, 2, 3), bnn.VarianceHead()), (1, 6, 6), "op 'variance_head' of a feature map"),
        (bnn.Sequential(bnn.Conv1d(2, 3, 2), bnn.Linear(3, 2)), (2, 4), "linear layer over a feature map"),
        (bnn.Sequential(tiny, bnn.Conv2d(1, 2, 3, padding=1)), (1, 4, 4), "a scale below 1.2e-38"),
        (bnn.Sequential(bnn.Conv1d(1, 2, 1), bnn.AvgPool1d(32769)), (1, 32769), "integers pool at most 32768 pixels"),
    ):
        with pytest.raises(LbnnError, match=says) as error:
            lower(read_model(module, shape), COptions(dtype="int8"))
        assert "\n" not in str(error.value)
