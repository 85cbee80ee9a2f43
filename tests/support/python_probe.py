"""Run by any Python, alone: are the sources given valid there, without a warning, and is what they use of the standard
library still in it? Prints a line for each problem and ends with their number."""

import ast
import importlib
import sys
import warnings
from pathlib import Path


def main() -> None:
    warnings.simplefilter("error")
    problems = [problem for path in map(Path, sys.argv[1:]) for problem in examine(path)]
    print("\n".join(problems))
    sys.exit(min(len(problems), 100))


def examine(path: Path) -> list[str]:
    source = path.read_text(encoding="utf-8")
    try:
        compile(source, str(path), "exec", dont_inherit=True)
    except (SyntaxError, Warning) as error:
        return [f"{path}: {type(error).__name__}: {error}"]
    return [f"{path}: {name} is not in Python {sys.version.split()[0]}" for name in used(source) if not exists(name)]


def used(source: str) -> list[str]:
    """The names of the standard library that a module imports or reaches through an import."""
    tree = ast.parse(source)
    modules: dict[str, str] = {}
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                modules[alias.asname or top] = alias.name if alias.asname else top
                names.add(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            names.add(f"{modules[node.value.id]}.{node.attr}")
    return sorted(name for name in names if name.partition(".")[0] in STANDARD)


REMOVED = {"asynchat", "asyncore", "cgi", "crypt", "distutils", "imghdr", "imp", "pipes", "smtpd", "telnetlib", "uu"}
STANDARD = set(sys.stdlib_module_names) | REMOVED


def exists(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    try:
        return importlib.import_module(name) is not None
    except (ImportError, Warning):
        pass
    try:
        return bool(module) and hasattr(importlib.import_module(module), attribute)
    except (ImportError, Warning):
        return False


if __name__ == "__main__":
    main()
