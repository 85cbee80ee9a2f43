"""Runs `lbnn`; at every n-th import it forks a twin that gets a signal there, and notes how the twin ended.

    python struck_imports.py NOTES EVERY WORDS...

So one start of the program tries hundreds of moments. A line of NOTES: signal, exit status, what was said on stderr.
"""

import itertools
import json
import os
import signal
import sys
from pathlib import Path

SIGNALS = itertools.cycle((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
notes, every = Path(sys.argv[1]), int(sys.argv[2])
main_process, count = os.getpid(), itertools.count(1)
end = {"status": None}


def strike(event, args):
    if event == "import" and os.getpid() == main_process and next(count) % every == 0:
        number, said = next(SIGNALS), notes.with_suffix(".said")
        twin = os.fork()
        if not twin:
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
            os.kill(os.getpid(), number)
            return
        status = os.waitstatus_to_exitcode(os.waitpid(twin, 0)[1])
        with notes.open("a") as file:
            file.write(json.dumps([int(number), status, said.read_text()]) + "\n")


sys.argv = ["lbnn", *sys.argv[3:]]
from lbnn.cli import main  # noqa: E402

ready = main.ending.make_ready
main.ending.make_ready = lambda: (ready(), sys.addaudithook(strike))
main.main()
