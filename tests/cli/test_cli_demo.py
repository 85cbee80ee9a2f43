"""`lbnn demo`: from training to a report in one go, every backend proved on the way."""

from places import need
from shell import fails_in_one_line, run


def test_the_whole_story_is_told_and_its_files_are_left(tmp_path):
    need("cc")
    done = run("demo", "--quick", "--out", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    assert [line[:2] for line in done.stdout.splitlines() if line[1:2] == "."] == ["1.", "2.", "3.", "4.", "5.", "6."]
    left = {path.name for path in (tmp_path / "demo").iterdir()}
    assert left == {"polynomial.pt", "prediction.png", "c", "polynomial.onnx", "report.html", "data.csv"}


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "demo").write_text("x")
    fails_in_one_line(run("demo", "--quick", cwd=tmp_path), "demo is a file; name a folder")
