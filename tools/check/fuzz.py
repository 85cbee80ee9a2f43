"""Fuzzes every C kernel and _predict of whole models: libFuzzer with the sanitizers of clang, for a set time.

python tools/check/fuzz.py --seconds 600 [--targets lbnn_linear,predict_zoo] [--variants lanes,memory] [--merge]

The harness is tests/fuzz. Exits 1 if there is a finding; the table and the line that repeats it are then printed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lbnn.base.terminal import print_table, progress, thousands

ROOT = Path(__file__).resolve().parents[2]
HARNESS, RUNTIME, CORPUS = ROOT / "tests/fuzz", ROOT / "c_runtime", ROOT / "tests/fuzz/corpus"
OUT = ROOT / "out/fuzz"

FLAGS = ("-std=gnu99", "-g", "-fno-math-errno", "-Wall", "-Wextra", "-Werror", "-fno-sanitize-recover=all")
ADDRESS = ("-fsanitize=fuzzer,address,undefined,float-cast-overflow",)
VARIANTS: dict[str, tuple[str, ...]] = {
    "lanes": ADDRESS,
    "wide": (*ADDRESS, "-march=native"),
    "scalar": (*ADDRESS, "-DLBNN_NO_SIMD"),
    "size": (*ADDRESS, "-DLBNN_NO_SIMD", "-DLBNN_OPTIMIZE_SIZE"),
    "libm": (*ADDRESS, "-DLBNN_USE_LIBM"),
    "half": (*ADDRESS, "-DFUZZ_HALF"),
    "half-size": (*ADDRESS, "-DFUZZ_HALF", "-DLBNN_NO_SIMD", "-DLBNN_OPTIMIZE_SIZE"),
    "memory": ("-fsanitize=fuzzer,memory",),
}
"""The builds: vector registers of SSE2 and of this processor, none, small kernels, libm, half floats, fresh memory."""

MODELS: dict[str, tuple[str, dict[str, object]]] = {
    "mlp": ("gas_sensor", {}),
    "zoo": ("zoo", {}),
    "zoo_moments": ("zoo", {"input_variance": True}),
    "zoo_size": ("zoo", {"input_variance": True, "optimize": "size"}),
}
"""The models of the predict targets: which of tests/support/c_models.py, and how it is exported."""

LIMITS = ("-max_len=512", "-timeout=20", "-detect_leaks=0", "-print_final_stats=1")
FINDING = re.compile(r"FINDING: .*|runtime error: .*|(?:ERROR|WARNING): \w+Sanitizer: .*|ERROR: libFuzzer: .*")


@dataclass(frozen=True)
class Result:
    """What a run of one target in one variant did; `finding` is empty if nothing was found."""

    target: str
    variant: str
    executions: int
    edges: int
    features: int
    finding: str
    command: str


def export_models(folder: Path) -> Path:
    """Writes the models as C, a folder each."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from c_models import read
    from lbnn.exporters.c import COptions, export_c

    for name, (source, options) in MODELS.items():
        export_c(read(source), folder / name, COptions(name=name, **options), force=True)  # type: ignore[arg-type]
    return folder


def build(variant: str, models: Path, out: Path, level: str = "-O1", runtime: Path = RUNTIME) -> Path:
    """Compiles the harness, the kernels of `runtime` and the models into one program."""
    out.parent.mkdir(parents=True, exist_ok=True)
    sources = [*sorted(HARNESS.glob("*.c")), *(models / name / f"{name}.c" for name in MODELS)]
    include = [f"-I{folder}" for folder in (HARNESS, runtime, *(models / name for name in MODELS))]
    checked = ["-include", str(HARNESS / "checked_lanes.h")]
    command = [
        "clang",
        level,
        *FLAGS,
        *VARIANTS[variant],
        *checked,
        *include,
        *map(str, sources),
        "-o",
        str(out),
        "-lm",
    ]
    subprocess.run(command, check=True)
    return out


def targets(program: Path) -> list[str]:
    """The names of all targets."""
    return _run(program, "?", []).stdout.split()


def fuzz(program: Path, variant: str, target: str, arguments: Iterable[str], corpora: Sequence[Path]) -> Result:
    """Runs one target on its corpora; new inputs go into the first."""
    findings = OUT / "findings" if program.is_relative_to(OUT) else program.parent / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    prefix = f"-artifact_prefix={findings}/{target}-{variant}-"
    done = _run(program, target, [*LIMITS, prefix, *arguments, *map(str, corpora)])
    return _result(done, target, variant, program)


