"""Golden folders: what the generator writes, byte for byte, so that every change of it is seen in review.

LBNN_UPDATE_GOLDEN=1 pytest tests/exporters/c/test_c_golden.py      writes them anew
"""

import os
from pathlib import Path

import numpy as np
import pytest

import lbnn
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.exporters.c import COptions, generate
from lbnn.graph import INPUT, GraphBuilder
from lbnn.model.file import Model
from places import TESTS

GOLDEN = TESTS / "golden" / "c"
UPDATE = os.environ.get("LBNN_UPDATE_GOLDEN") == "1"


def gaussian(*shape):
    """Weights by a formula, so that no random generator and no file can change them."""
    index = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return Moments((index * 37 % 64 - 32) / 64.0, (1 + index * 29 % 16) / 1024.0)


def weights(*shape):
    return {"weight": gaussian(*shape), "bias": gaussian(shape[0])}


def mlp():
    builder = GraphBuilder("mlp", (3,), random=True)
    value = builder.add("hidden", "linear", [INPUT], params=weights(10, 3))
    value = builder.add("act", "leaky_relu", [value], {"negative_slope": 0.01})
    return builder.finish(builder.add("out", "linear", [value], params=weights(2, 10)))


def cnn():
    builder = GraphBuilder("cnn", (1, 6, 6), random=True)
    geometry = dict(stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1)
    window = dict(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0), ceil_mode=False, count_include_pad=True)
    value = builder.add("conv", "conv", [INPUT], geometry, weights(2, 1, 3, 3))
    trunk = builder.add("act", "leaky_relu", [value], {"negative_slope": 0.0})
    value = builder.add("branch", "conv", [trunk], geometry, weights(2, 2, 3, 3))
    value = builder.add("sum", "add", [trunk, value])
    value = builder.add("pool", "avg_pool", [value], window)
    value = builder.add("flatten", "flatten", [value])
    value = builder.add("out", "linear", [value], params=weights(4, 18))
    return builder.finish(builder.add("head", "variance_head", [value]))


def factored(groups, *shape):
    index = np.arange(np.prod(shape[1:], dtype=int)).reshape(shape[1:])
    column = np.broadcast_to((1 + index * 29 % 16) / 16.0, (groups, *shape[1:]))
    return {"weight": Factored(gaussian(*shape).mean, gaussian(shape[0]).var, column), "bias": gaussian(shape[0])}


def rank1():
    """Groups that share factors, a 3x3 convolution, rows of a linear layer."""
    builder = GraphBuilder("rank1", (2, 5, 4), random=True)
    geometry = dict(stride=(1, 1), padding=(1, 1), dilation=(1, 1))
    value = builder.add("groups", "conv", [INPUT], {**geometry, "groups": 2}, factored(2, 6, 1, 3, 2))
    value = builder.add("act", "leaky_relu", [value], {"negative_slope": 0.1})
    value = builder.add("conv", "conv", [value], {**geometry, "groups": 1}, factored(1, 2, 6, 3, 3))
    value = builder.add("flatten", "flatten", [value])
    return builder.finish(builder.add("out", "linear", [value], params=factored(1, 3, 50)))


CASES = {
    "rank1": (rank1, COptions()),
    "mlp": (mlp, COptions(command="lbnn export mlp.pt --target c")),
    "cnn": (cnn, COptions()),
    "cnn_half": (cnn, COptions(weights="half")),
    "mlp_variance_binary": (mlp, COptions(input_variance=True, weights="binary")),
    "mlp_arduino": (mlp, COptions(package="arduino")),
    "mlp_platformio": (mlp, COptions(package="platformio")),
    "mlp_esp_idf": (mlp, COptions(package="esp-idf")),
    "mlp_zephyr": (mlp, COptions(package="zephyr")),
}


def own_files(case):
    """The generated files without the runtime's headers, which are copies; the version is left out."""
    make, options = CASES[case]
    graph = make()
    files = generate(Model(graph, "0" * 64, graph.name, {}), options)
    own = {name: data for name, data in files.items() if not Path(name).name.startswith("lbnn")}
    return {name: data.encode() if isinstance(data, str) else data for name, data in own.items()}


def versionless(data):
    return data.replace(f"lbnn {lbnn.__version__}".encode(), b"lbnn VERSION").replace(
        f'"lbnn": "{lbnn.__version__}"'.encode(), b'"lbnn": "VERSION"'
    )


@pytest.mark.parametrize("case", CASES)
def test_generated_files_are_those_in_the_golden_folder(case):
    folder = GOLDEN / case
    files = {name: versionless(data) for name, data in own_files(case).items()}
    # Packages hold the same C as the plain folder; only what is their own is kept twice.
    if options_package(case):
        files = {name: data for name, data in files.items() if not name.startswith(("src/", "include/"))}
    if UPDATE:
        write(folder, files)
    stored = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert set(files) == set(stored)
    for name, data in files.items():
        assert data.decode("latin-1") == stored[name].decode("latin-1"), f"{case}/{name} changed"


def options_package(case):
    return CASES[case][1].package


def write(folder, files):
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
