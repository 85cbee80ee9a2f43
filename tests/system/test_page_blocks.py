"""Every block of README and docs is run by a test, or is named here with the reason why not.

Blocks behind `<!-- numbers: ... -->` and `<!-- console: ... -->` have commands of their own (test_numbers.py).
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch

import commands
import lbnn
from c_models import export, mlp, run
from follow_recipes import read_recipes
from lbnn import nn as bnn
from lbnn.cli.program import COMMANDS
from page_blocks import INDENT, PAGES, PageBlock, blocks_of
from places import ROOT, need, need_package

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
RECIPES = {part.text for recipe in read_recipes() for part in recipe.blocks}
FENCED: dict[str, Callable[[PageBlock], bool]] = {
    "python": lambda block: True,
    "c": lambda block: True,
    "cpp": lambda block: True,
    "js": lambda block: block.page == "docs/c.md",
    "cmake": lambda block: block.page == "docs/c.md",
    "yaml": lambda block: block.page == "docs/c.md",
    "sh": lambda block: "tutorial" in block.page,
    "console": lambda block: block.page == "docs/classification.md",
}
"""Which fenced blocks tests run: those of test_docs.py, test_packed.py for cmake and yaml, here for consoles."""

FORMULA, SHOWN, HOURS = "a formula", "shown, not to be typed in", "runs for minutes or hours"
NO_RUN = {
    "CONTRIBUTING.md: git clone ... && cd lbnn make demo # makes .venv": "a fresh clone: make elsewhere",
    "CONTRIBUTING.md: make lint # ruff, mypy, imports make test": HOURS,
    "README.md: make demo # train the network above, export it t": "tests/cli/test_cli_demo.py; the suite itself",
    "c_runtime/README.md: static const lbnn_conv_shape shape = {in_channel": SHOWN,
    "docs/c.md: /* layer_0 linear_point 4 -> 9 */ lbnn_linear_po": SHOWN,
    "docs/c.md: /* conv conv 8x8x8 -> 16x8x8 */ for (int band =": SHOWN,
    "docs/c.md: RAM: 9920 B of work buffer (at least 9920 B), 11": SHOWN,
    "docs/classification.md: E p_k = int f_k(t) prod_{j != k} F_j(t) dt": FORMULA,
    "docs/classification.md: E[-log p_y] = logsumexp(m) - m_y + (1/2) sum_k p": FORMULA,
    "docs/devices.md: lbnn verify gas_sensor.pt --backends cortex-m0,c": "tests/device/test_boards.py",
    "docs/ecosystem.md: make others runtimes # the packages and tools of": SHOWN,
    "docs/devices.md: lbnn verify gas_sensor.pt --backends c-s390x,c-x": "tests/device/test_hosts.py",
    "docs/devices.md: lbnn verify thermometer.pt --backends uno,mega25": "tests/device/test_avr.py",
    "docs/integers.md: lbnn export model.pt --target c --dtype int8 # o": "tests/cli/test_cli_integers.py",
    "docs/integers.md: E' = m sum(e w) + b V' = m^2 sum(((s w) >> 8)^2)": FORMULA,
    "docs/layers.md: E' = M + a I1(x) V' = V (1 - 2 Q(x)) + a^2 (J2(x": FORMULA,
    "docs/mathematics.md: E' = E[b] + E * E[w] V' = V[b] + V * (V[w] + E[w": FORMULA,
    "docs/mathematics.md: E' = m E + k sigma I1 m = 1 if E >= 0 else l V'": FORMULA,
    "docs/mathematics.md: D1 = phi [m(x) - m(x + s)] D2 = phi [m(x) - 2 m(": FORMULA,
    "docs/parity.md: lbnn verify gas_sensor.pt lbnn verify gas_sensor": "tests/cli/test_cli_verify.py",
    "docs/parity.md: mean error = |m - m_ref| / (|m_ref| + sqrt(v_ref": FORMULA,
    "docs/parity.md: float32 may be off by 1.1e-03 at #28 ordinary: t": "tests/measure/test_conditioning.py",
    "docs/parity.md: cc -std=c99 -O2 -DLBNN_STRICT gas_sensor.c your_": "tests/c_runtime/test_strict.py",
    "docs/performance.md: lbnn bench model.pt # one model, every backend w": "tests/cli/test_cli_bench.py; make bench",
    "docs/performance.md: python3 -m venv peers && peers/bin/pip install e": "installs packages of others",
    "docs/robustness.md: make fuzz # SECONDS=600; libFuzzer, clang's sani": HOURS,
    "docs/robustness.md: make prove # python tools/check/prove.py make an": HOURS,
    "docs/robustness.md: make stack # tests/device/test_stack.py is the s": HOURS,
    "docs/robustness.md: make mutants # 7 minutes on two cores python too": HOURS,
    "docs/robustness.md: make mutants RANDOM=200 SEED=1 # results in out/": HOURS,
    "docs/robustness.md: make mutants RANDOM=200 SEED=1 make mutants RAND": HOURS,
    "docs/robustness.md: make random # NETWORKS=2000 SEED=0 JOBS=2 python": HOURS,
    "docs/robustness.md: make extremes # tests/robust/test_extremes.py is": HOURS,
    "docs/robustness.md: pytest tests/cli/test_faults.py tests/cli/test_e": "tests of the suite",
    "docs/robustness.md: make elsewhere # TESTS=tests/cli for a part; the": HOURS,
    "docs/streams.md: monitor can't stream: layer 2 (conv) reads 1 col": "tests/graph/test_stream.py",
    "docs/training.md: torchrun --nproc-per-node 4 -m lbnn train readin": "tests/train/test_processes.py",
    "docs/uci.md: make uci UCI=DIR # DIR holds a folder for each s": HOURS,
    "docs/variances.md: V'_n = V[b_n] + alpha_n^2 sum_i beta_i^2 S_i + s": FORMULA,
    "examples/edge_onnx/README.md: $ pip install numpy onnxruntime $ python monitor": "test_edge_example.py",
    "examples/fashion/README.md: apt-get install dataset-fashion-mnist # Debian's": HOURS,
    "examples/notebook/README.md: pip install lbnn matplotlib notebook jupyter not": "test_notebook_example.py",
    "examples/from_torch/README.md: pip install 'lbnn[mcu]' scikit-learn # emulator": "make numbers runs lenet.py",
    "examples/mlperf_tiny/README.md: make tiny # trains all four, verifies them on an": HOURS,
    "examples/polynomial/README.md: make paper # trains everything and rewrites tabl": HOURS,
}
"""Blocks that nothing runs word for word, with the reason or the test in their place. Commands still have to parse."""


def monitor() -> torch.nn.Module:
    return bnn.Sequential(bnn.Conv1d(2, 3, 3), bnn.ReLU(), bnn.Flatten(), bnn.Linear(18, 1))


def models(folder: Path) -> Path:
    """Small networks by the names that pages use."""
    for name in ("gas_sensor", "model"):
        lbnn.save(mlp(4, 9, 3, 1), folder / f"{name}.pt", (4,), name=name)
    lbnn.save(monitor(), folder / "monitor.pt", (2, 8))
    return folder


def readings(folder: Path) -> Path:
    """Tables of drawn numbers."""
    rng = np.random.default_rng(0)
    for name in ("readings", "later_readings", "today"):
        rows = rng.normal(20.0, 3.0, (60, 4))
        rows[:, 2:] += rows[:, :1]
        header = "humidity,pressure,temperature,y"
        np.savetxt(folder / f"{name}.csv", rows, "%.3f", delimiter=",", header=header, comments="")
    return folder


def exported(folder: Path) -> Path:
    """The folder of a model, and a program for it: the one of the page."""
    (main,) = (b.text for b in BLOCKS if b.page == "docs/c.md" and b.language == "c" and "main(" in b.text)
    written = export("gas_sensor", folder / "gas_sensor")
    (written / "your_main.c").write_text(main)
    return written


RUN = {
    "README.md: lbnn train readings.csv --target temperature -o": readings,
    "docs/c.md: lbnn export gas_sensor.pt --target c -o gas_sens": models,
    "docs/c.md: cc -O2 -std=gnu99 -fno-math-errno gas_sensor.c y": exported,
    "docs/c.md: lbnn export gas_sensor.pt --target c --package n": models,
    "docs/calibration.md: lbnn train readings.csv --target temperature -o": readings,
    "docs/forms.md: lbnn train readings.csv --target y --variance ra": readings,
    "docs/onnx.md: lbnn export gas_sensor.pt --target onnx # gas_se": models,
    "docs/streams.md: lbnn export monitor.pt --target c --stream -o fi": models,
    "docs/streams.md: lbnn verify monitor.pt --backends c,c-stream,cor": models,
}
"""Groups of commands, and what lies in the folder where they run."""
TOOLS = {
    "docs/forms.md: lbnn train readings.csv --target y --variance ra": ("arm-none-eabi-gcc", "qemu-system-arm", "make"),
}
"""What a group needs besides a C compiler and what comes with pip."""


# ---- Python ----------------------------------------------------------------------------------------------------


def of_estimators(folder: Path) -> dict[str, Any]:
    need_package("sklearn")
    x = np.linspace(-2, 2, 24)[:, None]
    return {"X": x, "y": np.sin(x[:, 0]), "X_new": x[::5]}


def of_models(folder: Path) -> dict[str, Any]:
    models(folder)
    return {"model": mlp(4, 5, 1), "x": np.zeros((3, 4), np.float32)}


def of_training(folder: Path) -> dict[str, Any]:
    return {"model": mlp(4, 5, 1), "x": torch.randn(32, 4), "y": torch.randn(32, 1)}


def of_onnx(folder: Path) -> dict[str, Any]:
    found = of_models(folder)
    lbnn.export(folder / "gas_sensor.pt", "onnx", folder / "gas_sensor.onnx")
    return {**found, "onnxruntime": need_package("onnxruntime")}


def of_two_inputs(folder: Path) -> dict[str, Any]:
    return {"model": mlp(2, 3, 1)}


PYTHON: dict[str, Callable[[Path], dict[str, Any]]] = {
    "README.md: model = lbnn.Regressor().fit(X, y) # or lbnn.Cla": of_estimators,
    'docs/devices.md: chip = lbnn.emulate("gas_sensor.pt", "cortex-m4"': of_models,
    "docs/mathematics.md: check = lbnn.montecarlo.monte_carlo(model, x, sa": of_training,
    'docs/onnx.md: session = onnxruntime.InferenceSession("gas_sens': of_onnx,
    "docs/parity.md: torch.manual_seed(0) net = bnn.Sequential(bnn.Li": of_two_inputs,
    "docs/training.md: result = lbnn.fit(model, (x, y), epochs=300, bat": of_training,
    'examples/edge_onnx/README.md: lbnn.save(model, "gas_sensor.pt", input_shape=(2': of_two_inputs,
}
"""Indented Python, and what the text around it takes for granted."""
SHORT = (
    ("Regressor\\(\\)", "Regressor(epochs=2)"),
    (r"epochs=\d+", "epochs=2"),
    ("compile=True", "compile=False"),
    (r"samples=100_000", "samples=1000"),
)


@pytest.mark.parametrize("name", PYTHON)
def test_indented_python_of_a_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long work is made short."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    known = {"lbnn": lbnn, "bnn": bnn, "torch": torch, **PYTHON[name](tmp_path)}
    text = block_of(name).text
    for pattern, shorter in SHORT:
        text = re.sub(pattern, shorter, text)
    exec(compile(text, name, "exec"), known)  # noqa: S102
    for parts in (known.get(key) for key in ("mean", "std", "var", "variance")):
        assert parts is None or np.isfinite(np.asarray(parts)).all()


def block_of(name: str) -> PageBlock:
    (found,) = (block for block in BLOCKS if block.name == name)
    return found


# ---- commands --------------------------------------------------------------------------------------------------


def commands_in(text: str) -> Iterator[list[str]]:
    """The words of each command, without comments, prompts and settings in front."""
    for line in text.splitlines():
        for part in line.split(" && "):
            words = shlex.split(part.removeprefix("$ "), comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words = words[1:]
            if words:
                yield words


def shortened(words: list[str]) -> list[str]:
    """Two epochs, as few samples as there are kinds of them, and a second form of an export over the first."""
    words = ["7" if before == "--samples" else word for before, word in zip(["", *words], words, strict=False)]
    more = {
        "train": ["--epochs", "2"],
        "export": ["--force"],
        "verify": [] if "--samples" in words else ["--samples", "7"],
    }
    return [*words, *more.get(words[0], [])]


def does(words: list[str], folder: Path) -> str:
    """Runs a command of a page and gives what it prints."""
    program, *rest = words
    if program != "lbnn":
        return run(need({"cc": "gcc"}.get(program, program)), *rest, cwd=folder)
    ended = commands.lbnn(*shortened(rest), folder=folder)
    assert ended.status == 0, f"{' '.join(words)}: {ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.mark.parametrize("name", RUN)
def test_the_commands_of_a_page_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "SECONDS", 600)  # verify compiles for every core
    for tool in TOOLS.get(name, ()):
        need(tool)
    folder = RUN[name](tmp_path)
    for words in commands_in(block_of(name).text):
        does(words, folder)


def well_formed(words: list[str]) -> bool:
    """Whether the command takes these options, and the files and targets that it names are there."""
    program, *rest = words
    if program == "torchrun":
        program, *rest = words[words.index("lbnn") :]
    if program == "lbnn":
        (command,) = (command for command in COMMANDS if command.name == rest[0])
        return command.make_context(rest[0], rest[1:]) is not None
    if program == "make" and "-C" not in rest:  # a folder that an export writes has a Makefile of its own
        targets = [word for word in rest if "=" not in word and not word.startswith("-")]
        return all(f"\n{target}:" in (ROOT / "Makefile").read_text() for target in targets)
    return program not in ("python", "pytest") or (ROOT / rest[0]).exists()


COMMANDS_NOT_RUN = [name for name, why in NO_RUN.items() if why not in (FORMULA, SHOWN) and "edge_onnx" not in name]


@pytest.mark.parametrize(
    "name", [name for name in COMMANDS_NOT_RUN if re.search(r": (lbnn|make|py\w+|torch\w+) ", name)]
)
def test_commands_that_are_not_run_are_at_least_well_formed(name: str) -> None:
    assert [words for words in commands_in(block_of(name).text) if not well_formed(words)] == []


@pytest.mark.parametrize(
    ("command", "right"),
    [
        ("lbnn verify m.pt --samples 7", True),
        ("make no-such-target", False),
        ("pytest tests/system/test_none.py", False),
    ],
)
def test_a_command_that_is_wrong_is_noticed(command: str, right: bool) -> None:
    assert well_formed(command.split()) == right
    with pytest.raises(click.UsageError):
        well_formed(["lbnn", "verify", "m.pt", "--no-such-option"])


# ---- a tutorial ------------------------------------------------------------------------------------------------


def shape(text: str) -> list[str]:
    """Lines without their numbers, and without plurals."""
    return [re.sub(r"-?\d[\d.,e+-]*", "#", line).replace("# rows", "# row").strip() for line in text.splitlines()]


def test_the_consoles_of_the_page_about_classes_show_what_is_printed(tmp_path: Path) -> None:
    """In two epochs instead of 69: the same lines, other numbers."""
    need_package("sklearn")
    page = [block for block in BLOCKS if block.page == "docs/classification.md"]
    (drawing,) = (block.text for block in page if "load_digits" in block.text)
    run(sys.executable, "-c", drawing, cwd=tmp_path)
    for block in page:
        if block.language == "console" or block.text.startswith("lbnn "):
            command, *told = block.text.splitlines()
            printed = does(next(commands_in(command)), tmp_path)
            assert [line for line in shape("\n".join(told)) if line != "..." and line not in shape(printed)] == []


# ---- completeness ----------------------------------------------------------------------------------------------


def is_run(block: PageBlock) -> bool:
    """Whether a test runs the block: by its language, as part of a recipe, or by its name here."""
    if block.language == INDENT:
        return block.name in RUN or block.name in PYTHON or block.name.startswith("docs/classification.md: lbnn export")
    return block.text in RECIPES or FENCED.get(block.language, lambda block: False)(block)


def test_every_block_of_every_page_is_run_or_named_with_a_reason() -> None:
    assert {block.name for block in BLOCKS if not is_run(block)} == set(NO_RUN)
    assert {*RUN, *PYTHON} <= {block.name for block in BLOCKS} and len(RECIPES) > 50
