"""Prints what int8 tools that know nothing of variances make of an exported ONNX file, as docs/onnx.md shows it.

    python tools/tables/generic_int8.py

onnxruntime's own tools, with the settings their documentation gives: static (inputs to calibrate with, QDQ, a scale a
channel) and dynamic. The predictions of the quantised file are held to those of the float32 file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from lbnn.base.arrays import AnyArray
from lbnn.base.moments import Moments
from lbnn.base.terminal import progress
from lbnn.exporters.onnx import to_onnx
from lbnn.graph.passes import prepare
from lbnn.measure.loss import measure_loss
from lbnn.model.file import Model, read_model
from lbnn.model.inputs import input_scale

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODELS = {
    "thermometer": EXAMPLES / "sensor_firmware/thermometer.pt",
    "gas sensor": EXAMPLES / "edge_onnx/gas_sensor.pt",
    "digits": EXAMPLES / "digits_cnn/digits.pt",
}
HEAD = (
    "model",
    "tool",
    "largest error of a mean",
    "ratio of variances",
    "variances that become 0: result, inside",
    "KL mean",
)
CALIBRATION, TESTED = 200, 200


class _Readings(CalibrationDataReader):  # type: ignore[misc]
    """The inputs that a static tool takes its scales from, one by one."""

    def __init__(self, inputs: AnyArray) -> None:
        self._rest: Iterator[AnyArray] = iter(inputs)

    def get_next(self) -> dict[str, AnyArray] | None:
        row = next(self._rest, None)
        return None if row is None else {"input": row[None]}


def _static(source: Path, target: Path, inputs: AnyArray) -> None:
    kinds = {"weight_type": QuantType.QInt8, "activation_type": QuantType.QInt8}
    quantize_static(source, target, _Readings(inputs), quant_format=QuantFormat.QDQ, per_channel=True, **kinds)


def _dynamic(source: Path, target: Path, _inputs: AnyArray) -> None:
    # Its uint8 form: onnxruntime has no signed dynamic convolution.
    quantize_dynamic(source, target, weight_type=QuantType.QUInt8)


TOOLS: dict[str, Callable[[Path, Path, AnyArray], None]] = {"static": _static, "dynamic": _dynamic}


def usual(model: Model, count: int, seed: int) -> AnyArray:
    """Inputs as the model expects them."""
    centre, spread = input_scale(model.graph)
    noise = np.random.default_rng(seed).normal(size=(count, *model.graph.input.shape))
    drawn: AnyArray = (centre + spread * noise).astype(np.float32)
    return drawn


def run(file: Path, inputs: AnyArray) -> Moments[AnyArray]:
    """Mean and variance from onnxruntime."""
    session = ort.InferenceSession(file, providers=["CPUExecutionProvider"])
    mean, var = session.run(["mean", "variance"], {"input": inputs})
    return Moments(mean, var)


def gone(file: Path, inputs: AnyArray) -> float:
    """The share of variances inside that are 0: of those whose roots activations take."""
    network = onnx.load(file)
    names = [node.input[0] for node in network.graph.node if node.op_type == "Sqrt"]
    outputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names]
    network.graph.output.extend(outputs)
    session = ort.InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(names, {"input": inputs})
    return float(np.mean(np.concatenate([np.ravel(values) for values in found]) <= 0.0))


def row(name: str, tool: str, exact: Moments[AnyArray], stored: Moments[AnyArray], inside: float) -> str:
    """One line of the table; `inside` is the share of variances there that are 0."""
    found = measure_loss(exact, stored)
    ratios = f"{found.least_ratio:.2g} to {found.largest_ratio:.2g}"
    zeros = f"{float(np.mean(stored.var <= 0)):.0%}, {inside:.0%}"
    cells = (name, tool, f"{found.mean_error:.1f} sd", ratios, zeros, f"{found.kl_mean:.2g}")
    return f"| {' | '.join(cells)} |"


def rows(name: str, folder: Path) -> Iterator[str]:
    """A line for each tool."""
    model = read_model(MODELS[name])
    plain, ready = folder / "float32.onnx", folder / "ready.onnx"
    onnx.save(to_onnx(prepare(model.graph, False), model.sha256), plain)
    quant_pre_process(plain, ready)
    inputs = usual(model, TESTED, 1)
    exact = run(plain, inputs)
    for tool, quantise in TOOLS.items():
        quantise(ready, folder / "int8.onnx", usual(model, CALIBRATION, 0))
        quantised = folder / "int8.onnx"
        yield row(name, tool, exact, run(quantised, inputs), gone(quantised, inputs))


def main() -> None:
    """Prints the table."""
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    with tempfile.TemporaryDirectory() as folder, progress("models", list(MODELS)) as names:
        for name in names:
            print("\n".join(rows(name, Path(folder))))


if __name__ == "__main__":
    main()
