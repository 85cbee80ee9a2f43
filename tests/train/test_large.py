"""Tables on the disk: what two passes find is what a table in memory is, and what a training sees of it."""

import json
import random
import resource
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import commands
import lbnn
from lbnn.base.errors import LbnnError
from lbnn.model.file import read_model
from lbnn.train import chunks, large, packing, rowfile
from lbnn.train.csvfile import CsvFormat
from lbnn.train.datafile import read_table
from lbnn.train.newrows import RowReader
from lbnn.train.packing import Shares, Sums, chances
from lbnn.train.processes import Processes
from lbnn.train.recipe import MOST_STEPS, recipe_for
from lbnn.train.rowfile import RowFile
from lbnn.train.survey import survey
from lbnn.train.table import Choice, Column
from lbnn.train.training import Job, train_file

KINDS = {
    "number": lambda draw: f"{draw.gauss(0, 1):.4g}",
    "flag": lambda draw: draw.choice("01"),
    "site": lambda draw: draw.choice(["roof", "yard", "cellar"]),
    "code": lambda draw: draw.choice(["1", "2", "x"]),
    "odd": lambda draw: draw.choice(["1_0", "2", "٣"]),
    "gaps": lambda draw: draw.choice(["", "NA", "7.5", "8", " 9 ", "?"]),
    "once": lambda draw: "17",
    "empty": lambda draw: "",
    "stamp": lambda draw: f"{1.7e9 + draw.randrange(999)}",
}


def random_csv(path: Path, seed: int, rows: int = 60) -> Path:
    """Columns of many kinds; one that is empty at first holds something at the end, and so does one of numbers."""
    draw = random.Random(seed)
    kinds = ["number", *draw.choices(list(KINDS), k=4)]
    table = [[KINDS[kind](draw) for kind in kinds] + [f"{draw.gauss(5, 1):.5g}"] for _ in range(rows)]
    if kinds[1] == "empty" or draw.random() < 0.3:
        for row in table[-2:]:
            row[1] = draw.choice(["late", "4"])
    names = [*(f"{kind}{place}" for place, kind in enumerate(kinds)), "y"]
    path.write_text("\n".join(",".join(row) for row in [names, *table]) + "\n")
    return path


ALL_FITTED = Shares(0.0, 0.0)


def packed(path: Path, folder: Path, choice: Choice, shares: Shares = ALL_FITTED, targets=("y",)):
    """The table by two passes, and its rows that are fitted."""
    every = lambda: chunks.csv_chunks(path, choice.form)
    found = survey(every, targets, choice)
    folder.mkdir(exist_ok=True)
    done = packing.pack_rows(every(), found, targets, choice, shares, 0, folder)
    file = done.files["fit"]
    return found, done, file.read(0, file.rows)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("cells", [20, 2**18])
