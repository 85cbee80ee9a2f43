"""Commands on disks that fail: one line and status 2, the old output intact, nothing left behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

import lbnn
from c_models import STRICT
from commands import finished, nothing, start, tree
from commands import lbnn as command
from lbnn import LbnnError
from lbnn import nn as bnn
from lbnn.train.datafile import read_table
from places import need
from thorough import THOROUGH
from writers import QUICK, WRITERS, fill, network, small_files, without_privileges


@pytest.fixture
def work(tmp_path):
    return fill(tmp_path)


# A full disk


@pytest.mark.parametrize("words", [words for words, _ in WRITERS.values()], ids=WRITERS)
def test_a_write_that_fails_half_way_leaves_nothing(work, words):
    before = tree(work)
    command(*words, folder=work, before=small_files).refused("File too large")
    assert tree(work) == before


@pytest.fixture
def full_disk(tmp_path):
    """A folder on a disk of its own with a model, data, an old output of each command, and no room.

    Where mounting is not allowed the folder is an ordinary one, and files can't grow.
    """
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = mount(folder)
    fill(folder)
    for words, _ in WRITERS.values():
        assert command(*words, folder=folder).status == 0
    if mounted:
        with (folder / "filler").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(4096))
    yield folder, nothing if mounted else small_files
    if mounted:
        subprocess.run(["umount", folder], check=True)


def mount(folder: Path) -> bool:
    tool = shutil.which("mount")
    words = [tool, "-t", "tmpfs", "-o", "size=1m", "lbnn-test", folder]
    return bool(tool) and subprocess.run(words, capture_output=True, check=False).returncode == 0


def test_a_full_disk_keeps_the_old_outputs(full_disk):
    folder, before = full_disk
    old = tree(folder)
    for words, output in WRITERS.values():
        ended = command(*words, "--force", folder=folder, before=before)
        ended.refused(f"can't write {output}: No space left" if before is nothing else "File too large")
        assert tree(folder) == old
    if "filler" in old:
        with pytest.raises(LbnnError, match=r"can't write .*gas_sensor\.pt: No space left on device"):
            lbnn.save(network(), folder / "gas_sensor.pt", input_shape=(3,))
        assert tree(folder) == old
        (folder / "filler").unlink()
    for words, _ in WRITERS.values():
        assert command(*words, "--force", folder=folder).status == 0, "and with room again all is well"


def full_stdout() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


@pytest.mark.parametrize("words", [["--help"], ["inspect", "gas_sensor.pt"], WRITERS["export onnx"][0]], ids=len)
def test_a_full_disk_behind_stdout_is_one_line(work, words):
    command(*words, folder=work, before=full_stdout).refused("No space left on device")


# Folders and files that may not be used


@pytest.fixture
def locked(work):
    """A folder that may be read but not written, with an old output of each command."""
    for _, output in WRITERS.values():
        (work / output).mkdir() if output == "out" else (work / output).write_text("old")
    work.chmod(0o555)
    yield work
    work.chmod(0o755)


def test_a_folder_that_may_not_be_written_is_one_line(locked):
    before = tree(locked)
    for words, output in WRITERS.values():
        ended = command(*words, "--force", folder=locked, before=without_privileges)
        ended.refused(f"can't write {output}: Permission denied")
    assert tree(locked) == before


PLACES = ("data.csv/m.out", "data.csv/a/b/m.out", "locked/m.out", "locked/a/m.out", f"{'x' * 300}.out", "/dev/null")
PLACES += ("/proc/m.out", "dangling/m.out")
NO_SUCH_INPUT = {"train": ["train", "no.csv", "--target", "y"], "report": ["report", "no.pt", *QUICK]}


@pytest.mark.parametrize("words", NO_SUCH_INPUT.values(), ids=NO_SUCH_INPUT)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[:20])
def test_long_work_does_not_begin_where_its_result_can_not_be_written(work, words, place):
    """The place is refused before the input, which does not exist, is even missed."""
    (work / "locked").mkdir(mode=0o555)
    (work / "dangling").symlink_to(work / "nowhere")
    before = tree(work)
    ended = command(*words, "-o", place, "--force", folder=work, before=without_privileges)
    ended.refused(place[:100])
    assert "can't write" in ended.stderr or "name a file" in ended.stderr, ended
    assert (ended.stdout, tree(work)) == ("", before)


@pytest.mark.parametrize("words", NO_SUCH_INPUT.values(), ids=NO_SUCH_INPUT)
def test_long_work_does_not_begin_where_there_is_no_room_or_something_else(work, words):
    (work / "old.out").write_text("old")
    before = tree(work)
    command(*words, "-o", "m.out", folder=work, before=small_files).refused("can't write m.out: File too large")
    command(*words, "-o", "old.out", folder=work).refused("old.out exists; choose another place or add --force")
    assert tree(work) == before


@pytest.mark.parametrize("words", NO_SUCH_INPUT.values(), ids=NO_SUCH_INPUT)
@pytest.mark.parametrize("place", ["m.out", "new/folders/m.out", "old.out"])
def test_a_place_that_can_be_written_is_no_obstacle_and_stays_as_it_was(work, words, place):
    (work / "old.out").write_text("old")
    before = tree(work)
    command(*words, "-o", place, "--force", folder=work, before=without_privileges).refused("no such file")
    assert tree(work) == before and not (work / "new").exists()


def test_inputs_that_may_not_be_read_are_one_line(work):
    (work / "closed").mkdir()
    for name in ("gas_sensor.pt", "data.csv"):
        shutil.copy(work / name, work / "closed" / name)
        (work / name).chmod(0)
    (work / "closed").chmod(0)
    for folder in ("", "closed/"):
        for words in (["inspect", f"{folder}gas_sensor.pt"], ["train", f"{folder}data.csv", "--target", "y"]):
            ended = command(*words, folder=work, before=without_privileges)
            ended.refused()
            assert "is not readable" in ended.stderr or "Permission denied" in ended.stderr
    target = ["--target", "onnx", "-o", "closed/out.onnx"]
    (work / "gas_sensor.pt").chmod(0o644)
    command("export", "gas_sensor.pt", *target, folder=work, before=without_privileges).refused("Permission denied")


# Killed, and several at once


FILE_EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.listdir", "shutil.rmtree"}


class KilledAt:
    """Kills its process at the n-th thing that is done to files below a folder."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.left = str(folder), number

    def __call__(self) -> None:
        sys.addaudithook(self.count)

    def count(self, event, args) -> None:
        if event in FILE_EVENTS and any(self.folder in str(arg) for arg in args):
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_export_leaves_the_old_folder_or_the_new_one(work):
    place = work / "place"
    place.mkdir()
    words = ["export", "gas_sensor.pt", "--target", "c", "-o", place / "out", "--force"]
    assert command(*words, "--name", "old", folder=work).status == 0
    assert command(*words[:-2], place / "new", "--name", "new", folder=work).status == 0
    old, new = tree(place / "out"), tree(place / "new")
    shutil.copytree(place / "out", work / "kept")
    outcomes = []
    for number in range(1, 200, 1 if THOROUGH else 3):
        ended = command(*words[:-1], "--force", "--name", "new", folder=work, before=KilledAt(place, number))
        found = tree(place / "out")
        outcomes.append("old" if found == old else "new" if same_but_banner(found, new) else "broken")
        if ended.status == 0:
            break
        assert ended.status == -signal.SIGKILL, ended
        shutil.rmtree(place / "out")
        shutil.copytree(work / "kept", place / "out")
    assert number > 15 and set(outcomes) == {"old", "new"}, outcomes
    assert outcomes == sorted(outcomes, reverse=True), "old until one moment, new from then on"


