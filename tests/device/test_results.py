"""Work memory between guards, and the records of a program that predicts a file of samples."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lbnn.device.generated import GeneratedModel
from lbnn.device.results import GUARD, painted_work, run_samples, work_used
from lbnn.device.runs import EmulationFault, ProgramRun

TYPES = pytest.mark.parametrize("element", ["<f4", "<i2", "<i1"])


@TYPES
def test_work_is_used_up_to_the_last_element_that_was_written(element: str, net: GeneratedModel) -> None:
    model = replace(net, element=np.dtype(element))
    memory = painted_work(model)
    assert memory.itemsize == model.element.itemsize and work_used(model, memory) == 0
    memory[GUARD + 3] = 1
    assert work_used(model, memory) == 4 * model.element.itemsize
    memory[GUARD + 5] = 0
    assert work_used(model, memory) == model.work_bytes


@TYPES
@pytest.mark.parametrize("index", [-GUARD, -1, 6, 5 + GUARD])
def test_a_write_into_a_guard_is_a_fault(index: int, element: str, net: GeneratedModel) -> None:
    model = replace(net, element=np.dtype(element))
    memory = painted_work(model)
    memory[GUARD + index] = 0
    with pytest.raises(EmulationFault, match=rf"net_predict writes work\[{index}\], but it has 6 elements"):
        work_used(model, memory)


def test_a_program_reads_the_samples_and_writes_their_records(net: GeneratedModel) -> None:
    inputs, variances = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)

    def run(folder: Path) -> ProgramRun:
        read = np.frombuffer((folder / "inputs.bin").read_bytes(), "<f4")
        assert read.tolist() == [0, 1, 2, 1, 1, 1, 3, 4, 5, 1, 1, 1]
        records = np.zeros(2, net.record)
        records["mean"] = [[1, 2], [3, 4]]
        (folder / "outputs.bin").write_bytes((77).to_bytes(4, "little") + records.tobytes())
        return ProgramRun(0, "said")

    done, empty, records = run_samples("here", net, [inputs, variances], run)
    assert (done.stderr, empty, records["mean"].tolist()) == ("said", 77, [[1, 2], [3, 4]])


def test_too_few_records_are_a_fault(net: GeneratedModel) -> None:
    def run(folder: Path) -> ProgramRun:
        (folder / "outputs.bin").write_bytes(bytes(4 + net.record.itemsize))
        return ProgramRun(0, "")

    with pytest.raises(EmulationFault, match="here: 1 results for 2 samples"):
        run_samples("here", net, [np.zeros((2, 3), np.float32)], run)


@pytest.mark.parametrize(
    ("stderr", "cause"),
    [
        ("", "no message"),
        ("one\ntwo\n", "two"),
        ("x.c:1: runtime error: overflow\nSUMMARY\n", "runtime error: overflow"),
    ],
)
def test_a_program_that_fails_is_a_fault_with_its_cause(stderr: str, cause: str, net: GeneratedModel) -> None:
    with pytest.raises(EmulationFault, match=f"here: the program ended with status 3: .*{cause}$"):
        run_samples("here", net, [np.zeros((1, 3), np.float32)], lambda folder: ProgramRun(3, stderr))
