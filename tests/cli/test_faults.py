"""Faults of the process: signals, limits and places. docs/robustness.md has the table that names these tests."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

import lbnn
from commands import finished, start, tree
from commands import lbnn as command
from lbnn.device.runs import OutOfMemory
from lbnn.measure import verify
from lbnn.measure.backends import BACKENDS, Backend
from lbnn.measure.samples import draw_samples
from writers import WRITERS, fill, small_files, without_privileges

COMMANDS = {name: words for name, (words, _) in WRITERS.items() if name != "export onnx"}
COMMANDS["verify"] = ["verify", "gas_sensor.pt", "--backends", "c", "--samples", "2"]
OUTPUTS = {"export c": {"out"}, "train": {"new.pt", "new.png"}, "report": {"page.html"}, "verify": set()}
GIVEN = {"gas_sensor.pt", "data.csv", "tmp", "cache", "home"}


@pytest.fixture
def work(tmp_path):
    """A model, data, and places of its own for temporary files, cache and home."""
    for name in ("tmp", "cache", "home"):
        (tmp_path / name).mkdir()
    return fill(tmp_path)


class At:
    """The process in a folder of `work`: its places are there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self) -> None:
        os.environ.update({"TMPDIR": str(self.folder / "tmp"), "LBNN_CACHE_DIR": str(self.folder / "cache")})
        tempfile.tempdir = None


# Signals


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Struck(At):
    """Gets a signal at the n-th thing that it does with what is temporary, or when it starts a program."""

    def __init__(self, folder: Path, moment: int, number: int) -> None:
        super().__init__(folder)
        self.left, self.number = moment, number

    def __call__(self) -> None:
        super().__call__()
        sys.addaudithook(self.count)

    def count(self, event, args) -> None:
        if event == "subprocess.Popen" or any(".lbnn-" in str(arg) for arg in args):
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), self.number)


class Counted(Struck):
    """Writes a byte for each such moment."""

    def __call__(self) -> None:
        self.file = os.open(self.folder.parent / "moments", os.O_WRONLY | os.O_CREAT)
        super().__call__()

    def count(self, event, args) -> None:
        before = self.left
        super().count(event, args)
        if self.left < before:
            os.write(self.file, b".")


