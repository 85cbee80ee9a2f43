"""The one exception type whose message is meant for the user: one line that says what to do."""


class LbnnError(Exception):
    """Bad input or a missing tool; the command line prints the message and exits with status 2."""
