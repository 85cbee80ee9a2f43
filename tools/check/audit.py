"""Audits what the project is built from, offline: installed packages, their files, their licences, and our own source.

    python tools/check/audit.py [--quick] [--brief]

--quick leaves out the contents of the largest packages, --brief the list of licences. Known vulnerabilities are not
looked up: that needs a database from the network; with one, `pip-audit -r constraints.txt` does it.
"""

from __future__ import annotations

import argparse
import ast
import base64
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from lbnn.base.terminal import print_table, progress

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(sysconfig.get_paths()["purelib"])
OURSELVES = "lbnn"
INSTALLERS = {"pip", "setuptools"}
"""They come with the environment and are not pinned."""
LARGE = {
    "torch",
    "ziglang",
    "onnxruntime",
    "pandas",
    "scipy",
    "scikit-learn",
    "onnx",
    "sympy",
    "numpy",
    "mypy",
    "selenium",
}
"""Packages whose contents --quick does not read: nine tenths of all bytes."""


@dataclass(frozen=True)
class Finding:
    """A check, what it looked at, and what is wrong."""

    check: str
    seen: str
    problems: tuple[str, ...]


def main() -> None:
    """Prints the licences, a row for each check and each problem; status 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="do not read the largest packages")
    parser.add_argument("--brief", action="store_true", help="do not list the licences")
    args = parser.parse_args()
    with progress("auditing", list(CHECKS)) as names:
        found = [CHECKS[name](args.quick) for name in names]
    if not args.brief:
        print_table(("package", "version", "licence by its metadata"), licences(), "licences")
        print()
    rows = [(finding.check, finding.seen, "fails" if finding.problems else "ok") for finding in found]
    print_table(("check", "looked at", "status"), rows, "audit")
    problems = [problem for finding in found for problem in finding.problems]
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


# --- Packages -------------------------------------------------------------------------------------------------


def installed(folder: Path = SITE) -> dict[str, Distribution]:
    """The packages of an environment by their canonical names."""
    found = importlib.metadata.distributions(path=[str(folder)])
    return {canonicalize_name(each.metadata["Name"]): each for each in found}


OTHERS = ROOT / "tests" / "others.txt"


def pinned(path: Path = ROOT / "constraints.txt") -> dict[str, SpecifierSet]:
    """The version of each package in the constraints."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return {canonicalize_name((r := Requirement(line)).name): r.specifier for line in lines if line}


def others() -> set[str]:
    """What converters are tested against."""
    return set(pinned(OTHERS))


def check_pins(_quick: bool) -> Finding:
    """Each installed package is pinned at its version, apart from a local label such as +cpu."""
    pins, found = pinned(), installed()
    names = set(found) - _unasked()
    loose = [f"constraints.txt: {name} is not pinned to one version" for name, pin in pins.items() if not _exact(pin)]
    missing = [f"{name} {found[name].version} is installed but not pinned" for name in sorted(names - set(pins))]
    other = [
        f"{name} is pinned {pins[name]} but {found[name].version} is installed"
        for name in sorted(names & set(pins))
        if not pins[name].contains(found[name].version, prereleases=True)
    ]
    return Finding("every installed package is pinned", f"{len(names)} packages", (*loose, *missing, *other))


def _exact(pin: SpecifierSet) -> bool:
    return len(pin) == 1 and next(iter(pin)).operator == "==" and "*" not in str(pin)


def check_needed(_quick: bool) -> Finding:
    """Each pinned package is one that the project needs, directly or through another."""
    found, pins = installed(), pinned()
    needed = closure(found, _own_requirements())
    problems = [f"constraints.txt: nothing needs {name}" for name in sorted(set(pins) - needed)]
    problems += [f"{name} is installed but nothing needs it" for name in sorted(set(found) - needed - _unasked())]
    return Finding("every pinned package is needed", f"{len(pins)} pins", tuple(problems))


def _unasked() -> set[str]:
    """Installers, ourselves, and what `make others` adds at versions of its own."""
    return {*INSTALLERS, OURSELVES, *others()}


