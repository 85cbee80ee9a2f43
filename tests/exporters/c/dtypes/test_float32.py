"""float32 as an arithmetic: what it stores, what it prints, and what the rest of the export asks of it."""

import numpy as np
import pytest

from c_models import generated, read
from lbnn.base.errors import LbnnError
from lbnn.exporters.c.dtype import find_dtype
from lbnn.exporters.c.footprint import footprint
from lbnn.exporters.c.lower import lower
from lbnn.exporters.options import COptions

FLOAT32 = find_dtype("float32")


def test_numbers_are_rounded_once_and_those_beyond_float32_are_refused():
    assert FLOAT32.store([1.0 + 2.0**-30, -0.1], "layer x").tolist() == [1.0, float(np.float32(-0.1))]
    with pytest.raises(LbnnError, match=r"layer x holds numbers beyond 3\.4e38"):
        FLOAT32.store([1e39], "layer x")


def test_lines_of_c_give_the_stored_bits_back():
    values = FLOAT32.store(np.random.default_rng(0).normal(size=10) * 1e-3, "layer x")
    texts = [text.strip().removesuffix("f") for line in FLOAT32.lines(values, 4) for text in line.split(",")]
    assert np.array_equal(np.array(texts, np.float32).view(np.uint32), values.view(np.uint32))


def test_bytes_follow_its_elements(tmp_path):
    model = read("gas_sensor")
    program = lower(model, COptions(name="net"))
    written = generated(model, tmp_path / "c", name="net", weights="binary")
    assert footprint(program).work_bytes == written.work_bytes == FLOAT32.element.itemsize * program.work_len
    binary = (written.folder / "net_weights.bin").stat().st_size
    assert binary == FLOAT32.weight.itemsize * program.weight_len


def test_an_operator_without_a_row_is_refused_with_what_there_is():
    from dataclasses import replace

    from lbnn.exporters.c.program import find_row

    node = read("gas_sensor").graph.nodes[0]
    with pytest.raises(LbnnError, match=r"op 'linear' has no C kernel in float32; .* use add"):
        find_row(replace(FLOAT32, rows={"add": FLOAT32.rows["add"]}), node)
