"""The four networks of MLPerf Tiny, untrained: python tools/bench/tiny_models.py out/tiny.

They are those of examples/mlperf_tiny, which trains them.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from bench_models import Models, write

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples/mlperf_tiny"))
TINY: Models = importlib.import_module("tiny_networks").NETWORKS


if __name__ == "__main__":
    print(*write(Path(sys.argv[1] if len(sys.argv) > 1 else "out/tiny"), TINY), sep="\n")
