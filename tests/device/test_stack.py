"""The stack of a call graph, and the stack and work memory that a folder states against what runs really take."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import measure_kernels
from c_models import Zoo, generated, mlp
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.device.devices import run_model
from lbnn.device.generated import GeneratedModel
from lbnn.device.results import DeviceResult
from lbnn.device.runs import EmulationFault
from lbnn.device.stack import stack_bound
from lbnn.exporters.c.footprint import KERNELS
from lbnn.exporters.c.int_footprint import INTEGER_KERNELS
from lbnn.model.file import read_model
from places import need
from tiny_net import need_device, write_net

# ---- call graphs -------------------------------------------------------------------------------------

CALLGRAPH = """graph: { title: "net.c"
node: { title: "predict" label: "predict\\nnet.c:1:1\\n16 bytes (static)" }
node: { title: "net.c:kernel" label: "kernel\\nnet.c:2:1\\n40 bytes (static)" }
node: { title: "net.c:small" label: "small\\nnet.c:3:1\\n8 bytes (static)" }
node: { title: "sqrtf" label: "sqrtf\\n<built-in>" shape : ellipse }
edge: { sourcename: "predict" targetname: "net.c:kernel" label: "net.c:4:1" }
edge: { sourcename: "predict" targetname: "net.c:small" label: "net.c:5:1" }
edge: { sourcename: "net.c:small" targetname: "sqrtf" label: "net.c:6:1" }
}
"""


def write_graph(folder: Path, text: str) -> Path:
    path = folder / "net.ci"
    path.write_text(text)
    return path


def test_the_stack_bound_follows_the_deepest_calls_and_names_what_it_cannot_know(tmp_path: Path) -> None:
    bound = stack_bound([write_graph(tmp_path, CALLGRAPH)], "predict")
    assert (bound.bytes, bound.path, bound.unknown) == (56, ("predict", "net.c:kernel"), {"sqrtf"})


def test_recursion_has_no_stack_bound(tmp_path: Path) -> None:
    again = 'edge: { sourcename: "net.c:kernel" targetname: "predict" label: "" }\n'
    with pytest.raises(LbnnError, match="recursive"):
        stack_bound([write_graph(tmp_path, CALLGRAPH + again)], "predict")


def test_a_function_that_is_not_in_the_graph_says_how_to_get_it_there(tmp_path: Path) -> None:
    with pytest.raises(LbnnError, match="other is not in the call graph; compile it with -fstack-usage"):
        stack_bound([write_graph(tmp_path, CALLGRAPH)], "other")


@pytest.mark.parametrize("name", ["cortex-m4-gcc", "cortex-m7-gcc", "cortex-m33-gcc", "mps2-an386", "mps3-an547"])
@pytest.mark.parametrize("input_variance", [False, True])
def test_the_measured_stack_is_the_bound_from_the_call_graph(
    name: str, input_variance: bool, tmp_path: Path, samples: np.ndarray
) -> None:
    variances = samples[:9] ** 2 if input_variance else None
    result = run_model(need_device(name), write_net(tmp_path, input_variance), samples[:9], variances)
    assert result.stack_bound is not None and not result.stack_bound.unknown
    assert [title.split(":")[-1].split(".")[0] for title in result.stack_bound.path] == ["net_predict", "dot"]
    assert result.stack_bytes == result.stack_bound.bytes > 0


def test_soft_float_functions_are_named_as_unknown_in_the_stack_bound(net: GeneratedModel, samples: np.ndarray) -> None:
    need("arm-none-eabi-gcc")
    bound = run_model("cortex-m0-gcc", net, samples[:1]).stack_bound
    assert bound is not None and "__aeabi_fmul" in bound.unknown


# ---- what a folder states ----------------------------------------------------------------------------


class Residual(nn.Module):
    """A sum and a concatenation around linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = bnn.Sequential(bnn.Linear(6, 6), bnn.ReLU())
        self.head = bnn.Sequential(bnn.Linear(12, 4), bnn.VarianceHead())

    def forward(self, x: Any) -> Any:
        y = self.inner(x)
        return self.head(bnn.cat([x + y, y]))


def cnn() -> nn.Module:
    return bnn.Sequential(
        bnn.Conv2d(1, 4, 3, padding=1),
        bnn.LeakyReLU(0.1),
        bnn.AvgPool2d(2),
        bnn.Conv2d(4, 6, 3, padding=1),
        bnn.LeakyReLU(0.1),
        bnn.Flatten(),
        bnn.Linear(96, 3),
    )


def separable() -> nn.Module:
    return bnn.Sequential(bnn.Conv2d(4, 4, 3, padding=1, groups=4), bnn.LeakyReLU(0.1), bnn.Conv2d(4, 6, 1))


