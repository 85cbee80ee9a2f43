"""The program `lbnn`: ready for whatever may end it before anything is imported that takes time to load."""

from __future__ import annotations

import sys

from lbnn.cli import ending


def main(arguments: list[str] | None = None) -> None:
    """Runs a command. Without `arguments` it is all that this process does, and signals to the process are its own."""
    if arguments is None:
        ending.make_ready()
    try:
        from lbnn.cli.program import run

        status = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        status = ending.interrupted()
    except ending.Terminated as end:
        status = ending.say(str(end), end.status)
    if arguments is None:
        ending.nothing_left_to_do()
    sys.exit(status)


if __name__ == "__main__":
    main()