def moments(work: Path, words: list[str], count: int, inset: int = 0) -> list[int]:
    """So many moments of a command that replaces its outputs, from first to last; its first run fills caches."""
    for before in (At(work), Counted(work, 10**9, 0)):
        assert command(*words, folder=work, before=before).status == 0
    last = (work.parent / "moments").stat().st_size
    assert last >= count + 2 * inset
    return [1 + inset + i * (last - 1 - 2 * inset) // (count - 1) for i in range(count)]


@pytest.fixture
def work_below(tmp_path):
    """As `work`, with room beside it for notes."""
    (tmp_path / "work").mkdir()
    for name in ("tmp", "cache", "home"):
        (tmp_path / "work" / name).mkdir()
    return fill(tmp_path / "work")


def is_clean(work: Path, name: str) -> None:
    """Outputs and what was given, and nothing temporary anywhere."""
    assert {path.name for path in work.iterdir()} <= GIVEN | OUTPUTS[name]
    assert our_own(work / "tmp") == [] and not list((work / "cache").glob(".*"))


def our_own(folder: Path) -> list[Path]:
    """What is in a temporary folder, without the one that torch keeps there for itself."""
    return [path for path in folder.iterdir() if not path.name.startswith("torchinductor_")]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_at_any_moment_is_one_line_and_leaves_nothing(work_below, name):
    work = work_below
    words = [*COMMANDS[name], *(["--force"] if OUTPUTS[name] else [])]
    for moment, number in zip(moments(work, words, 6), 2 * SIGNALS, strict=True):
        old = {output: contents(work / output) for output in OUTPUTS[name]}
        ended = command(*words, folder=work, before=Struck(work, moment, number))
        assert ended.status == 128 + number, (moment, ended)
        assert ended.stderr.startswith("lbnn: ") and ended.stderr.count("\n") == 1, ended
        is_clean(work, name)
        assert {output: contents(work / output).keys() for output in old} == {k: v.keys() for k, v in old.items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_after_a_kill_the_old_output_is_whole_and_the_next_run_removes_what_was_left(work_below, name):
    work = work_below
    words = [*COMMANDS[name], *(["--force"] if OUTPUTS[name] else [])]
    left = 0
    for moment in moments(work, words, 3, inset=1):  # at the very first and last nothing is there yet or any more
        ended = command(*words, folder=work, before=Struck(work, moment, signal.SIGKILL))
        assert ended.status == -signal.SIGKILL, (moment, ended)
        assert all(contents(work / output) for output in OUTPUTS[name])
        left += any(path.name.startswith(".") for path in [*work.iterdir(), *(work / "tmp").iterdir()])
        assert command(*words, folder=work, before=At(work)).status == 0
        is_clean(work, name)
    assert left, "some moment was in the middle of something"


def contents(path: Path) -> dict[str, bytes]:
    return tree(path) if path.is_dir() else {"": path.read_bytes()}


LONG = ["train", "data.csv", "--target", "y", "--hidden", "4", "--epochs", "50", "-o", "new.pt"]


class CtrlC:
    """Ctrl-C in a training, before its first epoch or when one has been validated."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def __call__(self) -> None:
        from lbnn.train.validation import Best

        start, see = Best.__init__, Best.see

        def begin(best, *arguments) -> None:
            start(best, *arguments)
            self.strike(0)

        def validated(best, record) -> None:
            see(best, record)
            self.strike(record.epoch)

        Best.__init__, Best.see = begin, validated

    def strike(self, epoch: int) -> None:
        if epoch == self.epoch:
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_in_a_training_keeps_the_model_of_the_last_whole_epoch(work):
    kept = {}
    for name, epoch in (("a.pt", 3), ("b.pt", 3), ("c.pt", 4)):
        ended = command(*LONG[:-1], name, folder=work, before=CtrlC(epoch))
        assert ended.status == 130
        assert ended.stderr == f"lbnn: interrupted; {name} holds the model of epoch {epoch}\n"
        kept[name] = lbnn.load(work / name).state_dict()
    assert all(torch.equal(kept["a.pt"][key], kept["b.pt"][key]) for key in kept["a.pt"])
    assert not all(torch.equal(kept["a.pt"][key], kept["c.pt"][key]) for key in kept["a.pt"])


def test_ctrl_c_in_a_training_is_in_its_json(work):
    ended = command(*LONG, "--json", folder=work, before=CtrlC(2))
    assert (ended.status, ended.stderr.count("\n")) == (130, 1)
    found = json.loads(ended.stdout)
    assert found["interrupted"] and found["epochs"] == 2 and found["files"] == ["new.pt"] and found["test"] is None


def test_ctrl_c_before_the_first_epoch_writes_nothing(work):
    before = tree(work)
    ended = command(*LONG, folder=work, before=CtrlC(0))
    assert (ended.status, ended.stderr, tree(work)) == (130, "lbnn: interrupted\n", before)


# Cache, home and temporary folder


class NoCache(At):
    """A process that may write neither home nor cache, of one kind or another."""

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(folder)
        self.kind = kind

    def __call__(self) -> None:
        super().__call__()
        folder = self.folder
        places = {"LBNN_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": str(folder / "home")}
        if self.kind == "cache may not be written":
            places = {"LBNN_CACHE_DIR": str(folder / "cache")}
        elif self.kind == "cache is a file":
            places = {"LBNN_CACHE_DIR": str(folder / "data.csv")}
        elif self.kind == "home is not there":
            places["HOME"] = "/proc/nowhere"
        os.environ.update(places)
        without_privileges()


NO_CACHES = ("cache may not be written", "cache is a file", "home may not be written", "home is not there")


@pytest.mark.parametrize("kind", NO_CACHES)
def test_without_a_cache_verify_does_its_work_and_leaves_nothing(work, kind):
    for name in ("cache", "home"):
        (work / name).chmod(0o555)
    words = ["verify", "gas_sensor.pt", "--backends", "cortex-m4", "--samples", "1"]
    ended = command(*words, folder=work, before=NoCache(work, kind))
    assert (ended.status, ended.stderr) == (0, ""), ended
    assert list((work / "tmp").iterdir()) == []


def test_without_a_home_a_training_says_nothing_of_it(work):
    (work / "home").chmod(0o555)
    ended = command(*COMMANDS["train"], folder=work, before=NoCache(work, "home may not be written"))
    assert (ended.status, ended.stderr) == (0, ""), ended


def test_two_at_once_fill_an_empty_cache(work):
    words = ["verify", "gas_sensor.pt", "--backends", "cortex-m4", "--samples", "1"]
    for name in ("one", "two"):
        (work / name).mkdir()
    running = [start(words, work, work / name, At(work)) for name in ("one", "two")]
    ended = [finished(process, work / name) for process, name in zip(running, ("one", "two"), strict=True)]
    assert [(end.status, end.stderr) for end in ended] == [(0, ""), (0, "")]
    assert len(list((work / "cache").glob("count_blocks-*.so"))) == 1
    assert not list((work / "cache").glob(".*")) and list((work / "tmp").iterdir()) == []


def test_no_room_for_temporary_files_is_one_line(work):
    command(*COMMANDS["verify"], folder=work, before=small_files).refused()


# Locale, terminal, fonts, memory


SEVERAL = """
import json, sys
from lbnn.cli.main import main

for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as end:
        print("status", end.code, flush=True)
"""


def several(folder, *commands, before=None, **environment):
    """Commands one after the other in one new process: their statuses, and what it said on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL, json.dumps(commands)],
        cwd=folder, capture_output=True, preexec_fn=before, env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )  # fmt: skip
    lines = done.stdout.decode("ascii", errors="strict").splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith("status ")], done.stderr.decode()


