"""`lbnn verify`: a row per backend, with its errors, its cost, and the node at which it departs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lbnn.base.errors import LbnnError
from lbnn.base.terminal import kilobytes, print_table, progress
from lbnn.device.compilers import DEFAULT_FLAGS, CompileError
from lbnn.device.runs import OutOfMemory
from lbnn.measure.backends import find_runner
from lbnn.measure.conditioning import Conditioning
from lbnn.measure.parity import CLASS_PARITY, Expected, Verdict, expect, judge
from lbnn.measure.samples import Samples
from lbnn.model.file import Model


def verify_backends(
    model: Model,
    samples: Samples,
    names: Sequence[str],
    tolerance: float,
    left_out: dict[str, str] | None = None,
    bounded: bool = True,
    expected: Expected | None = None,
    weights: str = "source",
) -> list[Verdict]:
    """Compares each backend with the reference; `bounded` and `expected` are those of `judge`, `weights` of an export.

    A board that is too small for the model, and one for which there is no memory here, goes to `left_out` with the
    reason; without `left_out` it is an error.
    """
    rows = []
    expected = expected or expect(model.graph, samples)
    with progress("verifying", names) as steps:
        for name in steps:
            try:
                rows.append(judge(name, find_runner(name, weights), model, samples, tolerance, bounded, expected))
            except CompileError as error:
                if not (reason := too_small(error)):
                    raise
                if left_out is None:
                    raise unfit(model, name, reason) from error
                left_out[name] = reason
            except OutOfMemory as error:
                if left_out is None:
                    raise
                left_out[name] = str(error)
    return rows


def too_small(error: CompileError) -> str:
    """Which memory an image overflows, or what its header says of such a machine; nothing of other errors."""
    found = re.search(r"(ROM|RAM)\W? overflowed(?: by (\d+) bytes)?", error.log)
    if not found:
        refused = re.search(r'#error "\S+ ((?:counts up|has|computes in)[^:"]*)', error.log)
        return refused[1] if refused else ""
    memory = {"ROM": "flash", "RAM": "RAM"}[found[1]]
    return f"{memory} too small" + (f" by {int(found[2]):,} bytes" if found[2] else "")


def unfit(model: Model, backend: str, reason: str) -> LbnnError:
    """What to say of a board that was asked for."""
    return LbnnError(f"{model.name} does not fit {backend}: {reason}; choose another backend")


def plain_verdicts(
    rows: Sequence[Verdict], lacking: Mapping[str, str], conditioning: Conditioning | None = None
) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "passed": all(row.passed for row in rows),
        "conditioning": None if conditioning is None else asdict(conditioning),
        "backends": [{**asdict(row), "passed": row.passed} for row in rows],
        "missing": dict(lacking),
    }


VERDICT_COLUMNS = (
    "backend",
    "mean error",
    "bound",
    "variance error",
    "bound",
    "worst sample",
    "status",
    "instructions",
    "code",
    "weights",
    "work",
    "stack",
)


VERIFIED_COSTS = (
    f"instructions: average of these samples, extreme ones among them, built with {' '.join(DEFAULT_FLAGS)}; "
    "lbnn bench has ordinary ones and lets the compiler fuse multiply and add, so its counts and code are smaller"
)


def show_verdicts(
    rows: Sequence[Verdict], lacking: Mapping[str, str], title: str, conditioning: Conditioning | None = None
) -> None:
    """The table, why float32 can't keep the tolerance, the failures and what is missing."""
    headed = any(row.class_error is not None for row in rows)
    columns = [*VERDICT_COLUMNS[:5], *(["class error"] if headed else []), *VERDICT_COLUMNS[5:]]
    print_table(columns, [_cells(row, headed) for row in rows], title)
    if any(row.cost.instructions for row in rows):
        print(VERIFIED_COSTS)
    if conditioning is not None:
        print(conditioning)
    for row in rows:
        if not row.passed:
            print(f"{row.backend}: {_failure(row)}; first departs at {row.departs_at}")
    for name, how in lacking.items():
        print(f"left out: {name} ({how})")


def _failure(row: Verdict) -> str:
    """Which of the ways to fail it is: an answer that is too far off, classes that are, or none that is a number."""
    if row.excess <= 1.0:
        return f"a class error of {row.class_error:.2g}, beyond {CLASS_PARITY:g}"
    return f"beyond {row.allowed:.2g}" if row.finite else f"no finite answer to {row.worst}, float32 overflows"


def _cells(row: Verdict, headed: bool) -> list[str]:
    cost = row.cost
    sizes = (cost.code_bytes, cost.weight_bytes, cost.work_bytes, cost.stack_bytes)
    status = "ok" if row.passed else "fails"
    errors = [f"{number:.1e}" for number in (row.mean_error, row.mean_bound, row.var_error, row.var_bound)]
    errors += [] if not headed else ["" if row.class_error is None else f"{row.class_error:.1e}"]
    return [row.backend, *errors, row.worst, status, cost.counted, *map(kilobytes, sizes)]
