"""`lbnn verify`: one JSON object, and exit status 1 where a backend departs."""

import json

from shell import run


def test_verify_prints_one_json_object_and_exits_0(model):
    result = run("verify", model, "--backends", "torch,onnx,c", "--samples", 14, "--json")
    report = json.loads(result.stdout)
    assert result.returncode == 0 and report["passed"]
    assert [row["backend"] for row in report["backends"]] == ["torch", "onnx", "c"]


def test_verify_exits_1_when_the_tolerance_is_not_met(model):
    result = run("verify", model, "--backends", "torch", "--tolerance", "1e-12")
    assert result.returncode == 1
    assert "first departs at 0 (linear)" in result.stdout
