"""Code of integers as the footprint states it: never less than what is linked, and nothing that no layer needs."""

from functools import cache

import pytest

from bench_models import MODELS, build
from int_maps import map_network
from int_models import branches, with_variances
from lbnn.device.devices import DEVICES
from lbnn.device.elf import image_sizes, read_symbols
from lbnn.device.emulated import link_model
from lbnn.exporters.c import COptions, footprint, lower
from lbnn.exporters.c.folder import write_program
from lbnn.exporters.c.int_footprint import unlinked
from lbnn.model.file import read_model
from places import need

BUILDS = (
    ("cortex-m0-gcc", "-O2"),
    ("cortex-m0-gcc", "-Os"),
    ("cortex-m3-gcc", "-O2"),
    ("cortex-m4-gcc", "-O2"),
    ("cortex-m33-gcc", "-Os", "-DLBNN_OPTIMIZE_SIZE"),
)


def benchmark(name, form):
    return with_variances(read_model(build(name), MODELS[name][1]), form, 0)


MODEL = {
    "m1": lambda: benchmark("m1", "full"),
    "m1 by factors": lambda: benchmark("m1", "rank1"),
    "m2": lambda: benchmark("m2", "full"),
    "m2 by factors": lambda: benchmark("m2", "rank1"),
    "m4": lambda: benchmark("m4", "full"),
    "branches": branches,
    "dilated groups": lambda: map_network("dilated groups", "rank1"),
    "max pools": lambda: map_network("max pools", "none"),
}


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """Bytes of code of a model in each build, and the functions that are there."""
    need("arm-none-eabi-gcc")

    @cache
    def measured(name, dtype, variance=False):
        model, options = MODEL[name](), COptions(name="net", dtype=dtype, input_variance=variance)
        program, folder = lower(model, options), tmp_path_factory.mktemp("model")
        net, found = write_program(program, model, options, folder / "c"), {}
        for number, (device, *flags) in enumerate(BUILDS):
            (out := folder / str(number)).mkdir()
            image = link_model(DEVICES[device].core, DEVICES[device].compiler, net, out, ("-std=gnu99", *flags)).elf
            code = image_sizes(image, net.weight_pattern).flash - footprint(program).weight_bytes
            found[device, *flags] = code, {function.partition(".")[0] for function in read_symbols(image).addresses}
        return program, found

    return measured


CASES = [
    *((name, "int8", False) for name in MODEL),
    ("m1", "int16", False),
    ("m2", "int16", True),
    ("m1", "int8", True),
]


@pytest.mark.parametrize(("name", "dtype", "variance"), CASES)
def test_what_is_stated_is_at_least_what_is_linked(linked, name, dtype, variance):
    program, found = linked(name, dtype, variance)
    stated, most = footprint(program).code_bytes, max(code for code, _ in found.values())
    assert most <= stated <= (1.25 if name == "m2 by factors" else 1.75) * most


@pytest.mark.parametrize(("name", "dtype", "variance"), CASES)
def test_what_is_left_out_is_not_linked(linked, name, dtype, variance):
    program, found = linked(name, dtype, variance)
    unused = unlinked(program.lacks, variance)
    assert {build for build, (_, names) in found.items() if names & unused} == set()
