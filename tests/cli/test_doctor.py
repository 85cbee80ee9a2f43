"""`lbnn doctor`: which tools are here."""

import json

from lbnn.cli.doctor_tools import PROGRAMS
from lbnn.device.cores import FAMILIES
from shell import run


def test_doctor_names_what_is_missing():
    tools = json.loads(run("doctor", "--json").stdout)
    assert {"torch", "qemu-system-arm"} <= {tool["name"] for tool in tools}
    assert all(tool["install"] for tool in tools)


def test_doctor_looks_for_the_compiler_and_the_emulator_of_every_family():
    wanted = {tool for family in FAMILIES.values() for tool in (family.gcc, family.qemu.program)}
    assert not wanted - set(PROGRAMS), f"PROGRAMS of lbnn/cli/doctor_tools.py lacks {sorted(wanted - set(PROGRAMS))}"
