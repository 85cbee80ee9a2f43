"""`lbnn report`: bad input is one line."""

import pytest

from lbnn.cli.main import main
from reports import save_named, write_csv


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.pt"], "nowhere.pt"),
        (["sensor.pt", "--data", "nowhere.csv"], "no such file"),
        (["sensor.pt", "--data", "d.csv", "--target", "out9"], "no column 'out9'"),
        (["sensor.pt", "--target", "out0"], "give both"),
        (["sensor.pt", "--data", "wide.csv", "--target", "out0"], "takes (1,) and predicts 1"),
        (["sensor.pt", "--data", "latin.csv"], "is not text in UTF-8"),
        (
            ["sensor.pt", "--data", "latin.csv", "--encoding", "latin-1", "--decimal", "comma"],
            "no column besides the target varies",
        ),
        (["sensor.pt", "-o", "d.csv"], "--force"),
        (["sensor.pt", "--backends", "gpu"], "unknown backend"),
    ],
)
def test_bad_input_is_one_line_and_status_2(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save_named(tmp_path)
    write_csv(tmp_path / "d.csv", 1)
    write_csv(tmp_path / "wide.csv", 2)
    (tmp_path / "latin.csv").write_bytes("Größe;out0\n1,5;2,5\n".encode("latin-1"))
    with pytest.raises(SystemExit) as left:
        main(["report", *words])
    problem = capsys.readouterr().err
    assert left.value.code == 2 and message in problem and problem.count("\n") == 1, problem
