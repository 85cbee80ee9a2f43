"""`lbnn export`: what it writes, and that it keeps what is there."""

from shell import fails_in_one_line, run


def test_export_writes_onnx_and_c(model, tmp_path):
    assert run("export", model, "--target", "onnx", "-o", tmp_path / "m.onnx").returncode == 0
    assert (tmp_path / "m.onnx").stat().st_size > 0
    assert run("export", model, "--target", "c", "-o", tmp_path / "c").returncode == 0
    assert {"gas_sensor.h", "gas_sensor.c", "gas_sensor_weights.h"} <= {p.name for p in (tmp_path / "c").iterdir()}


def test_existing_output_is_kept_unless_forced(model, tmp_path):
    target = tmp_path / "m.onnx"
    target.write_text("precious")
    fails_in_one_line(run("export", model, "--target", "onnx", "-o", target), "--force")
    assert target.read_text() == "precious"
    assert run("export", model, "--target", "onnx", "-o", target, "--force").returncode == 0
    assert target.read_bytes() != b"precious"
