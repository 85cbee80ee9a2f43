"""`lbnn doctor`: which tools are here."""

import json

from shell import run


def test_doctor_names_what_is_missing():
    tools = json.loads(run("doctor", "--json").stdout)
    assert {"torch", "qemu-system-arm"} <= {tool["name"] for tool in tools}
    assert all(tool["install"] for tool in tools)
