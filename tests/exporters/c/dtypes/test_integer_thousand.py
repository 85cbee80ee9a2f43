"""A thousand samples a model, 0, 1e-30, 1e6 and 1e9 among them: generated integers give the bits of the reference.

Every model on every compiler, level and core is `make integers`.
"""

import numpy as np
import pytest

from int_models import CORES
from int_thousand import SAMPLES, THOUSANDS, thousand
from tiny_net import need_device

LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os")
SMALL = [name for name in THOUSANDS if not name.startswith("M2")]


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "int8") for name in THOUSANDS), *((name, "int16") for name in SMALL)]
)
def test_64_and_32_bits_give_the_bits_of_the_reference(tmp_path, name, dtype):
    held = thousand(name, dtype)
    net = held.write(tmp_path)
    assert [held.differ(need_device(device), net) for device in ("c", "c-x86")] == [0, 0]


def test_inputs_have_every_size_and_answers_are_many():
    for name in ("thermometer", "dilated groups"):
        held = thousand(name, "int8")
        sizes = np.abs(held.mean).max(axis=1)
        assert len(sizes) == SAMPLES and np.sum(sizes == 0.0) > 50
        for size in (1e-30, 1.0, 1e6, 1e9):
            assert np.sum((sizes > 0.1 * size) & (sizes <= size)) > 20
        assert len(np.unique(held.wanted.var)) > SAMPLES // 3


@pytest.mark.parametrize("compiler", ["c-gcc", "c-clang"])
@pytest.mark.parametrize("name", ["thermometer, input variance", "depthwise, strided"])
def test_no_level_changes_a_bit(tmp_path, name, compiler):
    held = thousand(name, "int8")
    net = held.write(tmp_path)
    assert {level: held.differ(need_device(compiler), net, (level,)) for level in LEVELS} == dict.fromkeys(LEVELS, 0)


@pytest.mark.parametrize("name", ["thermometer", "gas sensor"])
def test_no_core_and_no_sanitizer_changes_a_bit(tmp_path, name):
    held = thousand(name, "int8")
    net = held.write(tmp_path)
    places = ("c-sanitized", *CORES)
    assert {place: held.differ(need_device(place), net) for place in places} == dict.fromkeys(places, 0)
