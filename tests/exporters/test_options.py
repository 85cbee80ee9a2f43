"""Options that do not go together, or are not known, say what to choose."""

import pytest

from lbnn.base.errors import LbnnError
from lbnn.exporters.c import COptions


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (dict(package="esp"), "arduino, platformio, esp-idf, zephyr"),
        (dict(weights="flash"), "source, binary"),
        (dict(optimize="fast"), "speed, size"),
        (dict(weights="binary", single_file=True), "binary weights"),
        (dict(board="mps2-an386", single_file=True), "leave out --single-file"),
    ],
)
def test_a_wrong_option_says_what_to_choose(option, message):
    with pytest.raises(LbnnError, match=message):
        COptions(**option)
