"""The signals of an ordinary process, which a shell takes from what it starts in the background or under nohup."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
