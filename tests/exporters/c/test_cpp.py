"""The header for C++11: arrays that know their length, a result or a status, no exceptions, every form of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_decide import CALIBRATION, RANGE, saved

from c_models import read, run
from lbnn import nn as bnn
from lbnn.exporters.c import COptions, export_c
from lbnn.graph.passes import prepare
from lbnn.graph.reference import classify, predict
from lbnn.model.file import Model, read_model
from places import need

FLAGS = ["-std=c++11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
FLAGS += ["-fno-exceptions", "-fno-rtti"]
COMPILERS = ("g++", "clang++")


def build(folder: Path, text: str, compiler: str) -> str:
    """What a program prints that includes the header first, so that it stands alone."""
    (folder / "main.cpp").write_text(f'#include "net.hpp"\n#include <cstdio>\n{text}')
    run(need("gcc"), "-std=c99", "-O1", "-c", "net.c", "net_selftest.c", cwd=folder)
    run(need(compiler), *FLAGS, "main.cpp", "net.o", "net_selftest.o", "-lm", "-o", "program", cwd=folder)
    return run(folder / "program")


PREDICTS = """
int main()
{
    static_assert(net::input_len == 4 && net::output_len == 1, "lengths");
    net::model model;
    if (model.selftest() != 0) return 1;
    net::input input{{0.5f, -1.0f, 2.0f, 0.25f}};
    SPREAD
    const net::answer answer = model.predict(input GIVEN);
    const auto again = net::predict(input GIVEN);
    if (!answer || !again || again->mean != answer->mean || (*again).variance != answer->variance) return 2;
    std::printf("%.9g %.9g\\n", static_cast<double>(answer->mean[0]), static_cast<double>(answer->variance[0]));
    input[2] = 1e30f * 1e30f;
    const auto refused = model.predict(input GIVEN);
    if (refused || refused.status != LBNN_ERROR_INPUT || refused->mean[0] != 0.0f) return 3;
    return 0;
}
"""
FORMS: dict[str, dict[str, Any]] = {
    "float": {},
    "input variance": {"input_variance": True},
    "int8": {"dtype": "int8"},
    "size": {"optimize": "size"},
}


@pytest.mark.ecosystem(
    "C: C++11", "header, g++ and clang++, all warnings are errors", program="g++", result="the numbers of the C"
)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("form", FORMS)
def test_a_prediction_is_a_result_or_a_status(form: str, compiler: str, tmp_path: Path) -> None:
    model, spread = read("gas_sensor"), "input_variance" in FORMS[form]
    folder = export_c(model, tmp_path / "net", COptions(name="net", **FORMS[form]))
    more = "const net::input variance{{0.1f, 0.2f, 0.3f, 0.4f}};" if spread else ""
    text = PREDICTS.replace("SPREAD", more).replace(" GIVEN", ", variance" if spread else "")
    mean, var = map(float, build(folder, text, compiler).split())
    x, v = np.array([[0.5, -1.0, 2.0, 0.25]]), np.array([[0.1, 0.2, 0.3, 0.4]])
    want = predict(prepare(model.graph, spread), x, v if spread else None)
    loose = 0.05 if form == "int8" else 1e-5
    sigma = float(np.sqrt(want.var[0, 0]))
    assert abs(mean - want.mean[0, 0]) <= loose * (abs(want.mean[0, 0]) + sigma)
    assert var == pytest.approx(want.var[0, 0], rel=loose)


@pytest.mark.parametrize("name", ["model", "predict", "selftest", "classify", "input", "work", "answer"])
def test_a_model_may_be_called_as_what_the_header_defines(name: str, tmp_path: Path) -> None:
    folder = export_c(classifier(), tmp_path / "net", COptions(name=name))
    text = (
        f"int main() {{ ::{name}::model net; return net.predict({{{{1, 2}}}}) && net.classify({{{{1, 2}}}}) ? 0 : 1; }}"
    )
    (folder / "main.cpp").write_text(f'#include "{name}.hpp"\n{text}')
    for compiler in COMPILERS:
        run(need(compiler), *FLAGS, "-fsyntax-only", "main.cpp", cwd=folder)


CLASSIFIES = """
int main()
{
    net::model model;
    const net::input input{{0.5f, -1.0f}};
    const auto found = model.classify(input);
    const auto again = net::classify(input);
    if (!found || again->probability != found->probability) return 1;
    for (float p : found->probability) std::printf("%.9g ", static_cast<double>(p));
    std::printf("%d", found->decision.label);
    return 0;
}
"""


def classifier() -> Model:
    torch.manual_seed(0)
    return read_model(bnn.Sequential(bnn.Linear(2, 5), bnn.ReLU(), bnn.Linear(5, 3), bnn.SoftmaxHead()), (2,))


@pytest.mark.ecosystem(
    "C: C++11", "header, g++ and clang++, all warnings are errors", program="g++", result="the numbers of the C"
)
def test_classes_have_probabilities_and_a_decision(tmp_path: Path) -> None:
    model = classifier()
    folder = export_c(model, tmp_path / "net", COptions(name="net"))
    *probability, label = map(float, build(folder, CLASSIFIES, "g++").split())
    graph = prepare(model.graph, False)
    want = classify(graph, predict(graph, np.array([[0.5, -1.0]])))
    assert want is not None
    np.testing.assert_allclose(probability, want.probability[0], atol=1e-3)
    assert int(label) == int(np.argmax(want.probability))


CALIBRATED = """
int main()
{
    const net::input input{{0.25f, 0.0f, 6.0f}};
    const auto found = net::predict(input);
    const net::interval ends = net::interval_of(*found);
    if (!(ends.low[0] < found->mean[0] && found->mean[0] < ends.high[0])) return 1;
    std::printf("%d %d", static_cast<int>(net::is_unsure(*found)), net::out_of_range(input));
    return 0;
}
"""


@pytest.mark.ecosystem(
    "C: C++11", "header, g++ and clang++, all warnings are errors", program="g++", result="the numbers of the C"
)
def test_what_was_calibrated_is_there_too(tmp_path: Path) -> None:
    model = read_model(saved(tmp_path, {"input_range": RANGE, "calibration": CALIBRATION}))
    folder = export_c(model, tmp_path / "net", COptions(name="net"))
    unsure, outside = build(folder, CALIBRATED, "g++").split()
    assert unsure in ("0", "1") and outside == "1"