def _own_requirements() -> list[Requirement]:
    """What pyproject.toml asks for: to build, to run and to test."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lists = [data["build-system"]["requires"], data["project"]["dependencies"]]
    lists += data["project"]["optional-dependencies"].values()
    return [Requirement(text) for texts in lists for text in texts if not text.startswith(f"{OURSELVES}[")]


def closure(found: dict[str, Distribution], requirements: Iterable[Requirement]) -> set[str]:
    """The requirements and all that they need in turn."""
    reached: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(r.name), extra) for r in requirements for extra in ("", *r.extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in reached or name not in found:
            continue
        reached.add((name, extra))
        for requirement in map(Requirement, found[name].requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(requirement.name), e) for e in ("", *requirement.extras)]
    return {name for name, _ in reached}


def check_ranges(_quick: bool) -> Finding:
    """The ranges of pyproject.toml admit the versions that are tested."""
    pins, asked = pinned(), _own_requirements()
    problems = [
        f"pyproject.toml: {requirement} does not admit the pinned version {pins[canonicalize_name(requirement.name)]}"
        for requirement in asked
        if not requirement.specifier.contains(str(pins[canonicalize_name(requirement.name)]).removeprefix("=="))
    ]
    return Finding("pyproject.toml admits the pinned versions", f"{len(asked)} requirements", tuple(problems))


def check_consistent(_quick: bool) -> Finding:
    """`pip check`: no package lacks another or has the wrong version of it."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    problems = tuple(done.stdout.splitlines()) if done.returncode else ()
    return Finding("pip check", "all packages", problems)


# --- Files ----------------------------------------------------------------------------------------------------


def check_files(quick: bool) -> Finding:
    """Each file of each package is what its RECORD says."""
    count, problems = 0, []
    for name, package in installed().items():
        for problem in changed_files(package, contents=not (quick and name in LARGE)):
            problems.append(f"{name}: {problem}")
        count += len(package.files or ())
    return Finding("files are as installed", f"{count} files{', large packages by size' * quick}", tuple(problems))


def changed_files(package: Distribution, contents: bool = True) -> Iterator[str]:
    """The files that are missing or differ; compiled ones and the RECORD itself have no checksum."""
    if not package.files:
        yield "has no RECORD"
    for file in package.files or ():
        path = Path(str(file.locate()))
        if not path.is_file():
            if path.suffix != ".pyc":
                yield f"{file} is missing"
        elif file.size is not None and path.stat().st_size != file.size:
            yield f"{file} has {path.stat().st_size} bytes, not {file.size}"
        elif contents and file.hash and digest(path, file.hash.mode) != file.hash.value:
            yield f"{file} has been changed"


def digest(path: Path, algorithm: str) -> str:
    """The checksum as RECORD has it."""
    with path.open("rb") as file:
        value = hashlib.file_digest(file, algorithm).digest()
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def check_strangers(_quick: bool) -> Finding:
    """Every file of the environment belongs to a package: nothing was put there by hand."""
    strange = strangers(SITE, installed().values())
    return Finding("every file belongs to a package", str(SITE.relative_to(sys.prefix)), tuple(strange))


def strangers(folder: Path, packages: Iterable[Distribution]) -> list[str]:
    """The files of a folder that no RECORD names, but for compiled ones."""
    known = {os.path.normpath(str(file.locate())) for package in packages for file in package.files or ()}
    return [
        f"{path.relative_to(folder)} belongs to no package"
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pyc" and str(path) not in known
    ]


def check_licences(_quick: bool) -> Finding:
    """Every package says under which licence it is."""
    rows = licences()
    lacking = tuple(f"{name} does not say its licence" for name, _, licence in rows if not licence)
    return Finding("licences are stated", f"{len(rows)} packages", lacking)


def licences() -> list[tuple[str, str, str]]:
    """Package, version and licence in a few words."""
    return [(name, package.version, _licence(package)) for name, package in sorted(installed().items())]


def _licence(package: Distribution) -> str:
    about = package.metadata
    classes = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or () if line.startswith("License")]
    text = (about.get("License") or "").strip()
    whole_text = "\n" in text or len(text) > 60  # some put all of the licence there
    return (
        about.get("License-Expression")
        or ("" if whole_text else text)
        or ", ".join(classes)
        or text[:60].split("\n")[0]
    )


# --- Our own source -------------------------------------------------------------------------------------------