def test_the_c_locale_changes_nothing_but_how_names_are_spelled(work):
    """Names in files are UTF-8; stdout, which is ASCII then, spells them out."""
    rows = "".join(f"{i},{i % 7}\n" for i in range(20))
    (work / "daten.csv").write_text("größe,温度\n" + rows, encoding="utf-8")
    model = "daten.pt"
    commands = (
        ["train", "daten.csv", "--target", "\u6e29\u5ea6", "--epochs", "1", "-o", model],
        ["inspect", model],
        ["export", model, "--target", "c", "-o", "out"],
        ["report", model, "--data", "daten.csv", "--backends", "torch,c", "--samples", "2"],
    )
    statuses, said = several(work, *commands, LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    assert (statuses, said) == ([0] * len(commands), "")
    assert "温度" in (work / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_terminal_there_are_no_bars_and_no_colours(work, name):
    ended = command(*COMMANDS[name], folder=work, before=os.setsid)
    assert ended.status == 0 and "\x1b" not in ended.stdout + ended.stderr and ended.stderr == ""


@pytest.mark.parametrize("name", ["温度", "気温が高い"], ids=["chinese", "japanese"])
def test_a_name_that_the_font_lacks_is_no_warning(work, name):
    (work / "data.csv").write_text(f"a,{name}\n" + "".join(f"{i},{i % 7}\n" for i in range(20)), encoding="utf-8")
    ended = command("train", "data.csv", "--target", name, "--hidden", "2", "--epochs", "1", folder=work)
    assert (ended.status, ended.stderr) == (0, "")


def one_gigabyte() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (10**9, 10**9))


def half_a_gigabyte() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (5 * 10**8, 5 * 10**8))


def test_one_gigabyte_of_address_space_is_one_line_for_each_emulator_and_enough_for_the_rest(work):
    hungry = [name for name in ("cortex-m4", "c-sanitized", "mps3-an547") if not BACKENDS[name].missing()]
    commands = [["verify", "gas_sensor.pt", "--samples", "1", "--backends", name] for name in (*hungry, "torch,c")]
    statuses, said = several(work, *commands, before=one_gigabyte)
    assert statuses == [*[2] * len(hungry), 0], said
    lines = said.splitlines()
    assert len(lines) == len(hungry)
    for name, line in zip(hungry, lines, strict=True):
        assert line.startswith(f"lbnn: {name}") and "does not get the memory it asks for; raise the limit" in line


def test_too_little_memory_for_torch_is_one_line(work):
    statuses, said = several(work, ["inspect", "gas_sensor.pt"], before=half_a_gigabyte)
    assert (statuses, said.count("\n")) == ([2], 1) and "of address space (ulimit -v)" in said


def test_a_backend_without_memory_is_left_out_unless_it_was_asked_for(work, monkeypatch):
    def refuse(model, samples):
        raise OutOfMemory("small")

    monkeypatch.setitem(BACKENDS, "small", Backend(refuse))
    model = lbnn.read_model(work / "gas_sensor.pt")
    samples, left_out = draw_samples(model, 1, 0), {}
    rows = verify.verify_backends(model, samples, ["torch", "small"], 1e-5, left_out)
    assert [row.backend for row in rows] == ["torch"] and "raise the limit (ulimit -v)" in left_out["small"]
    with pytest.raises(OutOfMemory, match="small does not get the memory"):
        verify.verify_backends(model, samples, ["small"], 1e-5)
