"""`lbnn train` as torchrun starts it: one model by all processes, one voice, and one end for all."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

import lbnn
import lbnn.train.fit as fit
from commands import SECONDS, finished, start
from commands import lbnn as command


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def join(rank: int) -> None:
    """What torchrun would say; the port is in a file of the folder above."""
    port = (Path.cwd().parent / "port").read_text()
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}


def as_first() -> None:
    """Leaves a file when some epochs are over."""
    join(0)

    @contextmanager
    def note_epochs(*_):
        yield lambda record: Path("begun").touch() if record.epoch == 3 else None

    fit.epoch_bar = note_epochs


def as_second() -> None:
    join(1)


class Two:
    """Two processes of one command, each in a folder of its own."""

    def __init__(self, place: Path, words: list) -> None:
        (place / "port").write_text(str(free_port()))
        self.folders = [place / "first", place / "second"]
        self.running = []
        for folder, before in zip(self.folders, (as_first, as_second), strict=True):
            folder.mkdir(exist_ok=True)
            log = place / f"log of {folder.name}"
            log.mkdir()
            self.running.append((start(words, folder, log, before), log))

    def end(self) -> list:
        return [finished(process, log) for process, log in self.running]


def readings(path: Path, rows: int = 200, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-2, 2, rows), rng.normal(size=rows)
    y = np.sin(a) + 0.3 * b + 0.1 * rng.normal(size=rows)
    lines = (f"{p:.6g},{q:.6g},{r:.6g}\n" for p, q, r in zip(a, b, y, strict=True))
    path.write_text("a,b,y\n" + "".join(lines))
    return path


def weights(path: Path) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in lbnn.load(path).parameters()])


SHORT = ["--target", "y", "--hidden", "8", "--epochs", "4", "--json"]


@pytest.mark.parametrize("more", [[], ["--patience", "2", "--test-share", "0.2"], ["--stream", "--batch", "33"]])
def test_two_processes_train_the_model_of_one_and_the_first_alone_speaks_and_writes(tmp_path, more):
    """199 rows in batches of 32 or 33: the parts of the processes differ, and the last batch is a small one."""
    data = readings(tmp_path / "d.csv", 199)
    words = ["train", data, *SHORT, *more, "-o", "m.pt"]
    alone = command(*words, folder=tmp_path)
    first, second = Two(tmp_path, words).end()
    assert (alone.status, first.status, second.status) == (0, 0, 0), first.stderr + second.stderr
    assert (first.stderr, second.stdout, second.stderr) == ("", "", "") and not list((tmp_path / "second").iterdir())
    torch.testing.assert_close(weights(tmp_path / "first/m.pt"), weights(tmp_path / "m.pt"), rtol=1e-5, atol=1e-5)
    found, expected = json.loads(first.stdout), json.loads(alone.stdout)
    assert found["test"]["rows"] == expected["test"]["rows"] and found["epochs"] == expected["epochs"]
    assert found["test"]["nll"] == pytest.approx(expected["test"]["nll"], rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("more", [[], ["--stream", "--batch", "33"]])
def test_two_processes_train_the_classes_of_one(tmp_path, more):
    rows = readings(tmp_path / "d.csv", 199).read_text().splitlines()[1:]
    named = (f"{row},{'high' if float(row.split(',')[2]) > 0.3 else 'low'}\n" for row in rows)
    (tmp_path / "d.csv").write_text("a,b,z,y\n" + "".join(named))
    words = ["train", tmp_path / "d.csv", *SHORT, "--drop", "z", *more, "-o", "m.pt"]
    alone = command(*words, folder=tmp_path)
    first, second = Two(tmp_path, words).end()
    assert (alone.status, first.status, second.status) == (0, 0, 0), first.stderr + second.stderr
    torch.testing.assert_close(weights(tmp_path / "first/m.pt"), weights(tmp_path / "m.pt"), rtol=1e-5, atol=1e-5)
    found, expected = json.loads(first.stdout), json.loads(alone.stdout)
    assert found["classes"] == expected["classes"] == ["high", "low"]
    assert found["test"]["nll"] == pytest.approx(expected["test"]["nll"], rel=1e-4, abs=1e-4)


def begun(two: Two) -> None:
    """Some epochs of a training that would take long are over."""
    until = time.monotonic() + SECONDS
    while not (two.folders[0] / "begun").exists():
        assert time.monotonic() < until, two.end()
        time.sleep(0.02)


LONG = ["--target", "y", "--hidden", "8", "--epochs", "100000", "-o", "m.pt"]


@pytest.mark.parametrize(
    ("number", "hit"), [(signal.SIGINT, (1,)), (signal.SIGINT, (0, 1)), (signal.SIGTERM, (0,)), (signal.SIGTERM, (1,))]
)
def test_a_signal_to_one_ends_all_and_the_best_model_is_kept(tmp_path, hit, number):
    two = Two(tmp_path, ["train", readings(tmp_path / "d.csv"), *LONG])
    begun(two)
    for rank in hit:
        os.kill(two.running[rank][0].pid, number)
    first, second = two.end()
    assert (first.status, second.status) == (130, 130), first.stderr + second.stderr
    assert first.stderr.startswith("lbnn: interrupted; m.pt holds the model of epoch ")
    assert first.stderr.count("\n") == 1 and (second.stdout, second.stderr) == ("", "")
    assert len(weights(tmp_path / "first/m.pt")) > 0


def test_a_process_that_is_killed_ends_the_other_and_the_best_model_is_kept(tmp_path):
    two = Two(tmp_path, ["train", readings(tmp_path / "d.csv"), *LONG])
    begun(two)
    os.kill(two.running[1][0].pid, signal.SIGKILL)
    first, second = two.end()
    assert (first.status, second.status) == (2, -signal.SIGKILL)
    assert first.stderr.startswith("lbnn: another process of this training has ended; m.pt holds the model of epoch ")
    assert first.stderr.count("\n") == 1 and len(weights(tmp_path / "first/m.pt")) > 0


@pytest.mark.parametrize(
    ("lacks", "message"),
    [
        ((1,), "process 1: d.csv: there is no such file"),
        ((0,), "d.csv: there is no such file"),
        ((0, 1), "d.csv: there"),
    ],
)
def test_an_error_of_any_process_is_one_line_of_the_first(tmp_path, lacks, message):
    for rank, name in enumerate(("first", "second")):
        (tmp_path / name).mkdir()
        if rank not in lacks:
            readings(tmp_path / name / "d.csv")
    first, second = Two(tmp_path, ["train", "d.csv", *LONG]).end()
    first.refused(message)
    assert (second.status, second.stdout, second.stderr) == (2, "", "") and not (tmp_path / "first/m.pt").exists()


def test_processes_that_read_other_tables_are_told_so(tmp_path):
    for rank, name in enumerate(("first", "second")):
        (tmp_path / name).mkdir()
        readings(tmp_path / name / "d.csv", seed=rank)
    first, second = Two(tmp_path, ["train", "d.csv", *LONG, "--stream"]).end()
    first.refused("the processes do not read the same table")
    assert (second.status, second.stderr) == (2, "")


def test_torchrun_starts_it(tmp_path):
    readings(tmp_path / "d.csv")
    words = ["torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()), "-m", "lbnn"]
    done = subprocess.run(
        [sys.executable, "-m", *words, "train", "d.csv", *SHORT, "--test-share", "0.2", "-o", "m.pt"],
        capture_output=True, text=True, cwd=tmp_path, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == ["m.pt", "m.png"] and len(weights(tmp_path / "m.pt")) > 0
