"""The one exception type whose message is meant for the user: one line that says what to do."""


class LbnnError(Exception):
    """Bad input or a missing tool; the command line prints the message and exits with status 2."""


def one_line(text: str) -> str:
    """The text on one line, with nothing in it that a terminal could take for a command or that turns the writing."""
    return "".join(c if c.isprintable() else "_" for c in " ".join(text.split()))
