"""Runs `make test` as on a stranger's machine: a fresh clone, another user, other settings, no network.

    python tools/check/elsewhere.py [--tests "tests/base tests/cli"] [--python /usr/bin/python3] [--keep]

The last commit is cloned into a folder with a space, its .venv is made there as the README says, and the suite runs
with all that CHANGED lists, and with a certifi that differs from its wheel. As root it makes a user for that, who is
removed at the end, and takes network and host name away; else it runs as who calls it, with the network as it is.
Settings of pip go along, for an index may be private. A folder whose tests failed is kept.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
USER, UMASK = "lbnn-elsewhere", 0o077
LEAST_PYTHON = (3, 11)
KEPT = re.compile(r"(PIP|SSL|LBNN)_\w+|\w+_(PROXY|proxy)|REQUESTS_CA_BUNDLE")
"""Variables that go along: how packages are fetched, and which tests must not be skipped."""
CHANGED = {
    "LC_ALL": "C",
    "PYTEST_ADDOPTS": "-rs",
    "COLUMNS": "60",
    "TERM": "dumb",
    "FORCE_COLOR": "1",
    "CC": "gcc -g",
    "PYTHONPATH": "{base}/no such folder",
    "TMPDIR": "{base}/temporary files",
    "XDG_CACHE_HOME": "{base}/caches",
    "HOME": "{base}/no such home",
}
ALONE = 'hostname nowhere.invalid && ip link set lo up && exec setpriv --reuid "$0" --regid "$0" --clear-groups "$@"'
"""In namespaces of its own: a host name that nobody resolves, and no interface but the loopback."""


@dataclass(frozen=True)
class Place:
    """The folder of a run, and who works there: None is who calls."""

    base: Path
    user: str | None

    @property
    def checkout(self) -> Path:
        """The clone."""
        return self.base / "a checkout"

    def variables(self, changed: dict[str, str]) -> dict[str, str]:
        """An environment of its own: nothing of the caller's but what fetches packages."""
        kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
        home = {"HOME": str(self.base / "home"), "PATH": "/usr/local/bin:/usr/bin:/bin", "USER": self.user or "nobody"}
        return kept | home | {name: value.format(base=self.base) for name, value in changed.items()}

    def run(self, command: Sequence[str], changed: dict[str, str], prefix: Sequence[str] = ()) -> int:
        """A command as that user, with stdin closed; `prefix` changes the user itself."""
        closed = ["sh", "-c", 'exec "$@" <&-', "sh", *prefix, *command]
        user = None if prefix else self.user
        groups: dict[str, object] = {"user": user, "group": user, "extra_groups": []} if user else {}
        return subprocess.run(  # type: ignore[call-overload,no-any-return]
            closed, cwd=self.checkout, env=self.variables(changed), umask=UMASK, check=False, **groups
        ).returncode


def main() -> None:
    """Clones, sets up, changes, runs; the exit status is that of `make test`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", default="", help="what to give to pytest; all tests if empty")
    parser.add_argument("--python", help="which Python; else the first of 3.11 or newer that the user may run")
    parser.add_argument("--jobs", default="2", help="tests at once")
    parser.add_argument("--keep", action="store_true", help="leave the folder behind")
    args = parser.parse_args()
    with new_user() as user, new_folder(args.keep) as base:
        place = Place(base, user)
        clone(place)
        python = choose_python(place, args.python)
        if place.run(["make", ".venv/installed", f"PYTHON={python}"], {}):
            sys.exit("the environment could not be set up")
        change_certifi(place)
        show(place, python)
        status = place.run(["make", "test", f"TESTS={args.tests}", f"JOBS={args.jobs}"], CHANGED, isolation(user))
        print(f"\n{'failed' if status else 'passed'}: make test {args.tests}", flush=True)
        sys.exit(1 if status else 0)


@contextmanager
def new_user() -> Iterator[str | None]:
    """A user for this run where there is the right to make one."""
    if os.geteuid() != 0:
        yield None
        return
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", USER], check=True)
    try:
        yield USER
    finally:
        subprocess.run(["userdel", USER], check=False)


@contextmanager
def new_folder(keep: bool) -> Iterator[Path]:
    """A folder with a space in its path, removed unless something failed in it."""
    base = Path(tempfile.mkdtemp(prefix="lbnn elsewhere ", dir="/var/tmp"))
    base.chmod(0o755)
    try:
        yield base
    except SystemExit as ended:
        keep = keep or bool(ended.code)
        raise
    finally:
        if keep:
            print(f"kept: {base}")
        else:
            shutil.rmtree(base)


def clone(place: Place) -> None:
    """The last commit, and the folders of CHANGED that exist; all belong to the user."""
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, place.checkout], check=True, umask=UMASK)
    for name in ("home", "temporary files", "caches"):
        (place.base / name).mkdir()
    settings = Path.home() / ".config/pip/pip.conf"
    if settings.exists():
        shutil.copytree(settings.parent, place.base / "home/.config/pip")
    if place.user:
        subprocess.run(["chown", "-R", f"{place.user}:{place.user}", *place.base.iterdir()], check=True)


def choose_python(place: Place, wanted: str | None) -> str:
    """The first that this user may start and that can make an environment; homes are often closed to others."""
    base = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    for python in [wanted] if wanted else [str(base), "/usr/local/bin/python3", "/usr/bin/python3"]:
        able = f"import ensurepip, venv, sys; sys.exit(sys.version_info < {LEAST_PYTHON})"
        quiet = ["sh", "-c", 'exec "$0" "$@" 2>/dev/null', python, "-c", able]
        if place.run(quiet, {}) == 0:
            return python
    sys.exit(f"no Python that {place.user or 'you'} may run makes environments; apt install python3-venv, or --python")


def change_certifi(place: Place) -> None:
    """One certificate twice, as where a company adds its own; a new file, for pip may link to its cache."""
    (path,) = place.checkout.glob(".venv/lib/python*/site-packages/certifi/cacert.pem")
    text = path.read_text()
    first = text[text.index("-----BEGIN") : text.index("-----END CERTIFICATE-----")]
    path.unlink()
    path.write_text(f"{text}\n# added here\n{first}-----END CERTIFICATE-----\n")
    path.chmod(0o644)


def isolation(user: str | None) -> list[str]:
    """What starts a command as the user without network and host name; nothing where we are not root."""
    return ["unshare", "--net", "--uts", "sh", "-c", ALONE, user] if user else []


def show(place: Place, python: str) -> None:
    """Says what is different from the caller's machine."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    changed = {name: value.format(base=place.base) for name, value in CHANGED.items()}
    rows = {
        "commit": commit.stdout.strip() + " (what is not committed stays behind)",
        "checkout": place.checkout,
        "user": place.user or "who calls",
        "python": python,
        "umask": f"{UMASK:03o}",
        "stdin": "closed",
        "certifi": "one certificate more than its wheel",
        "network": "none but the loopback, and a host name that nobody resolves" if place.user else "as it is",
        **changed,
    }
    print("\n".join(f"{name:15} {value}" for name, value in rows.items()), flush=True)


if __name__ == "__main__":
    main()