def same_but_banner(found: dict[str, bytes], wanted: dict[str, bytes]) -> bool:
    """The banner holds the command line."""
    plain = [{name: data[data.find(b"\n\n") :] for name, data in files.items()} for files in (found, wanted)]
    return plain[0] == plain[1]


NAMES_AT_ONCE = ("alpha", "beta", "gamma", "delta")


@pytest.mark.parametrize("force", [True, False], ids=["forced", "not forced"])
@pytest.mark.parametrize("target, begin", [("c", "nothing"), ("c", "empty folder"), ("onnx", "nothing")])
def test_exports_at_once_leave_one_of_them_whole(work, target, begin, force):
    out = work / "out"
    if begin == "empty folder":
        out.mkdir()
    options = ["--force"] if force else []
    running = []
    for name in NAMES_AT_ONCE:
        (work / f"log_{name}").mkdir()
        words = ["export", "gas_sensor.pt", "--target", target, "-o", out, "--name", name, *options]
        running.append(start(words, work, work / f"log_{name}"))
    ended = [finished(process, work / f"log_{name}") for process, name in zip(running, NAMES_AT_ONCE, strict=True)]
    winners = [name for name, end in zip(NAMES_AT_ONCE, ended, strict=True) if end.status == 0]
    for end in ended:
        end.status == 0 or end.refused()
    assert (len(winners) == len(NAMES_AT_ONCE)) if force else (len(winners) == 1)
    alone = {name: exported(work, target, name, options) for name in winners}
    assert contents(out) in alone.values()
    assert not [path for path in work.iterdir() if path.name.startswith(".")]


