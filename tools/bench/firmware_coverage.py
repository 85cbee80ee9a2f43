"""Does the interval in the firmware hold what it says? From a table to C, and the share of new rows inside of it.

    python tools/bench/firmware_coverage.py DIR/concrete --splits 20

DIR/concrete holds data.txt, index_features.txt and index_target.txt, as for `make uci`. For every split the rows are
shuffled and divided into those to train on, to calibrate with and to test; then `lbnn train`, `lbnn calibrate` and
`lbnn export` run as a user calls them, the C is compiled, and `NAME_interval` is asked about every row of the test.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.terminal import progress
from lbnn.device.compilers import TOOLCHAINS

Array = np.ndarray[Any, Any]
TRAIN, CALIBRATE = 0.6, 0.2
"""Shares of the rows; the others are the test."""
FEWEST = 100
"""Rows to calibrate with, at least: then the training gets fewer."""
FLOATS = ctypes.POINTER(ctypes.c_float)
CALL = """
#include "m.h"
int interval(const float *x, float *low, float *high)
{
    static float work[M_WORK_LEN];
    float mean[M_OUTPUT_LEN], variance[M_OUTPUT_LEN];
    const lbnn_status status = m_predict(x, mean, variance, work);
    m_interval(mean, variance, low, high);
    return (int)status;
}
int is_unsure(const float *x)
{
    static float work[M_WORK_LEN];
    float mean[M_OUTPUT_LEN], variance[M_OUTPUT_LEN];
    return m_predict(x, mean, variance, work) != LBNN_OK || m_is_unsure(variance);
}
"""


def rows_of(folder: Path) -> Array:
    """Inputs, and the target in the last column."""
    data = np.loadtxt(folder / "data.txt")
    features, target = (np.loadtxt(folder / f"index_{name}.txt", dtype=int) for name in ("features", "target"))
    return np.column_stack([data[:, features], data[:, int(target)]])


def divided(rows: Array, split: int) -> list[Array]:
    """Rows to train on, to calibrate with, and to test."""
    shuffled = np.random.default_rng(split).permutation(rows)
    calibrate = max(FEWEST, round(CALIBRATE * len(rows)))
    train = min(round(TRAIN * len(rows)), len(rows) - 2 * calibrate)
    return np.split(shuffled, [train, train + calibrate])


def write_csv(path: Path, rows: Array) -> Path:
    """With the target as the column y."""
    header = ",".join([f"x{number}" for number in range(rows.shape[1] - 1)] + ["y"])
    np.savetxt(path, rows, delimiter=",", header=header, comments="", fmt="%.9g")
    return path


def lbnn(*words: str | Path) -> None:
    """The command, quietly; what it prints is shown if it fails."""
    done = subprocess.run([sys.executable, "-m", "lbnn.cli.main", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"lbnn {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")


def firmware(train: Path, calibrate: Path, level: float, folder: Path) -> ctypes.CDLL:
    """The three commands, and the C that they leave."""
    model, code = folder / "m.pt", folder / "m"
    lbnn("train", train, "--target", "y", "-o", model)
    lbnn("calibrate", model, calibrate, "--level", str(level))
    lbnn("export", model, "--target", "c", "-o", code)
    (folder / "call.c").write_text(CALL)
    sources = [code / "m.c", folder / "call.c"]
    return ctypes.CDLL(str(TOOLCHAINS["host"].compile_shared(sources, folder / "m.so", ("-O2",), [code])))


def asked(code: ctypes.CDLL, rows: Array) -> tuple[float, float]:
    """The shares of rows whose target lies in the firmware's interval, and that it is unsure of."""
    inside = unsure = 0
    for row in rows.astype(np.float32):
        x, ends = np.ascontiguousarray(row[:-1]), np.zeros(2, np.float32)
        low, high = (ends[i:].ctypes.data_as(FLOATS) for i in (0, 1))
        if code.interval(x.ctypes.data_as(FLOATS), low, high):
            sys.exit("the firmware refused a row")
        inside += bool(ends[0] <= row[-1] <= ends[1])
        unsure += code.is_unsure(x.ctypes.data_as(FLOATS))
    return inside / len(rows), unsure / len(rows)


def one_split(folder: Path, split: int, level: float) -> tuple[float, float]:
    """Everything for one division of the rows."""
    train, calibrate, test = divided(rows_of(folder), split)
    with tempfile.TemporaryDirectory() as place:
        files = [write_csv(Path(place) / f"{name}.csv", part) for name, part in (("a", train), ("b", calibrate))]
        return asked(firmware(*files, level, Path(place)), test)


def main() -> None:
    """Prints a line for each folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--level", type=float, default=0.9)
    options = parser.parse_args()
    print("| set | rows to train, calibrate, test | splits | inside | of single splits | called unsure |")
    print("|---|---|---:|---:|---:|---:|")
    for folder in options.folders:
        sizes = [str(len(part)) for part in divided(rows_of(folder), 0)]
        with progress(folder.name, [str(split) for split in range(options.splits)]) as steps:
            found = np.array([one_split(folder, int(split), options.level) for split in steps])
        (inside, unsure), (low, high) = found.mean(axis=0), (found[:, 0].min(), found[:, 0].max())
        spread = f"{low:.2f} to {high:.2f}"
        print(
            f"| {folder.name} | {', '.join(sizes)} | {len(found)} | {inside:.3f} | {spread} | {unsure:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
