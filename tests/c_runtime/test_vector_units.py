"""The kernels use the vector registers of Helium and AVX2: their sums and the activation are made of vectors."""

import re
import subprocess

import pytest
import torch

from lbnn import nn as bnn
from lbnn.exporters.c import COptions, export_c
from lbnn.model.file import read_model
from places import need

KERNELS = ("lbnn_conv2d_3x3_point", "lbnn_conv2d_3x3", "lbnn_leaky_relu", "lbnn_linear")
HELIUM = ("arm-none-eabi-", ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-O2"], r"v(fma|mul|add)\.f32\s+q\d")
AVX2 = ("", ["-march=haswell", "-O3"], r"v(fmadd\w*|mul|add)ps .*%ymm\d")


@pytest.fixture(scope="module")
def cnn(tmp_path_factory):
    torch.manual_seed(0)
    layers = [bnn.Conv2d(1, 8, 3, padding=1), bnn.LeakyReLU(0.1), bnn.Conv2d(8, 8, 3, padding=1), bnn.Flatten()]
    model = read_model(bnn.Sequential(*layers, bnn.Linear(8 * 64, 8)), (1, 8, 8))
    return export_c(model, tmp_path_factory.mktemp("cnn") / "c", COptions(name="cnn"))


@pytest.mark.parametrize(("prefix", "flags", "arithmetic"), [HELIUM, AVX2], ids=["helium", "avx2"])
def test_every_kernel_computes_with_vectors(cnn, prefix, flags, arithmetic, tmp_path):
    gcc, objdump = need(f"{prefix}gcc"), need(f"{prefix}objdump")
    target = tmp_path / "cnn.o"
    subprocess.run([gcc, "-std=gnu99", "-fno-math-errno", *flags, "-c", cnn / "cnn.c", "-o", target], check=True)
    listing = subprocess.run([objdump, "-d", target], check=True, capture_output=True, text=True).stdout
    bodies = re.split(r"^[0-9a-f]+ <(\w+)[\w.]*>:$", listing, flags=re.MULTILINE)
    code = dict(zip(bodies[1::2], bodies[2::2], strict=True))
    assert [name for name in KERNELS if not re.search(arithmetic, code.get(name, ""))] == []