def exported(work: Path, target: str, name: str, options: list[str]) -> dict[str, bytes]:
    folder = work / f"alone_{name}"
    folder.mkdir()
    words = ["export", "gas_sensor.pt", "--target", target, "-o", folder / "out", "--name", name, *options]
    assert command(*words, folder=work).status == 0
    return contents(folder / "out")


def contents(path: Path) -> dict[str, bytes]:
    return tree(path) if path.is_dir() else {"": path.read_bytes()}


# Symbolic links and devices


LINKS = {"to a folder": "folder", "to a file": "folder/precious", "to nothing": "nowhere", "to itself": "link"}


@pytest.mark.parametrize("target", ["c", "onnx"])
@pytest.mark.parametrize("leads", LINKS.values(), ids=LINKS)
def test_a_link_is_kept_without_force_and_replaced_with_it_but_never_followed(work, leads, target):
    (work / "folder").mkdir()
    (work / "folder" / "precious").write_text("old")
    (work / "link").symlink_to(leads)
    words = ["export", "gas_sensor.pt", "--target", target, "-o", "link"]
    command(*words, folder=work).refused("link exists; choose another place or add --force")
    assert (work / "link").is_symlink()
    ended = command(*words, "--force", folder=work)
    if (target, leads) in (("c", "folder/precious"), ("onnx", "folder")):
        ended.refused("name a f")
    else:
        assert ended.status == 0 and not (work / "link").is_symlink() and (work / "link").exists()
    assert tree(work / "folder") == {"precious": b"old"}


def test_an_input_may_be_a_link(work):
    for name in ("gas_sensor.pt", "data.csv"):
        (work / f"link_{name}").symlink_to(name)
    assert command("inspect", "link_gas_sensor.pt", folder=work).status == 0
    assert read_table(work / "link_data.csv", "y").x.shape == (20, 1)
    (work / "loop").symlink_to("loop")
    command("inspect", "loop", folder=work).refused("no such file")
    command("train", "loop", "--target", "y", folder=work).refused("no such file")


def test_a_device_or_a_pipe_is_never_replaced_by_a_file(work):
    os.mkfifo(work / "pipe")
    words = ["export", "gas_sensor.pt", "--target", "onnx", "--force", "-o"]
    command(*words, "pipe", folder=work).refused("is a device or a pipe")
    command(*words, "/dev/null", folder=work).refused("is a device or a pipe")
    assert (work / "pipe").is_fifo() and Path("/dev/null").is_char_device()


# Names


NAMES = {
    "newlines": "a\nint main(void) { return 1; }\nb",
    "comment": "*/ #include <x.h> /*",
    "upwards": "../../up",
    "quotes": "\"'`$(touch hacked)`\\",
    "long": "n" * 300,
    "just legal": "n" * 252,
    "right to left": "\u202egnp.\u2066exe",
    "escape": "\x1b[31mred\x07",
    "chinese": "模型",
    "reserved": "while",
    "header": "math",
    "digits": "12",
    "trigraph": "what??/",
    "no letters": "...",
    "option": "-rf",
    "not UTF-8": os.fsdecode(b"bad\xff\xfe"),
}


