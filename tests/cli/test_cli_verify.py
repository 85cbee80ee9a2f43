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


def test_verify_with_half_floats_shows_what_their_rounding_loses(model):
    result = run("verify", model, "--backends", "c", "--samples", 14, "--weights", "half", "--json")
    report = json.loads(result.stdout)
    assert result.returncode == 0 and report["passed"]
    loss = report["loss"]["ordinary"]
    assert (
        0.0 < loss["kl_mean"] <= loss["kl_worst"] < 1e-4 and 1.0 <= loss["least_ratio"] <= loss["largest_ratio"] < 1.01
    )


def test_verify_refuses_half_floats_of_a_backend_that_has_none(model):
    result = run("verify", model, "--backends", "torch", "--weights", "half")
    assert result.returncode == 2 and "'torch' has no --weights half" in result.stderr
