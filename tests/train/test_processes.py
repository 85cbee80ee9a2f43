"""DistributedDataParallel over two gloo processes trains as one process does."""

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ddp_train import SOURCES, train
from places import ROOT, TESTS


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[dict]:
    out = tmp_path_factory.mktemp("ddp")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with (Path(tempfile.gettempdir()) / "lbnn-test-ddp.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # torchrun looks for a free port and then takes it: one at a time
        run = subprocess.run(
            [*command, str(TESTS / "support" / "ddp_train.py"), str(out)],
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert run.returncode == 0, run.stderr
    return [json.loads((out / f"rank{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("source", SOURCES)
def test_two_processes_get_the_losses_and_weights_of_one(ranks, source):
    """In float64, where only the order of the sums differs: to a relative 1e-9."""
    alone = train(source)
    for name, values in alone.items():
        assert ranks[0][source][name] == pytest.approx(values, rel=1e-9, abs=1e-12), name


@pytest.mark.parametrize("source", SOURCES)
def test_both_processes_hold_the_same_model_and_history(ranks, source):
    assert ranks[0][source] == ranks[1][source]
