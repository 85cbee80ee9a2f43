"""When columns of a stream are complete, what it remembers, and which networks have none."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lbnn import nn as bnn
from lbnn import ops
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.graph.passes import prepare
from lbnn.graph.stream import COLUMNWISE, JOINING, POINTWISE, Ring, Tick, make_stream
from lbnn.model.file import read_model
from streams import CASES


def stream(*layers: nn.Module, shape=(2, 24), hop=None):
    model = read_model(layers[0] if len(layers) == 1 else bnn.Sequential(*layers), shape)
    return make_stream(prepare(model.graph, input_variance=False), hop)


def test_a_causal_convolution_answers_every_sample_and_remembers_dilation_times_taps_less_one():
    found = stream(bnn.ZeroPad1d((6, 0)), bnn.Conv1d(2, 3, 4, dilation=2))
    assert found.result == Tick(1, 1) and found.columns == 24
    assert list(found.rings.values()) == [Ring("window", "input", Tick(1, 1), 6, 4, 2)]


@pytest.mark.parametrize(
    ("layers", "tick"),
    [
        ((bnn.Conv1d(2, 3, 3, dilation=4),), Tick(9, 1)),
        ((bnn.Conv1d(2, 3, 3, stride=2, padding=1),), Tick(2, 2)),
        ((bnn.Conv1d(2, 3, 1, stride=3),), Tick(1, 3)),
        ((bnn.Conv1d(2, 3, 3), bnn.AvgPool1d(4)), Tick(6, 4)),
        ((bnn.Conv1d(2, 3, 3, stride=2), bnn.AvgPool1d(3, stride=2)), Tick(7, 4)),
        ((bnn.ZeroPad1d((1, 0)), bnn.AvgPool1d(3, stride=3)), Tick(2, 3)),
    ],
)
def test_columns_are_complete_with_the_sample_that_the_arithmetic_says(layers, tick):
    """By brute force: the first sample that changes a column last is the one that completes it."""
    found, module = stream(*layers), bnn.Sequential(*layers).eval()
    assert found.result == tick
    base = torch.randn(1, 2, 24)
    for j in range(found.columns):
        moved = [_changes(module, base, t, j) for t in range(24)]
        assert max(t for t, changed in enumerate(moved) if changed) + 1 == tick.first + j * tick.every


def _changes(module: nn.Module, base: torch.Tensor, t: int, column: int) -> bool:
    other = base.clone()
    other[:, :, t] += 100.0
    with torch.no_grad():
        outs: list[Any] = [out.mean if isinstance(out, Moments) else out for out in (module(base), module(other))]
    return not np.array_equal(outs[0][..., column], outs[1][..., column])


def test_a_pool_whose_windows_do_not_overlap_keeps_a_sum_and_another_the_columns():
    kinds = {
        (4, None): "sum",
        (4, 5): "sum",
        (4, 3): "window",
    }
    for (kernel, stride), kind in kinds.items():
        found = stream(bnn.Conv1d(2, 3, 1), bnn.AvgPool1d(kernel, stride=stride))
        assert [ring.kind for ring in found.rings.values()] == [kind]


def test_a_pool_behind_zeros_keeps_its_columns():
    (ring,) = stream(bnn.ZeroPad1d((1, 0)), bnn.AvgPool1d(3, stride=3)).rings.values()
    assert ring == Ring("window", "input", Tick(1, 1), 2, 3)


def test_a_pool_whose_elements_move_together_sums_the_roots_of_variances():
    for correlated in (False, True):
        pool = bnn.AvgPool1d(4, correlated=correlated)
        (ring,) = stream(bnn.Conv1d(2, 3, 1), pool).rings.values()
        assert ring.kind == "sum" and ring.roots == correlated


def test_a_branch_that_comes_early_waits():
    found = stream(CASES["residual"].make(), shape=(3, 24))
    assert [ring.slots for ring in found.rings.values() if ring.kind == "delay"] == [1]


def test_operators_that_join_have_the_names_of_the_table():
    assert set(JOINING) | set(COLUMNWISE) <= set(ops.OPS) and set(POINTWISE) <= {op.kind for op in ops.OPS.values()}


def test_a_window_end_gives_a_result_each_window_or_each_hop():
    layers = (bnn.Conv1d(2, 3, 5, stride=2), bnn.Flatten(), bnn.Linear(30, 1))
    assert stream(*layers).result == Tick(24, 24) and stream(*layers).restarts
    assert stream(*layers, hop=4).result == Tick(24, 4) and not stream(*layers, hop=4).restarts


def test_a_global_pool_needs_no_columns_unless_windows_overlap():
    layers = (bnn.Conv1d(2, 3, 3), bnn.AdaptiveAvgPool1d(1), bnn.Flatten(), bnn.Linear(3, 1))
    for hop, pool in ((None, "sum"), (22, "sum"), (1, "window"), (21, "window")):
        assert [ring.kind for ring in stream(*layers, hop=hop).rings.values()] == ["window", pool]


class Weighed(nn.Module):
    """Every column times one number a channel, which is made of the whole window."""

    def __init__(self, gate: nn.Module) -> None:
        super().__init__()
        self.conv, self.gate, self.times = bnn.Conv1d(2, 2, 1), gate, bnn.Multiply()

    def forward(self, x: Any) -> Any:
        return self.times(self.conv(x), self.gate(x))


class Twice(nn.Module):
    """Joins values of different rates, or along time."""

    def __init__(self, join: str) -> None:
        super().__init__()
        self.join, self.one, self.two = join, bnn.Conv1d(2, 2, 1, stride=2), bnn.Conv1d(2, 2, 13)

    def forward(self, x: Any) -> Any:
        one, two = self.one(x), self.two(x)
        return one + two if self.join == "add" else bnn.cat([one, one], dim=2)


REFUSED = {
    "padding behind": ((bnn.Conv1d(2, 3, 3, padding=1),), {}, "layer conv .*1 column of padding behind"),
    "pad behind": ((bnn.ZeroPad1d((1, 2)), bnn.Conv1d(2, 3, 3)), {}, "layer 0 .*pads 2 columns behind"),
    "too much before": ((bnn.ZeroPad1d((3, 0)), bnn.Conv1d(2, 3, 3)), {}, "layer 1 .*3 columns of zeros"),
    "padded pool": ((bnn.Conv1d(2, 3, 1), bnn.AvgPool1d(2, padding=1)), {}, "layer 1"),
    "ceil": ((bnn.Conv1d(2, 3, 1), bnn.AvgPool1d(5, ceil_mode=True)), {}, "layer 1 .*behind the window"),
    "pad then activation": ((bnn.ZeroPad1d((1, 0)), bnn.ReLU()), {}, "layer 1 .*follows zero padding"),
    "pad at the end": ((bnn.Conv1d(2, 3, 1), bnn.ZeroPad1d((1, 0))), {}, "begins with zero padding"),
    "linear over time": ((bnn.Linear(24, 3),), {}, "layer .*computes across time"),
    "affine over time": ((bnn.Affine(torch.rand(1, 24), torch.zeros(1)),), {}, "differ from column to column"),
    "rates": ((Twice("add"),), {}, "every 2 and 1 samples"),
    "along time": ((Twice("cat"),), {}, "joins along time"),
    "gate of a window": ((Weighed(bnn.AvgPool1d(24)),), {}, "layer times .*24 and 1 columns"),
    "gate of one stride": ((Weighed(bnn.Conv1d(2, 2, 24)),), {}, "layer times .*24 and 1 columns"),
    "gate at each hop": (
        (Weighed(bnn.Conv1d(2, 2, 24)), bnn.Flatten(), bnn.Linear(48, 1)),
        {"hop": 1},
        "layer 0.times .*24 and 1 columns",
    ),
    "vector": ((bnn.Linear(4, 3),), {"shape": (4,)}, "input is 4, and a stream has channels and time"),
    "image": ((bnn.Conv2d(1, 3, 3),), {"shape": (1, 8, 8)}, "input is 1x8x8"),
    "hop of columns": ((bnn.Conv1d(2, 3, 3),), {"hop": 2}, "takes no hop"),
    "hop too long": ((bnn.Flatten(), bnn.Linear(48, 1)), {"hop": 25}, "from 1 to 24"),
    "hop of strides": (
        (bnn.Conv1d(2, 3, 3, stride=2), bnn.Flatten(), bnn.Linear(33, 1)),
        {"hop": 3},
        "no multiple of 2",
    ),
    "hop of a padded network": (
        (bnn.ZeroPad1d((2, 0)), bnn.Conv1d(2, 3, 3), bnn.Flatten(), bnn.Linear(72, 1)),
        {"hop": 3},
        "layer 0 .*leave out the hop",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_network_that_has_no_stream_is_refused_in_one_line_that_says_why(name):
    layers, options, why = REFUSED[name]
    with pytest.raises(LbnnError) as error:
        stream(*layers, **options)
    assert re.search(why, str(error.value)) and "\n" not in str(error.value)


def test_names_of_a_users_layers_are_kept():
    class Clash(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.conv_window = bnn.Conv1d(2, 2, 3), bnn.Conv1d(2, 2, 3)

        def forward(self, x: Any) -> Any:
            return self.conv_window(self.conv(x))

    names = [node.name for node in stream(Clash()).graph.nodes]
    assert {"conv", "conv_window"} <= set(names) and len(set(names)) == 4
