"""Holds the examples' models in other people's runtimes to the float64 reference, and prints the table of docs/onnx.md.

    make runtimes                                 # installs them beside .venv
    make consumers                                # that, and writes the table
    python tools/check/consumers.py --only openvino,mnn

Trained networks: two MLPs, one of them also with variances at its input, a network of 1-D convolutions over time, and a
CNN that classifies. Status 1 if a runtime fails or is off by more than it may be. A runtime has one process for all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from lbnn.base.moments import Moments
from lbnn.base.temporary import temporary_folder
from lbnn.base.terminal import progress
from lbnn.exporters.onnx import to_onnx
from lbnn.exporters.options import OPSETS
from lbnn.graph.passes import prepare
from lbnn.graph.reference import classify, predict
from lbnn.measure.subject import ordinary_inputs
from lbnn.model.file import Model, read_model

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = ROOT / ".venv"
ROWS = 16
EXACT, HALF = 1e-5, 0.05
"""Errors that a runtime in float32 may have, and in standard deviations one in float16."""
PLACES = {
    "onnxruntime-node": "consumers/js/node_modules/onnxruntime-node",
    "onnxruntime-web": "consumers/js/node_modules/onnxruntime-web",
    "openvino": "consumers/python/openvino",
    "mnn": "consumers/python/MNN",
    "iree": "consumers/python/iree",
    "tvm": "consumers/python/tvm",
    "emx": "consumers/python/emx_onnx_cgen",
    "executorch": "consumers/python/executorch",
    "litert": "litert/litert_torch",
}
"""Where `make runtimes` puts them, in .venv; the others are in .venv itself."""


@dataclass(frozen=True)
class Subject:
    """A model, whether its input has a variance, and whether float16 is too coarse for its means."""

    name: str
    path: Path
    random: bool = False
    coarse: bool = False


SUBJECTS = (
    Subject("thermometer, MLP", ROOT / "examples/sensor_firmware/thermometer.pt", coarse=True),
    Subject("gas sensor, MLP", ROOT / "examples/edge_onnx/gas_sensor.pt"),
    Subject("gas sensor with input variance", ROOT / "examples/edge_onnx/gas_sensor.pt", True),
    Subject("monitor, CNN over time", ROOT / "examples/stream_monitor/monitor.pt"),
    Subject("digits, CNN that classifies", ROOT / "examples/digits_cnn/digits.pt"),
)

RUNTIMES: dict[str, tuple[str, tuple[int | None, ...]]] = {
    f"onnxruntime, opsets {OPSETS[0]} to {OPSETS[-1]}": ("onnxruntime", tuple(OPSETS)),
    **{name: (name, (17,)) for name in ("onnxruntime-node", "onnxruntime-web")},
    "OpenVINO": ("openvino", (17,)),
    "MNN": ("mnn", (17,)),
    "IREE": ("iree", (17,)),
    "TVM": ("tvm", (17,)),
    "emx-onnx-cgen, C": ("emx", (17,)),
    "ExecuTorch, portable": ("executorch", (None,)),
    "LiteRT, by litert-torch": ("litert", (None,)),
    "onnxruntime, converted to float16": ("float16", (17,)),
}
"""What is tried: the runtime and the opsets that it is given; None is the model file itself."""


@dataclass(frozen=True)
class Job:
    """A model at an opset in a folder of its own, where the runtime's process finds it and leaves what it gave."""

    subject: Subject
    opset: int | None
    folder: Path


@dataclass(frozen=True)
class Outcome:
    """What a runtime was off by, or the message with which it failed."""

    subject: Subject
    off: dict[str, float]
    failure: str = ""


def feed_of(model: Model, random: bool) -> dict[str, Any]:
    """Usual inputs, always the same."""
    x = ordinary_inputs(model)[:ROWS]
    spread = x.std(axis=0, keepdims=True)
    return {"input": x, "input_variance": np.broadcast_to(0.1 * spread**2, x.shape).copy()} if random else {"input": x}


def truth_of(model: Model, feed: dict[str, Any]) -> dict[str, Any]:
    """Mean, variance, and of a head the probabilities, in float64."""
    out = predict(model.graph, feed["input"], feed.get("input_variance"))
    classes = classify(model.graph, out)
    heads = {} if classes is None else {"probability": classes.probability}
    return {"mean": out.mean, "variance": out.var, **heads}


def errors(found: dict[str, Any], truth: dict[str, Any]) -> dict[str, float]:
    """Of means in |mean| + sd, of variances relative, of probabilities as they are.

    `sd` is that of means in standard deviations, `last digit` what float16 can't tell of the exact ones, in the same.
    """
    shaped = {name: np.asarray(found[name], np.float64).reshape(want.shape) for name, want in truth.items()}
    gaps = {name: np.abs(shaped[name] - want) for name, want in truth.items()}
    sd = np.sqrt(truth["variance"])
    scale = Moments(np.abs(truth["mean"]) + sd, truth["variance"])
    off = {"mean": gaps["mean"] / scale.mean, "variance": gaps["variance"] / scale.var, "sd": gaps["mean"] / sd}
    off["last digit"] = np.spacing(truth["mean"].astype(np.float16)).astype(np.float64) / 2 / sd
    off |= {"probability": gaps["probability"]} if "probability" in gaps else {}
    return {name: float(gap.max()) for name, gap in off.items()}


def lay_out(job: Job, kind: str) -> None:
    """The model and its inputs, for another process."""
    job.folder.mkdir()
    model = read_model(job.subject.path)
    write(job.folder / f"inputs.{kind}", feed_of(model, job.subject.random))
    if job.opset is None:
        shutil.copy(job.subject.path, job.folder / "model.pt")
        return
    onnx.save(to_onnx(prepare(model.graph, job.subject.random), model.sha256, job.opset), job.folder / "model.onnx")