def _run(program: Path, target: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LBNN_FUZZ_TARGET": target}
    command = [str(program), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)


def _result(done: subprocess.CompletedProcess[str], target: str, variant: str, program: Path) -> Result:
    log = done.stderr
    coverage = [(0, 0), *((int(edges), int(features)) for edges, features in re.findall(r"cov: (\d+) ft: (\d+)", log))]
    executed = re.search(r"stat::number_of_executed_units: (\d+)", log)
    finding = FINDING.search(log)
    written = re.search(r"Test unit written to (.+)", log)
    what = "" if done.returncode == 0 else finding.group() if finding else f"exit status {done.returncode}"
    command = f"LBNN_FUZZ_TARGET={target} {program} {written.group(1) if written else ''}"
    return Result(target, variant, int(executed.group(1)) if executed else 0, *coverage[-1], what, command)


def merge(program: Path, target: str) -> None:
    """Puts the smallest set of inputs that covers all edges into the kept corpus; inputs with a name stay."""
    kept = CORPUS / target
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        given = [str(path) for path in (Path(folder), kept, OUT / "corpus" / target)]
        _run(program, target, ["-merge=1", "-set_cover_merge=1", "-use_counters=0", *LIMITS, *given])
        for path in kept.iterdir():
            if re.fullmatch(r"[0-9a-f]{40}", path.name):
                path.unlink()
        for path in Path(folder).iterdir():
            shutil.copy(path, kept)


def main() -> int:
    """Builds, runs and prints."""
    arguments = _arguments()
    models = export_models(OUT / "models")
    with progress("build", arguments.variants) as steps:
        programs = {name: build(name, models, OUT / name) for name in steps}
    names = arguments.targets or targets(next(iter(programs.values())))
    runs = [(target, variant) for target in names for variant in programs]
    share = max(1, round(arguments.seconds * arguments.jobs / len(runs)))

    def one(run: tuple[str, str]) -> Result:
        target, variant = run
        corpora = [OUT / "corpus" / target, CORPUS / target]
        for folder in corpora:
            folder.mkdir(parents=True, exist_ok=True)
        return fuzz(programs[variant], variant, target, [f"-max_total_time={share}"], corpora)

    with ThreadPoolExecutor(arguments.jobs) as pool, progress("fuzz", [" ".join(run) for run in runs]) as steps:
        results = [result for _, result in zip(steps, pool.map(one, runs), strict=True)]
    if arguments.merge:
        for target in names:
            merge(next(iter(programs.values())), target)
    return report(results, share)


def report(results: Sequence[Result], share: int) -> int:
    """Prints the table and how to repeat what was found; the exit status."""
    variants = list(dict.fromkeys(result.variant for result in results))
    names = list(dict.fromkeys(result.target for result in results))
    rows = [_row([result for result in results if result.target == name]) for name in names]
    totals = [sum(result.executions for result in results if result.variant == variant) for variant in variants]
    found = [result for result in results if result.finding]
    total = ["all", *map(thousands, totals), "", "", str(len(found))]
    title = f"executions in {share} s by build; most edges and features covered; findings"
    print_table(["target", *variants, "edges", "features", "findings"], [*rows, total], title)
    print(f"{len(results)} runs, {sum(totals):,} executions, {len(found)} findings")
    for result in found:
        print(f"{result.target}, {result.variant}: {result.finding}\n  {result.command}")
    return 1 if found else 0


def _row(results: Sequence[Result]) -> list[str]:
    """One target in all builds."""
    executions = [thousands(result.executions) for result in results]
    covered = [thousands(max(counts)) for counts in zip(*((r.edges, r.features) for r in results), strict=True)]
    return [results[0].target, *executions, *covered, str(sum(bool(result.finding) for result in results))]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="of the whole run, building apart")
    parser.add_argument("--targets", type=_names, default=[], help="all by default")
    parser.add_argument("--variants", type=_names, default=list(VARIANTS), help=f"of {', '.join(VARIANTS)}")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--merge", action="store_true", help="keep new inputs in tests/fuzz/corpus")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main())
