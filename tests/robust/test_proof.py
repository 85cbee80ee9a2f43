"""Frama-C has no alarm at kernels of each kind, and alarms at faults put into copies of them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import prove
from lbnn.exporters.c.footprint import KERNELS
from lbnn.exporters.c.int_footprint import INTEGER_KERNELS
from places import ROOT, need
from thorough import part

Goal = prove.Goal


@pytest.fixture(scope="module", autouse=True)
def frama_c() -> None:
    need("frama-c")


# A proof of each kind, and the functions of the runtime that it must have gone through.
SHORT = {
    Goal("lbnn_linear", "4", "finite"): 27,
    Goal("lbnn_conv2d_1x1", "8", "finite"): 39,
    Goal("lbnn_avg_pool", "size", "any bits"): 4,
    Goal("lbnn_leaky_relu", "8", "finite"): 7,
    Goal("lbnn_variance_head", "8", "any bits"): 11,
    Goal("lbnn_emit", "8", "any bits"): 7,
    Goal("lbnn_sigmoid", "8", "any bits"): 26,
    Goal("lbnn_elu", "8", "any bits"): 34,
    Goal("lbnn_hardswish", "8", "any bits"): 29,
    Goal("lbnn_tabulated", "8", "any bits"): 26,
    Goal("mlp_predict", "8", "any bits"): 37,
    Goal("lbnn_int8_linear", "8", "any bits"): 24,
    Goal("lbnn_int_narrow", "8", "any bits"): 13,
    Goal("lbnn_int_activate", "8", "any bits"): 19,
    Goal("lbnn_int_softplus", "8", "any bits"): 8,
    Goal("lbnn_int_map_leaky", "8", "any bits"): 32,
    Goal("lbnn_int_pool", "8", "any bits"): 33,
    Goal("lbnn_int_max_pool", "8", "any bits"): 37,
}


@pytest.mark.parametrize("goal", part(SHORT, 10), ids=lambda goal: f"{goal.name}-{goal.build}-{goal.inputs}")
def test_a_kernel_has_no_alarm(goal: prove.Goal) -> None:
    proof = prove.prove(goal, define="-DPROVE_SHORT")
    assert not proof.alarms
    assert len(proof.runtime) == SHORT[goal], sorted(proof.runtime)


# kernel, inputs, header, text, fault, what EVA must say
FAULTS = {
    "one input too many": ("lbnn_linear", "finite", "lbnn_sums.h", "n > 0; n--", "n >= 0; n--", "mem_access"),
    "a pointer before the array, never followed": (
        *("lbnn_conv2d_3x3", "finite", "lbnn_conv_3x3.h", "lbnn_input_edge(kind, mean, var, from - 1, left)"),
        *("lbnn_input_edge(kind, mean + from - 1, var + from - 1, 0, left)", "pointer_value"),
    ),
    "one output too few": ("lbnn_copy", "finite", "lbnn_pointwise.h", "; n > 0; n--", "; n > 1; n--", "initialized"),
    "an unguarded conversion": (
        *("lbnn_variance_head", "any bits", "lbnn_math.h"),
        *("lbnn_lanes_at_least(x, -87.0f)", "x", "precondition of lbnn_exp2"),
    ),
    "an exponent of ELU without its limit": (
        *("lbnn_elu", "any bits", "lbnn_elu.h"),
        *("lbnn_lanes_at_most(lbnn_lanes_at_least(y, -87.0f), 0.1f)", "y", "float_to_int"),
    ),
    "a knot behind the table": (
        *("lbnn_tabulated", "any bits", "lbnn_tabulated.h"),
        *("last = LBNN_TABULATED_KNOTS(cells);", "last = LBNN_TABULATED_KNOTS(cells) + 2;", "mem_access"),
    ),
    "a body that EVA does not see": (
        *("lbnn_lift", "finite", "lbnn_pointwise.h"),
        *(
            "lbnn_lift(float *var, int n)",
            "lbnn_lift(float *var, int n);\nvoid other(float *var, int n)",
            "not analysed",
        ),
    ),
    "an integer row too many": (
        *("lbnn_int8_linear", "any bits", "lbnn_int_linear.h"),
        *("rows > 1; rows -= 2, sum += 2", "rows > 0; rows -= 2, sum += 2", "mem_access"),
    ),
    "an integer sum of four more bits": (
        *("lbnn_int_shared", "any bits", "lbnn_int_linear.h", "+ half) >> 16;", "+ half) >> 14;", "overflow"),
    ),
    "a shift that C does not define": (
        *("lbnn_int_activate", "any bits", "lbnn_int.h", "lbnn_int_smaller(2 + by.ahead, 31)", "2 + by.ahead", "shift"),
    ),
    "a table read beyond its end": (
        *("lbnn_int_activate", "any bits", "lbnn_int.h"),
        *("cell = z >> 8,", "cell = z >> 5,", "precondition of lbnn_int_between"),
    ),
    "a pixel that moves by nothing": (
        *("lbnn_int_level", "any bits", "lbnn_int_map.h", "if (by > 0) {", "if (by >= 0) {", "shift"),
    ),
    "a map that is one chunk too long": (
        *("lbnn_int_map_add", "any bits", "lbnn_int_map.h"),
        *("at < n; at += LBNN_INT_CHUNK", "at <= n; at += LBNN_INT_CHUNK", "mem_access"),
    ),
    "a pool that reads a row too many": (
        *(
            "lbnn_int_pool",
            "any bits",
            "lbnn_int_pool.h",
            "shape->height) - first;",
            "shape->height) + 1 - first;",
            "mem_access",
        ),
    ),
    "a pool whose sums have no room": (
        *("lbnn_int_pool_window", "any bits", "lbnn_int_pool.h", "1 << (15 - room)", "1 << 15", "overflow"),
    ),
    "a window that sticks out by one column": (
        *("lbnn_int_max_pool", "any bits", "lbnn_int_maxpool.h"),
        *("column < shape->width;", "column <= shape->width;", "mem_access"),
    ),
    "a match of two values without variance": (
        *("lbnn_int_match", "any bits", "lbnn_int_maxpool.h"),
        *("if (total == 0) {", "if (total < 0) {", "precondition of lbnn_int_sqrt"),
    ),
    "a variance above both of a match": (
        *("lbnn_int_match", "any bits", "lbnn_int_maxpool.h"),
        *("lbnn_int_smaller(out.var, spread);", "spread;", "won.var <= "),
    ),
    "the rest of a word that is whole": (
        *("lbnn_int_upsample", "any bits", "lbnn_int_upsample.h", "if (at & 1) {", "if (at) {", "mem_access"),
    ),
    "a negative variance": ("lbnn_avg_pool", "finite", "lbnn_pool.h", "scale * scale * sum", "-scale * sum", ">= 0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_alarms(fault: str, tmp_path: Path) -> None:
    name, inputs, header, text, changed, alarm = FAULTS[fault]
    runtime = shutil.copytree(prove.RUNTIME, tmp_path / "runtime")
    source = (runtime / header).read_text()
    assert text in source
    (runtime / header).write_text(source.replace(text, changed))
    proof = prove.prove(Goal(name, "8", inputs), runtime=runtime, define="-DPROVE_SHORT")
    assert [line for line in proof.alarms if alarm in line]


def test_the_page_states_how_many_proofs_there_are() -> None:
    page = (ROOT / "docs/robustness.md").read_text()
    table = page.partition("<!-- stated: the proofs that make prove lists")[2].partition("\n\n")[0]
    numbers = [int(number) for number in re.findall(r"\| (\d+) \|$", table, re.MULTILINE)]
    assert f"`make prove` lists {sum(numbers)} proofs:" in page
    assert sum(numbers) == len(prove.goals())
    assert numbers[-1] == sum(goal.is_integer for goal in prove.goals())


def test_every_kernel_has_a_proof() -> None:
    harnesses = "".join(path.read_text() for path in prove.HARNESSES.glob("*.c"))
    proved = set(re.findall(r"^void prove_(lbnn_\w+)\(void\)", harnesses, re.MULTILINE))
    steps = {*prove.EXPONENTIALS, "lbnn_sqrtf_by_digits", *prove.INTEGER_STEPS}
    assert proved == set(KERNELS) | set(INTEGER_KERNELS) | steps
    goals = prove.goals()
    assert {goal.name for goal in goals} == proved | set(prove.MODEL_ENTRIES)
    finite = {goal.name for goal in goals if goal.inputs == "finite"} | prove.NOT_FINITE
    assert {name for name in proved if not name.startswith("lbnn_int")} <= finite
