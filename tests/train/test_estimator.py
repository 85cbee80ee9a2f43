"""What the estimators share: their page and examples run as written, and scikit-learn's check of array namespaces."""

import doctest
import os
import re
import subprocess
import sys

import pytest

from estimator_checks import SCIKIT_LEARN
from lbnn.train import classifier, regressor
from places import ROOT

ARRAY_API = """
import lbnn
from sklearn.utils.estimator_checks import check_array_api_input
for estimator in (lbnn.Regressor(hidden=(4,), epochs=2), lbnn.Classifier(hidden=(4,), epochs=2)):
    check_array_api_input(type(estimator).__name__, estimator, array_namespace="numpy", expect_only_array_outputs=False)
    print(type(estimator).__name__)
"""


@SCIKIT_LEARN
def test_array_namespaces_change_nothing():
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", ARRAY_API], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["Regressor", "Classifier"], done.stderr


@pytest.mark.parametrize("module", [regressor, classifier], ids=lambda module: module.__name__)
def test_examples_of_docstrings_run(module):
    found = doctest.testmod(module)
    assert found.attempted >= 5 and not found.failed


def test_the_page_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "sklearn.md").read_text(), re.S)
    names: dict = {}
    for block in blocks:
        exec(block, names)  # noqa: S102
    covered = re.search(r"interval covers (\d+)%", capsys.readouterr().out)
    assert covered and 75 <= int(covered[1]) <= 100
    for name, function in (("diabetes", "diabetes_predict("), ("iris", "iris_classify(")):
        assert function in (tmp_path / "firmware" / name / f"{name}.h").read_text()