BANNED_CALLS = {
    **dict.fromkeys(("eval", "exec", "compile", "__import__"), "runs text as code"),
    **dict.fromkeys(("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"), "starts a shell"),
    **dict.fromkeys(("yaml.load", "yaml.unsafe_load", "joblib.load", "pandas.read_pickle"), "runs what a file says"),
    **dict.fromkeys(("torch.hub.load", "torch.hub.load_state_dict_from_url"), "fetches from the network"),
}
BANNED_MODULES = {
    **dict.fromkeys(
        ("pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"), "unpickles"
    ),
    **dict.fromkeys(
        ("socket", "ssl", "socketserver", "urllib", "urllib3", "http", "ftplib", "smtplib", "poplib"), "network"
    ),
    **dict.fromkeys(
        ("imaplib", "nntplib", "telnetlib", "xmlrpc", "requests", "aiohttp", "httpx", "webbrowser"), "network"
    ),
}
PROCESS_STARTERS = {
    "lbnn/device/runs.py": "compilers, emulators, and what was compiled for this host",
    "lbnn/measure/peers.py": "other people's ONNX compilers, where a measurement asks for them",
}
"""The only modules of the package that start other programs, and which."""
REQUIRED_ARGUMENTS = {"torch.load": ("weights_only", True)}
FORBIDDEN_ARGUMENTS = {"numpy.load": ("allow_pickle", False), "subprocess": ("shell", False)}
"""An argument that must have this value where it is given."""


def check_source(_quick: bool) -> Finding:
    """The package, the tools and the examples run no text, unpickle nothing, and never reach for the network."""
    paths = [path for folder in ("lbnn", "tools", "examples") for path in sorted((ROOT / folder).rglob("*.py"))]
    problems = [
        f"{path.relative_to(ROOT)}:{problem}"
        for path in paths
        for problem in scan(path.read_text(), str(path.relative_to(ROOT)))
    ]
    return Finding("no eval, pickle, shell or network in our source", f"{len(paths)} modules", tuple(problems))


def scan(source: str, name: str) -> list[str]:
    """What a module does that it may not, with line numbers."""
    tree = ast.parse(source)
    full_names = _imports(tree)
    problems = [problem for module, line in _modules(tree) for problem in _module_problems(module, line, name)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            problems += [f"{node.lineno}: {text}" for text in _call_problems(_full_name(node.func, full_names), node)]
    return problems


def _modules(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or "", node.lineno


def _imports(tree: ast.Module) -> dict[str, str]:
    """Local name -> full name of what is imported."""
    names = {"np": "numpy"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _full_name(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_full_name(node.value, names)}.{node.attr}"
    return names.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def _module_problems(module: str, line: int, name: str) -> Iterator[str]:
    top = module.partition(".")[0]
    if top in BANNED_MODULES:
        yield f"{line}: imports {module} ({BANNED_MODULES[top]})"
    if top == "subprocess" and name.startswith("lbnn/") and name not in PROCESS_STARTERS:
        yield f"{line}: starts programs and is not in PROCESS_STARTERS of tools/check/audit.py"


def _call_problems(called: str, node: ast.Call) -> Iterator[str]:
    given = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
    if called in BANNED_CALLS or called.removeprefix("builtins.") in BANNED_CALLS:
        yield f"{called} {BANNED_CALLS[called.removeprefix('builtins.')]}"
    if called.startswith(("os.exec", "os.spawn", "os.posix_spawn")):
        yield f"{called} starts a program; use subprocess"
    if called in REQUIRED_ARGUMENTS:
        word, value = REQUIRED_ARGUMENTS[called]
        if given.get(word) is not value:
            yield f"{called} without {word}={value}"
    for prefix, (word, value) in FORBIDDEN_ARGUMENTS.items():
        if (called == prefix or called.startswith(f"{prefix}.")) and given.get(word, value) is not value:
            yield f"{called} with {word} other than {value}"
    if called.endswith((".hub.load", ".load_state_dict_from_url")) and called not in BANNED_CALLS:
        yield f"{called} fetches from the network"


CHECKS: dict[str, Callable[[bool], Finding]] = {
    "pins": check_pins,
    "needed": check_needed,
    "ranges": check_ranges,
    "consistent": check_consistent,
    "files": check_files,
    "strangers": check_strangers,
    "licences": check_licences,
    "source": check_source,
}


def audit(names: Sequence[str], quick: bool = True) -> list[str]:
    """The problems that some of the checks find."""
    return [problem for name in names for problem in CHECKS[name](quick).problems]


if __name__ == "__main__":
    main()
