"""The warning of docs/onnx.md still holds: int8 by a tool that knows nothing of variances is far off."""

import numpy as np
import pytest

import generic_int8


@pytest.mark.ecosystem(
    "ONNX: onnxruntime's int8 tools",
    "thermometer and gas sensor, static and dynamic quantisation",
    package="onnxruntime",
    result="**do not use**: means and variances are lost without a word ([why](onnx.md#not-for-int8-tools))",
)
@pytest.mark.parametrize("name", ["thermometer", "gas sensor"])
def test_generic_int8_loses_the_prediction(name, tmp_path):
    static, dynamic = (line.split(" | ") for line in generic_int8.rows(name, tmp_path))
    assert (static[1], dynamic[1]) == ("static", "dynamic")
    assert float(static[2].split()[0]) > 1.0 and float(static[-1].strip(" |")) > 1.0
    assert float(dynamic[-1].strip(" |")) > 2 * 0.005


@pytest.mark.parametrize(("variances", "share"), [([0.0, 1.0], "50%"), ([1e-9, 1.0], "0%"), ([0.0, 0.0], "100%")])
def test_the_share_of_variances_that_are_gone_is_counted(variances, share):
    exact = generic_int8.Moments(np.zeros((2, 1)), np.ones((2, 1)))
    stored = generic_int8.Moments(np.zeros((2, 1)), np.array(variances)[:, None])
    assert f" | {share}, 7% | " in generic_int8.row("net", "static", exact, stored, 0.07)
