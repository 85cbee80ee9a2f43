"""Gathers the pages of the documentation site in a folder, as they lie here, with references and a gallery.

    python tools/site/stage.py out/site_source

Links between pages are relative there as here, so that `mkdocs build --strict` checks every one of them.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from torch.nn import Module

import lbnn
from lbnn import nn as bnn
from lbnn.exporters.c import COptions, generate
from lbnn.model.file import read_model
from lbnn.train.result import FitResult

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("docs", "examples", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "c_runtime/README.md")
KEPT = (".md", ".png", ".svg", ".c", ".h", ".py", ".ipynb")
FOLDER = re.compile(r"\]\(([\w./-]+)/\)")
NN_LAYERS = "Layers of `lbnn.nn`; [layers](docs/layers.md) says which backend has which.\n"


def stage(out: Path) -> None:
    """Fills `out`."""
    shutil.rmtree(out, ignore_errors=True)
    for name in PAGES:
        source = ROOT / name
        for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if path.is_file() and path.name.endswith(KEPT):
                _copy(path, out / path.relative_to(ROOT))
    pages = {"reference.md": python_reference(), "c_reference.md": c_reference(), "gallery.md": gallery()}
    for name, text in pages.items():
        (out / name).write_text(text)
    shutil.copy(Path(__file__).with_name("iframe-worker.js"), out)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix != ".md":
        shutil.copyfile(source, target)
        return
    # A folder is its README; what is no page stays a name.
    text = FOLDER.sub(lambda found: _folder_link(source, found), source.read_text())
    target.write_text(re.sub(r"\[([^\]]+)\]\(\.\./tests/[^)]*\)", r"`\1`", text))


def _folder_link(source: Path, found: re.Match[str]) -> str:
    return f"]({found[1]}/README.md)" if (source.parent / found[1] / "README.md").exists() else found[0]


def python_reference() -> str:
    """Directives for mkdocstrings by public names: the facade, then the layers."""
    facade = {f"lbnn.{name}": getattr(lbnn, name) for name in (*lbnn.__all__, *ESTIMATORS) if name not in APART}
    facade |= {f"lbnn.losses.{name}": getattr(lbnn.losses, name) for name in OTHER_LOSSES}
    facade["what lbnn.fit returns: FitResult"] = FitResult
    layers = {f"lbnn.nn.{name}": getattr(bnn, name) for name in sorted(bnn.__all__)}
    own, of_nn = ("\n\n".join(_directive(*each) for each in group.items()) for group in (facade, layers))
    return f"# Python\n\n{own}\n\n## Layers\n\n{NN_LAYERS}\n{of_nn}\n"


ESTIMATORS = {
    "Regressor": ("fit", "predict", "interval", "log_score"),
    "Classifier": ("fit", "predict", "predict_proba", "predict_log_proba", "uncertainty"),
}
"""And their methods besides those of scikit-learn."""
APART = ("__version__", "nn")
OTHER_LOSSES = ("categorical_nll", "binary_nll")
"""Which are defined elsewhere."""


INTERNAL = {
    *("ClassPrediction", "entropy_rows", "checked_classes", "gaussian_nll_gradients", "check_shapes", "check_values"),
    *(
        "PowerSums",
        "against_observed",
        "literal",
        "running_median",
        "readable_range",
        "on_axes",
        "styled",
        "finish_axes",
    ),
    *("as_prior", "as_schedule", "named_gaussians", "kl_elements", "factored_kl", "log_softplus", "halving"),
    "TrainingSize",
}
"""What modules share with each other, and no page shows."""
OF_LAYERS = ("weight_var", "bias_var", "to_full", "error", "label", "forward_classes")
"""Members of layers for their users; the others are what exporters ask."""


def _directive(name: str, thing: Any) -> str:
    """Where it is defined with the members for users, below its public name; what is of torch or an alias in words."""
    if isinstance(thing, ModuleType):
        return _entry(name, thing.__name__, members(thing))
    home, own = thing.__module__, thing.__qualname__
    if not home.startswith("lbnn."):
        return f"### {name}\n\nThat of torch: `torch.nn.{own}`, which holds and passes on Moments as well."
    if own != name.rpartition(".")[2] and home.startswith("lbnn.nn."):
        return f"### {name}\n\nAnother name of `lbnn.nn.{own}`."
    if own in ESTIMATORS:
        return _entry(name, f"{home}.{own}", ESTIMATORS[own])
    layer = isinstance(thing, type) and issubclass(thing, Module)
    return _entry(name, f"{home}.{own}", [each for each in OF_LAYERS if each in vars(thing)] if layer else None)


def _entry(name: str, home: str, shown: Sequence[str] | None) -> str:
    """A directive with the public name as its heading, and with these members or all that have no underscore."""
    listed = "" if shown is None else f", members: [{', '.join(shown)}]"
    return f'::: {home}\n    options: {{heading: "{name}", toc_label: "{name}"{listed}}}'


def members(module: ModuleType) -> list[str]:
    """Functions and classes of a module that are for its users."""
    own = [name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__]
    return [name for name in own if not name.startswith("_") and name not in INTERNAL]


def c_reference() -> str:
    """The headers of a plain model, what those of others declare besides, and the statuses."""
    files = _generated({}, input_variance=True)
    parts = {"model.h": files["model.h"]}
    parts |= {f"model.h {what}": declarations(_generated(**given)["model.h"]) for what, given in MODELS.items()}
    parts |= {"model.hpp, for C++11": files["model.hpp"], "lbnn.h": files["lbnn.h"]}
    blocks = "\n\n".join(f"## {name}\n\n```c\n{str(text).strip()}\n```" for name, text in parts.items())
    return (
        f"# C\n\nWhat you include, as it is generated. [The C that lbnn writes](docs/c.md) explains it.\n\n{blocks}\n"
    )


KNOWN_RANGE = {"input_range": [[0.0, 3.0], [4095.0, 3.6]]}
INTERVAL = {
    "level": 0.9,
    "false_alarms": 0.05,
    "rows": 500,
    "factor": [1.5],
    "variance_scale": [1.0],
    "unsure_sd": [0.3],
}
CLASS_SET = {
    "level": 0.9,
    "false_alarms": 0.05,
    "rows": 500,
    "temperature": 1.0,
    "threshold": 0.2,
    "unsure_entropy": 0.7,
}
MODELS: dict[str, dict[str, Any]] = {
    "of a calibrated model": {"metadata": {**KNOWN_RANGE, "calibration": INTERVAL}},
    "of a classifier": {
        "metadata": {
            "classes": ["idle", "run", "walk"],
            "unsure_entropy": 0.7,
            "class_calibration": {**CLASS_SET, "nll": [0.4, 0.3]},
        },
        "network": lambda: bnn.Sequential(bnn.Linear(2, 3), bnn.SoftmaxHead()),
    },
    "of a stream": {
        "metadata": {},
        "network": lambda: bnn.Sequential(bnn.Conv1d(2, 3, 3), bnn.ReLU(), bnn.Flatten(), bnn.Linear(18, 1)),
        "shape": (2, 8),
        "stream": True,
    },
    "in integers (int8)": {"metadata": {}, "dtype": "int8"},
}
"""Models whose headers have functions of their own."""


def _dense() -> bnn.Sequential:
    return bnn.Sequential(bnn.Linear(2, 3), bnn.ReLU(), bnn.Linear(3, 1))


def _generated(
    metadata: dict[str, Any],
    network: Callable[[], bnn.Sequential] = _dense,
    shape: tuple[int, ...] = (2,),
    **options: Any,
) -> Mapping[str, Any]:
    model = replace(read_model(network(), shape), metadata=metadata)
    return generate(model, COptions(name="model", **options))


def declarations(header: Any) -> str:
    """What a header declares: no bodies, nothing for compilers."""
    text = re.sub(r"\n\{\n.*?\n\}\n", ";\n", str(header), flags=re.DOTALL).replace("LBNN_INLINE ", "")
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n|#if LBNN_ABI.*?#endif\n|#endif\n\Z", "", text, flags=re.DOTALL)
    return re.sub(r"\n{3,}", "\n\n", text.partition('#include "lbnn.h"\n')[2])


def gallery() -> str:
    """Title, first picture and first sentence of each example."""
    shown = [_exhibit(path) for path in sorted((ROOT / "examples").glob("*/README.md"))]
    return "# Gallery\n\n" + "\n\n".join(shown) + "\n"


def _exhibit(page: Path) -> str:
    text, folder = page.read_text(), f"examples/{page.parent.name}"
    title = text.splitlines()[0].removeprefix("# ")
    picture = re.search(r"!\[([^\]]*)\]\(([^)]+)\)", text)
    first = next(part for part in text.split("\n\n")[1:] if not part.startswith(("!", "<", "#", "|", "    ")))
    image = f"\n\n![{picture[1]}]({folder}/{picture[2]})" if picture else ""
    words = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", first)
    return f"## [{title}]({folder}/README.md){image}\n\n{words}"


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