def outcome(job: Job, kind: str, said: str) -> Outcome:
    """What the process left of a job; where it left nothing, it ended there, and `said` is why."""
    told, failed = job.folder / f"outputs.{kind}", job.folder / "failed.txt"
    if not told.exists():
        return Outcome(job.subject, {}, failed.read_text() if failed.exists() else said)
    model = read_model(job.subject.path)
    return Outcome(job.subject, errors(read(told), truth_of(model, feed_of(model, job.subject.random))))


def run(runtime: str, opsets: tuple[int | None, ...], subjects: tuple[Subject, ...]) -> tuple[str, list[Outcome]]:
    """The runtime's version, and what became of every subject at every opset, all in one process."""
    node = PLACES.get(runtime, "").startswith("consumers/js")
    kind = "json" if node else "npz"
    with temporary_folder() as folder:
        jobs = [Job(*pair, folder / str(place)) for place, pair in enumerate(product(subjects, opsets))]
        for job in jobs:
            lay_out(job, kind)
        start = ("node",) if node else (sys.executable, "-W", "ignore")
        script = Path(__file__).with_name("consumer_node.js" if node else "consumer_runs.py")
        command = [*start, str(script), runtime, *(str(job.folder) for job in jobs)]
        done = subprocess.run(
            command, cwd=folder, env=environment(runtime), capture_output=True, text=True, timeout=900, check=False
        )
        said = (done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"])[-1][:120]
        version = done.stdout.strip().splitlines()[-1] if done.stdout.strip() and not done.returncode else ""
        return version, [outcome(job, kind, said) for job in jobs]


def environment(runtime: str) -> dict[str, str]:
    """Of the other process: our own package, and the runtime's packages alone."""
    folder = "litert" if runtime == "litert" else "consumers/python"
    paths = f"{ROOT}{os.pathsep}{INSTALLED / folder}"
    return {**os.environ, "PYTHONPATH": paths, "CONSUMERS_JS": str(INSTALLED / "consumers/js")}


def write(path: Path, feed: dict[str, Any]) -> None:
    """Inputs, as the other process reads them."""
    if path.suffix == ".npz":
        np.savez(path, **feed)
        return
    plain = {name: {"shape": list(x.shape), "values": x.ravel().tolist()} for name, x in feed.items()}
    path.write_text(json.dumps(plain))


def read(path: Path) -> dict[str, Any]:
    """What it gave."""
    if path.suffix == ".json":
        return dict(json.loads(path.read_text()))
    with np.load(path) as arrays:
        return dict(arrays)


def is_right(runtime: str, subject: Subject, off: dict[str, float]) -> bool:
    """Within what the runtime may be off by; in float16 a model with coarse means by half's last digit more."""
    if runtime == "float16":
        room = HALF + (off["last digit"] if subject.coarse else 0.0)
        return off["sd"] <= room and all(off[name] <= 2 * HALF for name in ("variance", "probability") if name in off)
    return all(off[name] <= EXACT for name in ("mean", "variance", "probability") if name in off)


def wrong(runtime: str, outcomes: list[Outcome]) -> list[str]:
    """What to say of those that failed or are off by too much."""
    failed = [f"{each.subject.name}: {each.failure}" for each in outcomes if each.failure]
    tried = [each for each in outcomes if not each.failure and not is_right(runtime, each.subject, each.off)]
    return failed + [
        f"{each.subject.name}: off by {max(each.off['mean'], each.off['variance']):.1e}, {each.off['sd']:.2g} sd"
        for each in tried
    ]


def largest(outcomes: list[Outcome], name: str) -> float | None:
    """Over all that have it."""
    return max((each.off[name] for each in outcomes if name in each.off), default=None)


def half_means(outcomes: list[Outcome]) -> str:
    """Errors of means in standard deviations; a model that is too coarse for float16 by itself."""
    fine = largest([each for each in outcomes if not each.subject.coarse], "sd")
    coarse = [f"{each.subject.name} {each.off['sd']:.2f} sd" for each in outcomes if each.subject.coarse and each.off]
    return "; ".join([*([] if fine is None else [f"{fine:.2f} sd"]), *coarse])


def line(title: str, version: str, outcomes: list[Outcome]) -> str:
    """A row of the table."""
    runtime = RUNTIMES[title][0]
    worst = [largest(outcomes, name) for name in ("mean", "variance", "probability")]
    numbers = ["-" if value is None else f"{value:.0e}" for value in worst]
    if runtime == "float16":
        numbers[0] = half_means(outcomes)
    return f"| {title} | {version} | {' | '.join(numbers)} | {'; '.join(wrong(runtime, outcomes)) or 'all agree'} |"


def try_runtime(title: str) -> tuple[str, bool]:
    """All models in one runtime: its row, and whether all is right."""
    runtime, opsets = RUNTIMES[title]
    version, outcomes = run(runtime, opsets, SUBJECTS)
    return line(title, version, outcomes), not wrong(runtime, outcomes)


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts of names, such as openvino,mnn")
    wanted = [part for part in parser.parse_args().only.split(",") if part]
    titles = [title for title in RUNTIMES if not wanted or any(part in title.lower() for part in wanted)]
    with progress("runtimes", titles) as each:
        rows = [try_runtime(title) for title in each]
    print("| runtime | version | mean | variance | probability | models |\n|---|---|---:|---:|---:|---|")
    print("\n".join(text for text, _ in rows))
    return 0 if all(fine for _, fine in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
