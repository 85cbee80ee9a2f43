"""Two gloo processes, wrapped by DistributedDataParallel or joined by lbnn, train as one process does."""

import json
import os
import socket
import subprocess
import sys

import pytest

from ddp_train import SOURCES, WAYS, train
from places import ROOT, TESTS

LOOPBACK = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
"""Else gloo would ask for the address of this host's name, which need not have one."""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[dict]:
    out = tmp_path_factory.mktemp("ddp")
    shared = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": LOOPBACK}
    command = [sys.executable, str(TESTS / "support" / "ddp_train.py"), str(out)]
    running = [
        subprocess.Popen([*command, str(rank)], env=shared, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    errors = [process.communicate(timeout=300)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], "".join(errors)
    return [json.loads((out / f"rank{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", SOURCES)
def test_two_processes_get_the_losses_and_weights_of_one(ranks, source, way):
    """In float64, where only the order of the sums differs: to a relative 1e-9."""
    alone = train(source, way)
    for name, values in alone.items():
        assert ranks[0][f"{source}, {way}"][name] == pytest.approx(values, rel=1e-9, abs=1e-12), name


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", SOURCES)
def test_both_processes_hold_the_same_model_and_history(ranks, source, way):
    assert ranks[0][f"{source}, {way}"] == ranks[1][f"{source}, {way}"]
