"""Numbers as C text come back bit for bit."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from c_models import STRICT, run
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.exporters.c import generate
from lbnn.exporters.c.literals import float32, rows, scalar
from lbnn.graph import GraphBuilder
from lbnn.model.file import Model
from places import need
from plans import gaussian


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
@example([0x447FFFFF])  # 1023.99994: the last before 1024, where eight digits are too few
def test_every_float32_comes_back_bit_for_bit(patterns):
    values = np.array(patterns, np.uint32).view(np.float32)
    values = values[np.isfinite(values)]
    for texts in ([text for row in rows(values, 8) for text in row.split(", ")], [scalar(v) for v in values]):
        assert all(re.fullmatch(r"-?\d+(\.\d+)?(e[-+]\d+)?f", text) and re.search(r"[.e]", text) for text in texts)
        back = np.array([float(text[:-1]) for text in texts]).astype(np.float32)
        assert np.array_equal(back.view(np.uint32), values.view(np.uint32))


def test_a_compiler_reads_every_float32_back(tmp_path):
    """Denormals too, without a warning."""
    need("gcc")
    bits = np.array([0, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x80000000, 0x3F800001], np.uint32)
    text = rows(bits.view(np.float32), 8)[0]
    checks = " ".join(f"memcpy(&b, &x[{i}], 4); if (b != {bit}u) return 1;" for i, bit in enumerate(bits))
    (tmp_path / "a.c").write_text(
        f"#include <string.h>\nstatic const float x[8] = {{{text}}};\n"
        f"int main(void) {{ unsigned b; {checks} return 0; }}\n"
    )
    run("gcc", *STRICT, "a.c", "-o", "a.out", cwd=tmp_path)
    run(tmp_path / "a.out")


@pytest.mark.parametrize("bad", [1e39, -1e39, np.inf, np.nan])
@pytest.mark.parametrize("at", range(3))
def test_one_number_beyond_float32_among_good_ones_is_refused(bad, at):
    values = np.array([1.0, -2.0, 3e38])
    assert np.array_equal(float32(values, "layer a"), values.astype(np.float32))
    values[at] = bad
    with pytest.raises(LbnnError, match=r"layer a holds numbers beyond 3\.4e38"):
        float32(values, "layer a")


def test_weights_beyond_float32_are_refused():
    builder = GraphBuilder("huge", (1,), random=True)
    huge = Moments(np.full((1, 1), 1e39), np.zeros((1, 1)))
    graph = builder.finish(builder.add("layer", "linear", ["input"], params=dict(weight=huge, bias=gaussian(1))))
    with pytest.raises(LbnnError, match=r"layer .* float32"):
        generate(Model(graph, "", "huge", {}))
