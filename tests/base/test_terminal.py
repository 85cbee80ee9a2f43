"""Bars are for eyes: nothing of them goes into a pipe or a file."""

import pytest

from lbnn.base.terminal import progress


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"])
def test_a_bar_is_silent_where_nobody_looks_whatever_the_environment_says(variable, monkeypatch, capsys):
    monkeypatch.setenv(variable, "1")
    with progress("working", ["a", "b"]) as names:
        assert list(names) == ["a", "b"]
    assert capsys.readouterr() == ("", "")


def test_a_bar_is_silent_without_a_stderr(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    with progress("working", ["a"]) as names:
        assert list(names) == ["a"]
