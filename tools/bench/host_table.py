"""Prints how many times faster than onnxruntime the generated C is on this host, as Markdown: one sample, and a batch.

Both run in one thread and in turns, and the processor's time of that thread counts, so that a busy machine hardly
matters; each ratio is the median of those within a round. M1 to M5 and the networks of MLPerf Tiny, about 3 minutes.
"""

from __future__ import annotations

import time
from statistics import median

from bench_models import MODELS, Models, build
from lbnn.base.terminal import progress
from lbnn.exporters.compiled import compile
from lbnn.exporters.onnx import to_onnx
from lbnn.graph.passes import prepare
from lbnn.measure.host_times import HOST_FLAGS
from lbnn.measure.subject import TIMED_BATCH, ordinary_inputs
from lbnn.measure.timing import Run, one_onnx_thread
from lbnn.model.file import read_model
from tiny_models import TINY

ROUNDS, ROUND_SECONDS = 11, 0.02
EACH: Models = {**MODELS, **TINY}


def seconds(run: Run, repeats: int) -> float:
    """Of this thread's processor time, for one call."""
    start = time.thread_time()
    for _ in range(repeats):
        run()
    return (time.thread_time() - start) / repeats


def compared(onnx: Run, ours: Run) -> tuple[float, float]:
    """How many times faster ours is, and the seconds it takes."""
    seconds(onnx, 1)
    repeats = max(1, min(2000, round(ROUND_SECONDS / max(seconds(ours, 1), 1e-6))))
    rounds = [(seconds(onnx, repeats), seconds(ours, repeats)) for _ in range(ROUNDS)]
    return median(theirs / own for theirs, own in rounds), min(own for _, own in rounds)


def row(name: str) -> list[str]:
    """One model."""
    models = MODELS if name in MODELS else TINY
    model = read_model(build(name, models), models[name][1])
    proto = to_onnx(prepare(model.graph, input_variance=False), model.sha256)
    compiled, inputs = compile(model, flags=HOST_FLAGS), ordinary_inputs(model)
    cells = [f"{name.upper()}: {models[name][0]}"]
    for batch in (1, TIMED_BATCH):
        times, taken = compared(one_onnx_thread(proto, inputs[:batch]), compiled.bind(inputs[:batch]))
        cells += [f"{times:.2g}" if times < 10 else f"{times:.0f}", f"{1e6 * taken / batch:.3g}"]
    return cells


def main() -> None:
    """Every model."""
    heads = [
        f"batch {batch}: {what}" for batch in (1, TIMED_BATCH) for what in ("times faster", "microseconds a sample")
    ]
    with progress("models", list(EACH)) as names:
        rows = [["", *heads], ["---", *("---:" for _ in heads)], *(row(name) for name in names)]
    print("\n".join(f"| {' | '.join(line)} |" for line in rows))


if __name__ == "__main__":
    main()
