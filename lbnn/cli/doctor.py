"""`lbnn doctor`: which tools are here."""

from __future__ import annotations

from lbnn.cli.command import AS_JSON, command, print_json


@command("lbnn doctor")
@AS_JSON
def doctor_command(as_json: bool) -> None:
    """Which tools are here, what each missing one would add, and how to install it."""
    from dataclasses import asdict

    from lbnn.cli.doctor_tools import examine, show_tools

    found = examine()
    if as_json:
        print_json([asdict(tool) for tool in found])
    else:
        show_tools(found)
