"""Draws mutants at random, balanced over the areas of the source, and knows which can't be observed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice
from pathlib import Path

from mutants import EQUIVALENT, FAULTS, ROOT, Fault, joined, parse, read_faults
from mutants_c import c_edits
from mutants_python import Edit, is_another_program, python_edits


@dataclass(frozen=True)
class Area:
    """Files whose lines are drawn, and tests that could catch a change of any of them: quick ones, then the others."""

    files: tuple[str, ...]
    quick: tuple[str, ...]
    tests: tuple[str, ...]


GOLDEN = "tests/exporters/c/test_c_golden.py"
"""Compares text with text, so that it notices every change of it: the last to be asked."""

AREAS: dict[str, Area] = {
    "formulas": Area(
        ("lbnn/ops/*.py", "lbnn/nn/*.py"),
        ("tests/ops/test_ops.py", "tests/ops/test_tail.py", "tests/nn"),
        (
            *(
                "tests/base/test_moments.py",
                "tests/graph",
                "tests/model/test_trace.py",
                "tests/model/test_model_file.py",
            ),
            *("tests/exporters/onnx/test_onnx.py", "tests/measure/test_saturated.py -k torch", "tests/convert"),
            *("tests/measure/test_parity.py", "tests/robust/test_hostile_files.py -k wrong_field"),
            *("tests/system/test_completeness.py", "tests/ops/test_kinked.py"),
        ),
    ),
    "kernels": Area(
        ("c_runtime/*.h",),
        ("tests/c_runtime/test_kernels.py -k 'gcc-O0 or gcc-scalar-4'",),
        (
            "tests/c_runtime/test_kernels.py -k 'gcc-Os or gcc-libm or gcc-scalar or strict_builds or mean_only'",
            "tests/c_runtime/test_long_sums.py",
            "tests/c_runtime/test_kernel_properties.py",
            "tests/exporters/c/test_predict.py -k 'zoo or bad_numbers or null_pointer'",
        ),
    ),
    "passes": Area(
        tuple(f"lbnn/graph/{name}.py" for name in ("passes", "graph", "reference", "arithmetic")),
        ("tests/graph", "tests/model/test_trace.py"),
        (
            *(
                "tests/measure/test_parity.py",
                "tests/measure/test_saturated.py -k torch",
                "tests/model/test_model_file.py",
            ),
            *("tests/exporters/c/test_predict.py", "tests/measure/test_inspection.py", "tests/ops/test_ops.py"),
        ),
    ),
    "planner": Area(
        ("lbnn/graph/plan.py", "lbnn/graph/packing.py"),
        ("tests/graph/test_plan.py",),
        ("tests/graph", "tests/exporters/c/test_predict.py", GOLDEN),
    ),
    "packing": Area(
        ("lbnn/exporters/c/*.py", "lbnn/exporters/c/dtypes/*.py"),
        (
            *(
                "tests/exporters/c/test_literals.py",
                "tests/exporters/c/test_names.py",
                "tests/exporters/c/test_view.py",
            ),
            "tests/exporters/c/test_predict.py -k 'not random'",
            "tests/c_runtime/test_kernels.py -k 'packing or blocks or padding or gcc-O0 and (linear or conv or pool)'",
            *("tests/exporters/c/test_selftest.py", "tests/exporters/c/dtypes"),
        ),
        (
            *("tests/exporters/c/test_decide.py", "tests/c_runtime/test_machines.py -k 'longest_step or largest_int'"),
            *("tests/exporters/c/test_c_packages.py", "tests/exporters/c/test_folder.py"),
            *("tests/exporters/c/test_predict.py", "tests/exporters/c/test_c_static.py", GOLDEN),
        ),
    ),
    "templates": Area(
        ("codegen_templates/c/*.[ch].j2", "codegen_templates/c/golden.j2", "codegen_templates/c/constants.j2"),
        (
            "tests/exporters/c/test_predict.py -k 'null_pointer or bad_numbers or good_call'",
            *("tests/exporters/c/test_selftest.py", "tests/exporters/test_compiled.py"),
        ),
        (
            *("tests/exporters/c/test_decide.py", "tests/exporters/c/test_folder.py"),
            *("tests/exporters/c/test_c_packages.py", GOLDEN),
        ),
    ),
}


@dataclass(frozen=True)
class Mutant:
    """One change of one file, by text: the lines that it touches as they were and as they are."""

    area: str
    file: str
    line: int
    edit: Edit
    old: str
    new: str

    @property
    def key(self) -> str:
        """Stays the same while lines above it come and go."""
        return "\n".join((self.file, str(self.line), self.old, self.new))

    def listed(self) -> tuple[str, str, str]:
        """What the list of equivalent changes says of it."""
        return self.file, *map(stripped, (self.old, self.new))


def stripped(lines: str) -> str:
    """Lines without their indent."""
    return "\n".join(line.strip() for line in lines.strip().splitlines())


def mutants_of(root: Path, file: str, area: str = "") -> list[Mutant]:
    """Every mutant of a file."""
    text = (root / file).read_text()
    edits = python_edits(text) if file.endswith(".py") else c_edits(text)
    return [_mutant(area, file, text, edit) for edit in edits]


def _mutant(area: str, file: str, text: str, edit: Edit) -> Mutant:
    begin = text.rfind("\n", 0, edit.start) + 1
    end = text.find("\n", edit.end) if "\n" in text[edit.end :] else len(text)
    new = text[begin : edit.start] + edit.new + text[edit.end : end]
    return Mutant(area, file, text.count("\n", 0, begin) + 1, edit, text[begin:end], new)


def is_fair(root: Path, mutant: Mutant) -> bool:
    """Whether it is another program in its language; a compiler has the last word on C."""
    return not mutant.file.endswith(".py") or is_another_program((root / mutant.file).read_text(), mutant.edit)


def files_of(root: Path, area: str) -> list[str]:
    """The files of an area."""
    found = {str(path.relative_to(root)) for pattern in AREAS[area].files for path in root.glob(pattern)}
    return sorted(found)


def draw(root: Path, count: int, seed: int, areas: tuple[str, ...] = tuple(AREAS)) -> list[Mutant]:
    """`count` mutants, as many of each area as it has; the same for the same source, seed and areas."""
    sources = {area: _sequence(root, area, random.Random(f"{seed} {area}")) for area in areas}
    return list(islice(_in_turn(sources), count))


def _in_turn(sources: dict[str, Iterator[Mutant]]) -> Iterator[Mutant]:
    empty: set[str] = set()
    for area in cycle(sources):
        if len(empty) == len(sources):
            return
        if (mutant := next(sources[area], None)) is None:
            empty.add(area)
        else:
            yield mutant


def _sequence(root: Path, area: str, rng: random.Random) -> Iterator[Mutant]:
    """A random line, a random operator of those that fit it, a random change of that kind, none of them twice."""
    lines: dict[tuple[str, int], dict[str, list[Mutant]]] = {}
    for file in files_of(root, area):
        for mutant in mutants_of(root, file, area):
            lines.setdefault((file, mutant.line), {}).setdefault(mutant.edit.operator, []).append(mutant)
    while lines:
        place = rng.choice(sorted(lines))
        operator = rng.choice(sorted(lines[place]))
        found = lines[place][operator]
        mutant = found.pop(rng.randrange(len(found)))
        if is_fair(root, mutant):
            yield mutant
        if not found:
            del lines[place][operator]
        if not lines[place]:
            del lines[place]


def equivalents(folder: Path = FAULTS) -> dict[tuple[str, str, str], str]:
    """Changes that nobody can observe: file, old lines, new lines -> the reason."""
    path = folder / f"{EQUIVALENT}.txt"
    found = parse(path.read_text(), EQUIVALENT) if path.exists() else ()
    return {(fault.file, stripped(fault.old), stripped(fault.new)): fault.title for fault in found}


@cache
def _faults() -> tuple[Fault, ...]:
    return tuple(read_faults())


def selections(mutant: Mutant, narrow: bool = False) -> tuple[str, ...]:
    """Those of its module and those listed for the faults of its file first, then those of its area.

    `narrow` is the former alone where there are any, else the quick ones of its area.
    """
    path = Path(mutant.file)
    module = f"tests/{path.parent.relative_to(path.parts[0])}/test_{path.stem}.py"
    listed = [test for fault in _faults() if fault.file == mutant.file for test in fault.tests]
    own = [test for test in joined([*listed, *([module] if (ROOT / module).is_file() else [])]) if GOLDEN not in test]
    area = AREAS[mutant.area]
    if narrow:
        return tuple(own) or area.quick
    return tuple(dict.fromkeys([*own, *area.quick, *area.tests]))
