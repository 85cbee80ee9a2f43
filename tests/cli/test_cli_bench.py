"""`lbnn bench`: one JSON object."""

import json

import pytest

from lbnn.cli.main import main
from places import need
from saved import save_small


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return save_small(tmp_path_factory.mktemp("model"))


def test_json_is_one_object_and_nothing_else(small, capsys):
    need("arm-none-eabi-gcc")
    with pytest.raises(SystemExit) as ended:
        main(["bench", str(small), "--backends", "cortex-m4-gcc", "--json"])
    assert ended.value.code == 0
    printed = json.loads(capsys.readouterr().out)
    assert [backend["backend"] for backend in printed["backends"]] == ["cortex-m4-gcc"]
    taken, fewest = (sum(layer[key] for layer in printed["layers"]) for key in ("instructions", "minimum"))
    assert taken > fewest > 0
