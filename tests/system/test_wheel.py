"""The built wheel, alone: outside the checkout, in a fresh environment, with templates and runtime inside."""

import os
import subprocess
import sys
import sysconfig
import venv
from zipfile import ZipFile

import pytest

from places import ROOT, need, need_package

SAVE = """
import lbnn, torch
from lbnn import nn as bnn
torch.manual_seed(0)
model = bnn.Sequential(bnn.Linear(2, 4), bnn.LeakyReLU(0.1), bnn.Linear(4, 1))
lbnn.save(model, "model.pt", input_shape=(2,))
print(lbnn.__file__)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A new environment that sees the wheel and the installed dependencies, but neither the checkout nor its link.

    Dependencies come by PYTHONPATH, where the .pth file of an editable install has no effect.
    """
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("lbnn-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", folder / "site", wheel], check=True, capture_output=True)
    venv.create(folder / "env", with_pip=False)
    path = os.pathsep.join([str(folder / "site"), sysconfig.get_paths()["purelib"]])
    return folder, {**os.environ, "PYTHONPATH": path}


def run(environment, *words):
    folder, variables = environment
    work = folder / "work"
    work.mkdir(exist_ok=True)
    command = [folder / "env" / "bin" / "python", *map(str, words)]
    done = subprocess.run(command, cwd=work, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_model_is_saved_exported_compiled_and_verified_from_the_wheel(environment):
    need("cc")
    assert str(environment[0] / "site") in run(environment, "-c", SAVE)
    run(environment, "-m", "lbnn.cli.main", "export", "model.pt", "--target", "c", "-o", "c")
    run(environment, "-m", "lbnn.cli.main", "export", "model.pt", "--target", "onnx", "-o", "model.onnx")
    out = run(
        environment,
        "-m",
        "lbnn.cli.main",
        "verify",
        "model.pt",
        "--samples",
        "7",
        "--backends",
        "torch,onnx,c,cortex-m4",
    )
    assert "fails" not in out and out.count(" ok ") == 4


def test_the_wheel_says_that_it_has_types(environment):
    folder, _ = environment
    assert (folder / "site" / "lbnn" / "py.typed").is_file()
    (about,) = (folder / "site").glob("lbnn-*.dist-info/METADATA")
    assert "Classifier: Typing :: Typed" in about.read_text(encoding="utf-8")


@pytest.mark.ecosystem(
    "Python: wheel and sdist", "built from the archive, `twine check`", package="twine", result="passes"
)
def test_a_wheel_of_the_source_archive_is_that_of_the_checkout_and_both_pass_twine(environment, tmp_path):
    """With what needs no network of twine: names, versions, and a page that a registry can show."""
    need_package("twine")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path], cwd=ROOT, check=True)
    (source,) = tmp_path.glob("lbnn-*.tar.gz")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "wheel", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "-w", tmp_path, source], check=True)
    (wheel,), (direct,) = tmp_path.glob("lbnn-*.whl"), environment[0].glob("lbnn-*.whl")
    assert sorted(ZipFile(wheel).namelist()) == sorted(ZipFile(direct).namelist())
    check = "import sys; from twine.commands.check import check; sys.exit(check(sys.argv[1:], strict=True))"
    done = subprocess.run([sys.executable, "-c", check, source, wheel], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("PASSED") == 2, done.stdout + done.stderr


def test_the_exported_folder_builds_and_its_example_runs(environment):
    cc = need("cc")
    work = environment[0] / "work"
    run(environment, "-c", SAVE)
    run(environment, "-m", "lbnn.cli.main", "export", "model.pt", "--target", "c", "-o", "alone", "--force")
    sources = [work / "alone" / name for name in ("model.c", "model_selftest.c", "example_main.c")]
    subprocess.run([cc, "-std=c99", *sources, "-lm", "-o", work / "example"], check=True)
    assert subprocess.run([work / "example"]).returncode == 0


OPTIONAL = ("onnx", "onnxruntime", "matplotlib", "ziglang", "unicorn", "elftools", "capstone")
WITHOUT = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OPTIONAL}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""


def test_lbnn_works_without_the_optional_packages_and_says_what_needs_them(environment):
    script = WITHOUT + SAVE + "lbnn.export('model.pt', 'c', 'without')\n"
    run(environment, "-c", script)
    line = "torch.zeros(2)"
    picture = f"from lbnn import plots; plots.prediction_band({line}, lbnn.Moments({line}, {line}))"
    for call in ("lbnn.export('model.pt', 'onnx', 'x.onnx')", picture):
        probe = WITHOUT + f"import lbnn, torch\ntry:\n    {call}\nexcept lbnn.LbnnError as error:\n    print(error)\n"
        assert "pip install 'lbnn[" in run(environment, "-c", probe), call