def test_two_passes_find_what_a_table_in_memory_is(tmp_path, monkeypatch, seed, cells):
    """Columns, levels, notes and every number, bit for bit; or the same kind of error."""
    monkeypatch.setattr(chunks, "CELLS_AT_ONCE", cells)
    path, choice = random_csv(tmp_path / "d.csv", seed), Choice()
    try:
        table = read_table(path, "y", choice=choice)
    except LbnnError as error:
        with pytest.raises(LbnnError) as caught:
            packed(path, tmp_path / "rows", choice)
        assert str(error).removeprefix(f"{path}: ")[:30] == str(caught.value)[:30]
        return
    found, done, rows = packed(path, tmp_path / "rows", choice)
    assert found.columns == table.columns and sorted(found.notes) == sorted(table.notes)
    assert np.array_equal(rows, np.concatenate([table.x, table.y], axis=1))
    assert np.array_equal(done.every.low, rows.min(axis=0)) and np.array_equal(done.every.high, rows.max(axis=0))
    np.testing.assert_allclose(done.fitted.mean, rows.mean(axis=0, dtype=np.float64), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(done.fitted.deviation, rows.std(axis=0, dtype=np.float64), rtol=1e-9, atol=1e-12)


def test_the_random_tables_hold_what_they_should(tmp_path):
    outcomes = []
    for seed in range(40):
        try:
            outcomes.append(len(read_table(random_csv(tmp_path / "d.csv", seed), "y").notes))
        except LbnnError as error:
            outcomes.append(str(error).partition(": ")[2][:10])
    assert len({outcome for outcome in outcomes if isinstance(outcome, str)}) >= 1
    assert len({outcome for outcome in outcomes if isinstance(outcome, int)}) >= 3


@pytest.mark.parametrize(
    ("text", "targets", "choice", "message"),
    [
        ("a,y\n1,2\n", (), Choice(), "add --target, one of a, y"),
        ("a,y\n1,2\n", ("z",), Choice(), "no column 'z'"),
        ("a,y\n1,2\n2,warm\n", ("y",), Choice(), "must hold numbers, not 'warm'"),
        ("a,y\n1,2\n3,2\n", ("y",), Choice(), "is 2 in every row"),
        ("a,b,y\n1,1,1\n2,5,2\n", ("y",), Choice(), "the input 'a' equals the target"),
        ("a,y\n1,\n2,?\n", ("y",), Choice(), "no row has a value in every column"),
        ("a,y\n" + "".join(f"id{i},{i}\n" for i in range(99)), ("y",), Choice(), "different values"),
        ("a,y\n2026-01-01,1\n2026-01-02,2\n", ("y",), Choice(), "holds dates"),
        ("a,y\n1,2\n1,2,3\n", ("y",), Choice(), "line 3 has 3 cells"),
        ("a,y\n", ("y",), Choice(), "no rows below"),
        ('a;y\n"1,5";1\n2;2\n3;3\n', ("y",), Choice(), "add --decimal comma"),
    ],
)
def test_a_table_that_cant_be_used_is_refused_as_in_memory(tmp_path, monkeypatch, text, targets, choice, message):
    monkeypatch.setattr(chunks, "CELLS_AT_ONCE", 4)
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(LbnnError, match=message):
        packed(tmp_path / "d.csv", tmp_path / "rows", choice, targets=targets)


def test_text_in_a_row_that_is_left_out_does_not_make_a_category(tmp_path):
    (tmp_path / "d.csv").write_text("a,b,y\n1,2,3\nwarm,,4\n2,3,5\n")
    found, _, rows = packed(tmp_path / "d.csv", tmp_path / "rows", Choice())
    assert [c.levels for c in found.columns] == [(), ()] and rows.tolist() == [[1, 2, 3], [2, 3, 5]]


# Which rows are for what


def test_chances_are_uniform_and_do_not_depend_on_each_other():
    drawn = chances(np.arange(200_000, dtype=np.uint64), 3)
    assert np.abs(np.histogram(drawn, 20, (0, 1))[0] / 10_000 - 1).max() < 0.05
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.01
    assert abs(np.corrcoef(drawn, chances(np.arange(200_000, dtype=np.uint64), 4))[0, 1]) < 0.01


def numbered(path: Path, rows: int) -> Path:
    """Rows whose first input is their number, in groups of ten."""
    lines = (f"{i},g{i // 10},{(i * 37 % 101) / 7:.4f}\n" for i in range(rows))
    path.write_text("a,group,y\n" + "".join(lines))
    return path


def roles(tmp_path: Path, name: str, choice: Choice, shares: Shares) -> dict[str, set[int]]:
    _, done, _ = packed(tmp_path / "d.csv", tmp_path / name, choice, shares)
    return {role: set(file.read(0, file.rows)[:, 0].astype(int)) for role, file in done.files.items()}


@pytest.mark.parametrize("group", [None, "group"])
def test_rows_keep_their_role_whatever_the_chunks_and_groups_stay_together(tmp_path, monkeypatch, group):
    numbered(tmp_path / "d.csv", 3000)
    choice = Choice(drop=() if group else ("group",), group=group)
    whole = roles(tmp_path, "whole", choice, Shares(0.2, 0.1, 0.25))
    monkeypatch.setattr(chunks, "CELLS_AT_ONCE", 300)
    assert roles(tmp_path, "parts", choice, Shares(0.2, 0.1, 0.25)) == whole
    sizes = {role: len(rows) for role, rows in whole.items()}
    spread = 60 if group is None else 300
    assert abs(sizes["fit"] - 1800) < spread and abs(sizes["watched"] - 600) < spread
    assert abs(sizes["test"] - 300) < spread and not whole["fit"] & (whole["test"] | whole["watched"])
    if group:
        homes = [{row // 10 for row in rows} for rows in whole.values()]
        assert not (homes[0] & homes[1] or homes[0] & homes[2] or homes[1] & homes[2])


# Batches


def row_file(tmp_path: Path, rows: int) -> RowFile:
    values = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
    (tmp_path / "rows").write_bytes(values.tobytes())
    return RowFile(tmp_path / "rows", rows, 2, 1)


@pytest.mark.parametrize(("rows", "batch"), [(1, 4), (100, 100), (5000, 64), (5000, 7000), (4096, 32)])
def test_a_pass_gives_every_row_once_in_whole_batches_but_the_last(tmp_path, monkeypatch, rows, batch):
    monkeypatch.setattr(rowfile, "ROWS_OF_A_BLOCK", 64)
    monkeypatch.setattr(rowfile, "BLOCKS_AT_ONCE", 8)
    source = row_file(tmp_path, rows).source(batch, 1, torch.Generator().manual_seed(0), Processes())
    passes = [list(source.one_pass()) for _ in range(2)]
    for cut in passes:
        assert [len(part) for part in cut] == [batch] * (rows // batch) + [rows % batch] * (rows % batch > 0)
        assert sorted(torch.cat(cut)[:, 0].tolist()) == list(range(0, 3 * rows, 3))
    assert rows == 1 or not torch.equal(torch.cat(passes[0]), torch.cat(passes[1]))


def test_neighbours_of_the_file_are_far_apart_in_a_pass(tmp_path):
    """10 blocks of 1,024 rows: of sorted rows, a batch holds some of nearly every tenth."""
    source = row_file(tmp_path, 10_240).source(128, 1, torch.Generator().manual_seed(0), Processes())
    tenths = [len({int(v) // 3072 for v in part[:, 0]}) for part in islice(source.one_pass(), 50)]
    assert min(tenths) >= 8


def test_two_processes_share_each_batch(tmp_path):
    file = row_file(tmp_path, 1000)
    parts = []
    for rank in (0, 1):
        source = file.source(33, 40, torch.Generator().manual_seed(0), Processes(rank, 2))
        parts.append([(x[:, 0].tolist(), whole) for x, y, whole in source.batches(1)])
    whole = file.source(33, 40, torch.Generator().manual_seed(0), Processes())
    for (first, rows), (second, _), (x, _, _) in zip(*parts, whole.batches(1), strict=True):
        assert sorted(first + second) == sorted(x[:, 0].tolist()) and len(first) - len(second) in (0, 1)
        assert rows == len(first) + len(second)


def test_sums_keep_their_digits_far_from_zero():
    values = np.random.default_rng(0).normal(1e6, 1.0, (1000, 1)).astype(np.float32)
    sums = Sums()
    for part in np.array_split(values, 7):
        sums.add(part)
    exact = values.astype(np.float64)
    assert float(sums.deviation[0]) == pytest.approx(float(exact.std()), rel=1e-9)
    assert float(sums.mean[0]) == pytest.approx(float(exact.mean()), rel=1e-14)


@pytest.mark.parametrize("rows", [300, 5000, 10**6, 10**7, 10**9])
def test_a_training_has_as_many_steps_as_the_recipe_and_at_most_20000(rows):
    recipe = recipe_for(rows, (8,))
    epochs, steps = large.lengths(recipe, rows, asked=False)
    batches = -(-rows // recipe.batch)
    assert steps <= min(batches, 1000) and epochs * steps <= max(MOST_STEPS + steps, recipe.epochs * steps)
    assert epochs * steps >= min(MOST_STEPS, recipe.epochs * batches)
    assert large.lengths(recipe_for(rows, (8,), epochs=2), rows, asked=True)[0] * steps >= 2 * batches


# The command


def wave(path: Path, rows: int, seed: int = 0, sites: tuple[str, str] = ("roof", "yard")) -> Path:
    """y = sin 2a + b / 2 at the roof, 1 more in the yard; the noise has sigma 0.1."""
    rng = np.random.default_rng(seed)
    a, b, yard = rng.uniform(-1, 1, rows), rng.normal(size=rows), rng.random(rows) < 0.5
    y = np.sin(2 * a) + b / 2 + yard + 0.1 * rng.normal(size=rows)
    cells = zip(a, b, np.where(yard, *reversed(sites)), y, strict=True)
    path.write_text("a,b,site,y\n" + "".join(f"{p:.5f},{q:.5f},{s},{r:.5f}\n" for p, q, s, r in cells))
    return path


@pytest.fixture(scope="module")
def streamed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streamed")
    wave(folder / "d.csv", 4000)
    words = ["train", "d.csv", "--target", "y", "--stream", "--hidden", "16", "--epochs", "20"]
    done = commands.lbnn(*words, folder=folder)
    assert done.status == 0, done.stderr
    return folder, done


def test_a_streamed_training_learns_and_says_what_it_does(streamed):
    folder, done = streamed
    about = read_model(folder / "model.pt").metadata
    lines = done.stdout.splitlines()
    assert lines[0] == "4000 rows, 4 inputs: a, b, site=roof, site=yard" and "the rows stay on the disk" in done.stdout
    assert about["inputs"] == ["a", "b", "site=roof", "site=yard"] and about["rows"] == 4000
    assert 300 < about["test"]["rows"] < 500 and about["test"]["rmse"] < 0.15 and about["test"]["nll"] < -0.5
    table = read_table(folder / "d.csv", "y")
    assert about["input_range"] == [table.x.min(axis=0).tolist(), table.x.max(axis=0).tolist()]
    assert sorted(p.name for p in folder.iterdir()) == ["d.csv", "model.png", "model.pt"]


def test_patience_watches_rows_of_its_own(tmp_path):
    wave(tmp_path / "d.csv", 2000)
    words = [
        "train",
        "d.csv",
        "--target",
        "y",
        "--stream",
        "--hidden",
        "4",
        "--epochs",
        "6",
        "--patience",
        "1",
        "--json",
    ]
    done = commands.lbnn(*words, folder=tmp_path)
    assert done.status == 0, done.stderr
    assert json.loads(done.stdout)["best_epoch"] <= json.loads(done.stdout)["epochs"] <= 6


def test_a_small_table_is_trained_as_ever_and_a_large_one_from_the_disk(tmp_path, monkeypatch):
    data = wave(tmp_path / "d.csv", 120)
    job = Job(data, ("y",), Choice(), tmp_path / "m.pt", recipe={"epochs": 1, "hidden": (4,)}, force=True)
    large.train_any_size(job, lambda text: None)
    before = (tmp_path / "m.pt").read_bytes()
    train_file(job, lambda text: None)
    assert (tmp_path / "m.pt").read_bytes() == before
    monkeypatch.setattr(large, "LARGE", data.stat().st_size)
    said: list[str] = []
    large.train_any_size(job, said.append)
    assert "the rows stay on the disk" in said[0]


def no_room() -> None:
    """No file may have more than 20,000 bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def test_a_disk_that_fills_up_is_one_line_and_nothing_stays(tmp_path):
    wave(tmp_path / "d.csv", 4000)
    done = commands.lbnn("train", "d.csv", "--target", "y", "--stream", folder=tmp_path, before=no_room)
    done.refused("can't write")
    assert [path.name for path in tmp_path.iterdir()] == ["d.csv"]


def little_room() -> None:
    packing.shutil.disk_usage = lambda path: type("Usage", (), {"free": 1000})


def test_too_little_room_is_told_before_anything_is_written(tmp_path):
    wave(tmp_path / "d.csv", 4000)
    done = commands.lbnn("train", "d.csv", "--target", "y", "--stream", folder=tmp_path, before=little_room)
    done.refused("make room, or write the model to another disk with -o")
    assert [path.name for path in tmp_path.iterdir()] == ["d.csv"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["d.csv", "--time", "a"], "--time needs all rows in memory"),
        (["d.npz"], "an .npz is read as a whole"),
        (["nowhere.csv"], "no such file"),
        (["d.csv", "--inputs", "z"], "no column 'z'"),
        (["tiny.csv"], "at least 10 are needed"),
    ],
)
def test_what_cant_be_streamed_is_one_line(tmp_path, words, message):
    wave(tmp_path / "d.csv", 50)
    wave(tmp_path / "tiny.csv", 5)
    np.savez(tmp_path / "d.npz", x=np.ones((20, 2)), y=np.arange(20))
    commands.lbnn("train", *words, "--target", "y", "--stream", folder=tmp_path).refused(message)


# Prediction in chunks


def test_a_prediction_in_chunks_is_that_of_the_whole(streamed, tmp_path, monkeypatch):
    from lbnn.measure.prediction import predict_file

    folder, _ = streamed
    data = wave(tmp_path / "new.csv", 500, 1)
    text = data.read_text().splitlines()
    text[100:230], text[400] = [",0,roof,1"] * 130, "0,0,attic,"  # a chunk without a whole row among them
    data.write_text("\n".join(text) + "\n")
    found, said = [], []
    for name, cells in (("whole.csv", 2**18), ("parts.csv", 240)):
        monkeypatch.setattr(chunks, "CELLS_AT_ONCE", cells)
        model = folder / "model.pt"
        found.append(predict_file(model, data, tmp_path / name, "torch", None, False, CsvFormat(), said.append))
    whole, parts = ((tmp_path / name).read_text().splitlines() for name in ("whole.csv", "parts.csv"))
    assert whole[0] == parts[0] and whole[100] == parts[100] == "," * whole[0].count(",") and len(whole) == 501
    numbers = [np.genfromtxt(lines[1:], delimiter=",") for lines in (whole, parts)]
    np.testing.assert_allclose(*numbers, rtol=1e-5, atol=1e-6)  # torch sums otherwise in batches of other sizes
    assert said[0].replace("whole", "parts") == said[1] and "attic" in said[0] and "130 of 500 rows left out" in said[0]
    assert found[0]["scored"] == found[1]["scored"] == 369
    assert [found[1][key] for key in ("nll", "rmse", "covered")] == pytest.approx(
        [found[0][key] for key in ("nll", "rmse", "covered")], rel=1e-6
    )


@pytest.mark.parametrize("cell", ["1_0", "٣", "inf", "warm"])
def test_what_is_no_number_in_a_file_is_none_in_a_prediction(tmp_path, cell):
    (tmp_path / "d.csv").write_text(f"a,b\n1,2\n{cell},3\n")
    with pytest.raises(LbnnError, match=f"column 'a' must hold numbers, not '{cell}'"):
        list(RowReader(tmp_path / "d.csv", (Column("a"),), (), CsvFormat()))


# Memory

PEAK = """
import sys
from lbnn.cli.program import run
from lbnn.train import training
training.find_spec = lambda name: None  # no picture, which takes more memory than all else
status = run(sys.argv[1:])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
sys.exit(status)
"""
"""A command, and the most memory that it held, in KB; getrusage would also count what pytest held before."""


def peak(*words) -> int:
    command = [sys.executable, "-c", PEAK, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stderr.splitlines()[-1])


ROWS = 40_000
LONG_NAMES = ("roof" + 500 * "x", "yard" + 500 * "x")  # a row then takes much memory and little time
MOST_GROWTH = 8_000  # KB for as many rows again; with --no-stream they took 140,000


def test_memory_does_not_grow_with_the_table(tmp_path):
    """Twice the rows, the same memory: in training, by both passes and the batches, and in prediction."""
    taken = {}
    for rows in (ROWS, 2 * ROWS):
        data = wave(tmp_path / f"{rows}.csv", rows, sites=LONG_NAMES)
        words = ["train", data, "--target", "y", "--stream", "--epochs", "1", "--hidden", "4"]
        trained = peak(*words, "--batch", "4096", "-o", tmp_path / f"{rows}.pt")
        predicted = peak("predict", tmp_path / f"{ROWS}.pt", data, "-o", tmp_path / f"{rows} told.csv")
        taken[rows] = (trained, predicted)
    grown = [after - before for before, after in zip(taken[ROWS], taken[2 * ROWS], strict=True)]
    assert max(grown) < MOST_GROWTH, taken


# Parquet


def table_of_types() -> pa.Table:
    return pa.table(
        {
            "a": pa.array([1, 2, None, 4] * 5, pa.int64()),
            "b": pa.array(np.linspace(0, 1, 20, dtype=np.float32)),
            "flag": pa.array([True, False] * 10),
            "site": pa.array(["roof", "yard"] * 10).dictionary_encode(),
            "y": pa.array([0.5 * i if i != 7 else float("nan") for i in range(20)]),
        }
    )


def test_a_parquet_file_is_read_as_the_csv_would_be(tmp_path):
    table = table_of_types()
    pq.write_table(table, tmp_path / "d.parquet")
    read = read_table(tmp_path / "d.parquet", "y", choice=Choice(form=CsvFormat(decimal="comma")))
    assert read.inputs == ("a", "b", "flag", "site=roof", "site=yard") and len(read) == 14
    rows = [r for r in table.to_pylist() if r["a"] is not None and r["y"] == r["y"]]
    expected = [[r["a"], r["b"], r["flag"], r["site"] == "roof", r["site"] == "yard"] for r in rows]
    assert np.array_equal(read.x, np.array(expected, np.float32))
    assert np.array_equal(read.y[:, 0], np.array([r["y"] for r in rows], np.float32))


def test_a_parquet_file_of_a_data_frame_loses_its_index_and_dates_are_refused(tmp_path):
    table = table_of_types().append_column("__index_level_0__", pa.array(range(20)))
    pq.write_table(table, tmp_path / "d.parquet")
    assert "index" in read_table(tmp_path / "d.parquet", "y").notes[0]
    dated = table_of_types().append_column("when", pa.array(range(20), pa.timestamp("s")))
    pq.write_table(dated, tmp_path / "dated.parquet")
    with pytest.raises(LbnnError, match="column 'when' holds dates"):
        read_table(tmp_path / "dated.parquet", "y")


@pytest.mark.parametrize("more", [[], ["--stream"]])
def test_a_parquet_file_trains_and_predicts(tmp_path, more):
    read = read_table(wave(tmp_path / "d.csv", 400), "y")
    columns = {"a": read.x[:, 0], "b": read.x[:, 1], "site": np.where(read.x[:, 3] == 1, "yard", "roof")}
    pq.write_table(pa.table({**columns, "y": read.y[:, 0]}), tmp_path / "d.parquet", row_group_size=150)
    words = ["--target", "y", "--hidden", "4", "--epochs", "2", "--test-share", "0.2", *more]
    for name in ("d.csv", "d.parquet"):
        done = commands.lbnn("train", name, *words, "-o", f"{name}.pt", folder=tmp_path)
        assert done.status == 0, done.stderr
    first, second = (list(lbnn.load(tmp_path / f"{name}.pt").parameters()) for name in ("d.csv", "d.parquet"))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    told = [
        commands.lbnn("predict", "d.csv.pt", name, "-o", f"{name}.told", folder=tmp_path).status
        for name in ("d.csv", "d.parquet")
    ]
    assert told == [0, 0] and (tmp_path / "d.csv.told").read_bytes() == (tmp_path / "d.parquet.told").read_bytes()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b"PAR1 nonsense"), "is no Parquet file that can be read"),
        (lambda path: path.write_bytes(b""), "is no Parquet file that can be read"),
        (lambda path: pq.write_table(table_of_types().slice(0, 0), path), "has no rows"),
        (lambda path: pq.write_table(table_of_types().select(["y"]), path), "at least two columns"),
        (
            lambda path: pq.write_table(table_of_types().append_column("l", pa.array([[1]] * 20)), path),
            "column 'l' holds list",
        ),
    ],
)
def test_a_parquet_file_that_cant_be_used_is_one_line(tmp_path, make, message):
    make(tmp_path / "d.parquet")
    with pytest.raises(LbnnError, match=message) as caught:
        read_table(tmp_path / "d.parquet", "y")
    assert "\n" not in str(caught.value)


def test_without_pyarrow_the_way_to_get_it_is_told(tmp_path, monkeypatch):
    pq.write_table(table_of_types(), tmp_path / "d.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(LbnnError, match=r"pip install 'lbnn\[parquet\]'"):
        read_table(tmp_path / "d.parquet", "y")