def compiles(folder: Path) -> None:
    gcc = need("gcc")
    done = subprocess.run([gcc, *STRICT, "-fsyntax-only", *folder.glob("*.c")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_hostile_name_of_a_model_is_data(work, name):
    ended = command("export", "gas_sensor.pt", "--target", "c", f"--name={name}", folder=work)
    assert ended.status == 0, ended
    (folder,) = (path for path in work.iterdir() if path.is_dir())
    compiles(folder)
    assert all(path.name.isascii() and path.name.isprintable() for path in folder.rglob("*"))
    assert command("export", "gas_sensor.pt", "--target", "onnx", f"--name={name}", folder=work).status == 0
    assert not (work / "hacked").exists() and not (work.parent / "up").exists()


FILE_NAMES = {key: name for key, name in NAMES.items() if len(name) < 256 and "/" not in name}


@pytest.mark.parametrize("name", FILE_NAMES.values(), ids=FILE_NAMES)
def test_a_hostile_file_name_is_read_and_written(work, name):
    shutil.copy(work / "gas_sensor.pt", work / f"{name}.pt")
    model, out = f"./{name}.pt", f"./{name}out"
    onnx, c = ["export", model, "--target", "onnx"], ["export", model, "--target", "c"]
    for words in (["inspect", model], onnx, c, [*c, "-o", out]):
        ended = command(*words, folder=work)
        assert ended.status == 0, ended
    compiles(work / out)


@pytest.mark.parametrize("key", ["escape", "quotes", "not UTF-8"])
def test_a_report_on_a_hostile_file_name_is_written(work, key):
    shutil.copy(work / "gas_sensor.pt", work / f"{NAMES[key]}.pt")
    assert command("report", f"{NAMES[key]}.pt", *QUICK, folder=work).status == 0
    assert (work / "report.html").read_text(encoding="utf-8")


def test_a_name_that_is_too_long_is_one_line(work):
    long = "x" * 300
    for words in (
        ["export", "gas_sensor.pt", "--target", "c", "-o", long],
        ["export", "gas_sensor.pt", "--target", "onnx", "-o", long],
        ["report", "gas_sensor.pt", "-o", long],
        ["inspect", long],
        ["train", long, "--target", "y"],
        ["train", "data.csv", "--target", "y", "-o", long],
        ["report", "gas_sensor.pt", "--data", long, "--target", "y"],
    ):
        command(*words, folder=work).refused("File name too long")


def test_a_message_can_not_command_the_terminal(work):
    ended = command("inspect", "\x1b[31mred\u202e", folder=work)
    ended.refused("_[31mred_: there is no such file")


class Nested(torch.nn.Module):
    """Layers with the names given."""

    def __init__(self, names) -> None:
        super().__init__()
        self.names = names
        for name in names:
            self._modules[name] = bnn.Linear(2, 2)

    def forward(self, x):
        for name in self.names:
            x = self._modules[name](x)
        return x


def test_hostile_names_of_layers_and_columns_compile():
    names = [*NAMES.values(), "Layer", "layer", "LAYER", "layer.", "é", "è", "int", "INT", ""]
    columns = [{"name": name, "categories": []} for name in names[:2]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.pt"
        about = {"inputs": names[:2], "columns": columns, "targets": names[2:4]}
        lbnn.save(Nested(names), path, input_shape=(2,), metadata=about)
        compiles(lbnn.export(path, "c", Path(folder) / "c"))
        lbnn.export(path, "onnx", Path(folder) / "net.onnx")


def test_hostile_names_of_columns_are_trained_on(work):
    names = ["*/ x", "\x1b[31m", '"q"', "a\nb", "\u202eb", "n" * 300, "y"]
    header = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    rows = "".join(",".join(str((i * k) % 7) for k in range(1, 7)) + f",{i}\n" for i in range(20))
    (work / "odd.csv").write_text(f"{header}\n{rows}")
    ended = command("train", "odd.csv", "--target", "y", "--hidden", "4", "--epochs", "1", folder=work)
    assert ended.status == 0 and "\x1b" not in ended.stdout and "\u202e" not in ended.stdout, ended
    assert command("export", "model.pt", "--target", "c", "-o", "out", folder=work).status == 0
    compiles(work / "out")
    assert command("report", "model.pt", "--data", "odd.csv", *QUICK, folder=work).status == 0
