"""The signals of an ordinary process, which a shell takes from what it starts in the background or under nohup.

And the record of the ecosystems that the tests tried.
"""

import signal

from tried import pytest_runtest_logreport, pytest_runtest_setup, pytest_sessionfinish

__all__ = ["pytest_runtest_logreport", "pytest_runtest_setup", "pytest_sessionfinish"]

signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
