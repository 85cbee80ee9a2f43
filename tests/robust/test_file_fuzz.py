"""Readers of strangers' files, by hypothesis: what is in the file, or one line; `make fuzz-files` runs more of it."""

import io
import resource
import time
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from file_fuzz import PROPERTIES, archive
from lbnn import LbnnError
from lbnn.train.datafile import read_table

SLOWEST = 5.0  # seconds of processor time for one file
MEMORY = 200_000  # KiB that reading may add to the peak


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROPERTIES)
def test_a_strangers_file_is_read_rightly_or_refused(name, tmp_path):
    subject, before, slowest = PROPERTIES[name], peak(), 0.0

    @settings(max_examples=150, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(subject.files)
    def reading(case):
        nonlocal slowest
        start = time.process_time()
        subject.check(case, tmp_path)
        slowest = max(slowest, time.process_time() - start)

    reading()
    assert slowest < SLOWEST
    assert peak() - before < MEMORY


def zeros(count: int, claimed: str = "") -> bytes:
    """An array of zeros as numpy writes it, with any shape in its header."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({claimed or count},), }}\n".encode()
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(4 * count)


def understated() -> bytes:
    """Members that unpack to more than the archive says."""
    packed = bytearray(archive({"x.npy": zeros(5_000_000), "y.npy": zeros(1)}, zipfile.ZIP_DEFLATED))
    entry = packed.index(b"PK\1\2")
    packed[entry + 24 : entry + 28] = (100).to_bytes(4, "little")
    return bytes(packed)


BOMBS = {
    "compressed": lambda: archive({"x.npy": zeros(40_000_000), "y.npy": zeros(1)}, zipfile.ZIP_DEFLATED),
    "huge shape": lambda: archive({"x.npy": zeros(3, str(10**12)), "y.npy": zeros(3)}),
    "overflowing shape": lambda: archive({"x.npy": zeros(3, f"{2**62}, 3"), "y.npy": zeros(3)}),
    "understated": understated,
    "twice": lambda: two_members(),
    "deep header": lambda: archive({"x.npy": zeros(3, "(" * 4000), "y.npy": zeros(3)}),
}


def two_members() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file, pytest.warns(UserWarning, match="Duplicate name"):
        for name in ("x.npy", "y.npy", "x.npy"):
            file.writestr(name, zeros(3))
    return buffer.getvalue()


@pytest.mark.parametrize("make", BOMBS.values(), ids=BOMBS)
def test_an_archive_that_claims_more_than_it_holds_is_refused_before_it_costs_memory(make, tmp_path):
    (tmp_path / "data.npz").write_bytes(make())
    before, start = peak(), time.process_time()
    with pytest.raises(LbnnError) as caught:
        read_table(tmp_path / "data.npz", None)
    assert "\n" not in str(caught.value)
    assert time.process_time() - start < SLOWEST and peak() - before < MEMORY


def test_arrays_that_compress_well_are_read(tmp_path):
    np.savez_compressed(tmp_path / "data.npz", x=np.zeros((20_000, 40)), y=np.arange(20_000))
    assert read_table(tmp_path / "data.npz", None).x.shape == (20_000, 40)


def test_thousands_of_columns_are_read(tmp_path):
    names = ",".join(f"c{i}" for i in range(5_000))
    rows = "".join(",".join([str((i * k) % 10) for k in range(5_000)]) + f",{i}\n" for i in range(12))
    (tmp_path / "wide.csv").write_text(f"{names},y\n{rows}")
    before, start = peak(), time.process_time()
    table = read_table(tmp_path / "wide.csv", "y")
    assert table.x.shape[0] == 12 and table.y[:, 0].tolist() == list(range(12))
    assert time.process_time() - start < SLOWEST and peak() - before < MEMORY


@pytest.mark.parametrize(
    "cell", ["9" * 100_000, "1e" + "9" * 100_000, '"' + "x" * 10**6, '"' * 10**6], ids=lambda c: c[:3]
)
def test_a_huge_cell_is_one_short_line(cell, tmp_path):
    (tmp_path / "data.csv").write_text(f"a,y\n1,2\n3,{cell}\n")
    start = time.process_time()
    with pytest.raises(LbnnError) as caught:
        read_table(tmp_path / "data.csv", "y")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    assert time.process_time() - start < SLOWEST


def test_digits_with_underscores_or_of_other_scripts_are_text(tmp_path):
    (tmp_path / "data.csv").write_text("a,b,y\n2024_01,١,1\n2024_02,٢,2\n")
    assert read_table(tmp_path / "data.csv", "y").inputs == ("a=2024_01", "a=2024_02", "b=١", "b=٢")
