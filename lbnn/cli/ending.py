"""What may end a command from outside: Ctrl-C, a signal, a reader that has gone, a stream that was closed.

The exit status is then 128 and the number of the signal, as shells say it. 1 is kept for a check that failed, 2 for
what the user can mend.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from lbnn.base.errors import one_line

INTERRUPTED = 128 + 2  # SIGINT
READER_GONE = 128 + 13  # SIGPIPE
MESSAGES = {"SIGINT": "interrupted", "SIGTERM": "ended by SIGTERM", "SIGHUP": "ended by SIGHUP"}
"""The signals that are answered, and what is said."""
SHOW_CURSOR = "\r\x1b[K\x1b[?25h"  # a progress bar hides it


class Terminated(BaseException):
    """A signal that ends the process; unwinding removes what is temporary and ends what was started."""

    def __init__(self, number: int) -> None:
        super().__init__(MESSAGES[signal.Signals(number).name])
        self.status = 128 + number


def make_ready() -> None:
    """Answers signals, unless whoever started this process has them ignored, and gives it the streams it lacks."""
    _open_streams()
    _answer(_on_signal)


def nothing_left_to_do() -> None:
    """From now on a signal ends the process at once: an exception would reach nobody who could answer it."""
    _answer(_leave)
    _tidy()


def interrupted(what_remains: str = "") -> int:
    """Says that Ctrl-C came, and what there is nevertheless."""
    return say("; ".join(filter(None, (MESSAGES["SIGINT"], what_remains))), INTERRUPTED)


def say(message: str, status: int) -> int:
    """One line on stderr; the status to end with."""
    try:
        print("lbnn:", one_line(message), file=sys.stderr, flush=True)
    except OSError:  # nobody listens
        drop_output(2)
    return status


def drop_output(number: int = 1) -> None:
    """Nothing more goes to a stream, so that Python does not fail again when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _answer(handler: Callable[[int, FrameType | None], None]) -> None:
    for name in MESSAGES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _on_signal(number: int, frame: FrameType | None) -> None:
    """An exception, but not in an import: modules of C swallow it there, or make an error of their own of it."""
    if _importing(frame):
        _leave(number, frame)
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _leave(number: int, frame: FrameType | None) -> None:
    """Ends the process at once."""
    _tidy()
    if sys.stderr.isatty():
        sys.stderr.write(SHOW_CURSOR)
    say(MESSAGES[signal.Signals(number).name], 0)
    os._exit(128 + number)


def _tidy() -> None:
    """Removes what is temporary; where the module that makes it is not loaded, there is nothing."""
    if remove_all := getattr(sys.modules.get("lbnn.base.temporary"), "remove_all", None):
        remove_all()


def _open_streams() -> None:
    """A stream that was closed leads nowhere: no file that is opened later may get its number and what is printed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
