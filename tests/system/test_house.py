"""The house rules: where modules lie, which way imports point, and that a name means one thing."""

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from follow_recipes import read_recipes
from places import ROOT, TESTS

PACKAGE = ROOT / "lbnn"
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 350, 40


def test_nothing_lies_flat_in_the_package():
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={"PYTHONPATH": str(folder)})


@pytest.mark.parametrize(
    ("module", "wrong"),
    [
        ("base/files.py", "lbnn.ops.linear"),
        ("graph/passes.py", "lbnn.nn.base"),
        ("train/metrics.py", "lbnn.device.cores"),
        ("exporters/c/names.py", "lbnn.measure.parity"),
    ],
)
def test_an_import_that_points_the_wrong_way_is_refused_and_both_modules_are_named(module, wrong, tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "lbnn", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert lint_imports(tmp_path).returncode == 0
    with (tmp_path / "lbnn" / module).open("a") as file:
        file.write(f"\n\ndef _lazily() -> None:\n    import {wrong}\n")
    done = lint_imports(tmp_path)
    assert done.returncode == 1
    assert f"lbnn.{module.removesuffix('.py').replace('/', '.')} -> {wrong}" in done.stdout


def public_names(path: Path) -> Iterator[str]:
    """What a module defines at its top level, imports left out."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_no_public_name_is_defined_in_two_modules():
    homes = defaultdict(set)
    for path in MODULES:
        for name in public_names(path):
            if not name.startswith("_"):
                homes[name].add(str(path.relative_to(ROOT)))
    assert {name: sorted(paths) for name, paths in homes.items() if len(paths) > 1} == {}


def test_modules_and_functions_are_short():
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in MODULES}
    assert {path: count for path, count in lines.items() if count >= MOST_LINES} == {}
    long = {
        f"{path.relative_to(ROOT)}:{node.name}": node.end_lineno - node.lineno + 1
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION
    }
    assert long == {}


def test_every_package_has_its_folder_of_tests():
    packages = {path.parent.relative_to(PACKAGE) for path in MODULES} - {Path()}
    assert [str(package) for package in sorted(packages) if not list((TESTS / package).glob("test_*.py"))] == []


def test_no_two_files_of_tests_have_one_name():
    """pytest imports them by their name alone."""
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


SKIPS = re.compile(r"pytest\.(?:skip|importorskip|mark\.(?:skip|skipif|xfail))\b")
MAY_SKIP = {"support/places.py": 1, "system/test_numbers.py": 1}
"""Tools and packages, which LBNN_REQUIRE_TOOLS=1 insists on; and counts of one version of one compiler."""


def test_a_test_is_skipped_in_one_place_only_where_its_tool_may_be_required():
    found = {str(path.relative_to(TESTS)): len(SKIPS.findall(path.read_text())) for path in TESTS.rglob("*.py")}
    assert {name: count for name, count in found.items() if count} == MAY_SKIP, "use places.need"


PAGES = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")]
PAGES += [*(ROOT / "docs").glob("*.md"), *(ROOT / "c_runtime").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
EXAMPLES = {block.file for recipe in read_recipes() for block in recipe.blocks if block.action == "write"}
"""Files that the recipes make."""
NAMED = re.compile(r"\b(?:lbnn|tests|tools|c_runtime|examples|codegen_templates)/[\w/]+\.(?:py|c|h|md|txt|j2)\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page):
    named = {name for name in NAMED.findall(page.read_text()) if not re.search("NAME|PACKAGE|AREA", name)}
    assert {name for name in named if not (ROOT / name).exists() and name not in EXAMPLES} == set()


LOAD = """
import importlib.util, sys
from pathlib import Path
for name in sys.argv[1:]:
    known, path = set(sys.modules), list(sys.path)
    sys.path[0] = str(Path(name).parent)
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    module = sys.modules[Path(name).stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for new in {*sys.modules} - known:  # what another tool has loaded may be missing for this one
        if str(getattr(sys.modules[new], "__file__", None) or "").startswith(sys.argv[1].partition("tools")[0] + "t"):
            del sys.modules[new]
    sys.path[:] = path
"""


def test_every_tool_finds_what_it_imports():
    """Each alone, as `python tools/...` would, in one process: most of the time is torch's."""
    tools = sorted(map(str, (ROOT / "tools").rglob("*.py")))
    done = subprocess.run([sys.executable, "-c", LOAD, *tools], capture_output=True, text=True, cwd=TESTS, check=False)
    assert done.returncode == 0, done.stderr