MODELS: dict[str, Any] = {
    "mlp": lambda: (mlp(4, 9, 3, 1), (4,)),
    "cnn": lambda: (cnn(), (1, 8, 8)),
    "residual": lambda: (Residual(), (6,)),
    "zoo": lambda: (Zoo(), (2, 8, 8)),
}
# The options of each export: with and without input variance, for size, and with weights in a file of their own.
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {"input_variance": variance}) for name in MODELS for variance in (False, True)),
    *((name, {"optimize": "size"}) for name in MODELS),
    ("mlp", {"weights": "binary", "input_variance": True}),
]
SOFT_FLOAT_STACK = 48  # of the compiler's own routines: no -fstack-usage speaks of them


def export(name: str, options: dict[str, Any], out: Path) -> GeneratedModel:
    torch.manual_seed(4)
    return generated(read_model(*MODELS[name]()), out, name="net", **options)


def title(case: Any) -> str:
    name, options = case
    return " ".join([name, *(f"{key}={value}" for key, value in options.items() if value)])


@pytest.fixture(scope="module", params=CASES, ids=title)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GeneratedModel:
    name, options = request.param
    return export(name, options, tmp_path_factory.mktemp(name) / "c")


def painted(device: str, exported: GeneratedModel, *flags: str) -> DeviceResult:
    """A run on memory that was painted before: inputs take every branch of the kernels, far out and near zero."""
    need("arm-none-eabi-gcc")
    sizes = [[0.0], [1.0], [30.0], [1e5]]
    inputs = (np.random.default_rng(0).normal(size=(4, exported.input_len)) * sizes).astype(np.float32)
    return run_model(device, exported, inputs, inputs**2 if exported.input_variance else None, flags)


def stated(exported: GeneratedModel, key: str = "stack_bytes") -> int:
    return int(json.loads((exported.folder / "net_footprint.json").read_text())[key])


@pytest.mark.parametrize("level", ["-O2", "-Os"])
def test_a_run_on_a_cortex_m4f_takes_no_more_stack_than_the_footprint_states(
    level: str, exported: GeneratedModel
) -> None:
    result = painted("cortex-m4-gcc", exported, level)
    assert result.stack_bytes and result.stack_bound and not result.stack_bound.unknown
    assert result.stack_bytes <= result.stack_bound.bytes <= stated(exported)
    assert result.stack_bytes >= result.stack_bound.bytes - 16, "the call graph's deepest path is one that runs"


@pytest.mark.parametrize("device", ["cortex-m0-gcc", "cortex-m4-gcc"])
@pytest.mark.parametrize("level", ["-O2", "-Os"])
def test_the_statement_holds_where_the_compiler_is_asked_for_small_code(
    device: str, level: str, tmp_path: Path
) -> None:
    """LBNN_OPTIMIZE_SIZE makes special convolutions call the general one, which takes more stack than they do."""
    torch.manual_seed(4)
    net = generated(read_model(separable(), (4, 6, 6)), tmp_path / "c", name="net", input_variance=True)
    result = painted(device, net, level, "-DLBNN_OPTIMIZE_SIZE")
    assert result.stack_bytes and result.stack_bytes <= stated(net)


@pytest.mark.parametrize("device", ["cortex-m0-gcc", "cortex-m3-gcc", "cortex-m7-gcc", "cortex-m33-gcc"])
def test_the_statement_holds_on_the_other_cores(device: str, exported: GeneratedModel) -> None:
    """Where float is software its routines come on top."""
    own = SOFT_FLOAT_STACK if device in ("cortex-m0-gcc", "cortex-m3-gcc") else 0
    result = painted(device, exported)
    assert result.stack_bytes and result.stack_bytes <= stated(exported) + own


def test_without_optimisation_the_statement_does_not_hold(exported: GeneratedModel) -> None:
    """At -O0 every number of an inlined formula has a place of its own: kilobytes, as docs/devices.md says."""
    stack = painted("cortex-m4-gcc", exported, "-O0").stack_bytes
    assert stack and stated(exported) < stack < 20 * 1024


def test_the_work_memory_is_used_to_its_last_float_and_no_further(exported: GeneratedModel) -> None:
    result = painted("cortex-m4-gcc", exported)
    assert result.work_used == result.work_bytes == stated(exported, "work_bytes")


def test_vector_registers_may_leave_scratch_unused_but_take_no_more(exported: GeneratedModel) -> None:
    result = painted("c", exported)
    assert result.work_used and result.work_used <= result.work_bytes == stated(exported, "work_bytes")


@pytest.mark.parametrize("device", ["c", "cortex-m4-gcc"])
def test_a_write_beyond_the_work_memory_is_found(device: str, tmp_path: Path) -> None:
    net = export("mlp", {}, tmp_path / "c")
    short = net.work_len - 1
    with pytest.raises(EmulationFault, match=rf"writes work\[{short}\], but it has {short} elements"):
        painted(device, replace(net, work_len=short))


def test_the_table_of_kernels_holds_for_the_compiler_that_is_here() -> None:
    need("arm-none-eabi-gcc")
    measured = measure_kernels.table(["cortex-m0", "cortex-m4"])
    stated = KERNELS | INTEGER_KERNELS
    assert set(measured) == set(stated)
    more = {name: found for name, found in measured.items() if any(map(int.__gt__, found, stated[name]))}
    assert not more, "run tools/bench/measure_kernels.py"
