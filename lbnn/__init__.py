"""lbnn: Bayesian neural networks in one pass, from PyTorch to a microcontroller.

Names are imported when first used, so that `lbnn --help` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module

from lbnn.base.errors import LbnnError
from lbnn.base.version import __version__

TYPE_CHECKING = False  # checkers take it for true; `typing` would be most of the time that `import lbnn` takes
if TYPE_CHECKING:
    from typing import Any

    from lbnn import nn
    from lbnn.base.classes import Classes
    from lbnn.base.moments import Moments
    from lbnn.convert.from_bayesian_torch import from_bayesian_torch
    from lbnn.convert.from_blitz import from_blitz
    from lbnn.convert.from_fastbnns import from_fastbnns
    from lbnn.convert.from_torch import from_torch
    from lbnn.convert.from_torchbnn import from_torchbnn
    from lbnn.convert.pool_first import pool_first
    from lbnn.exporters import export
    from lbnn.exporters.compiled import compile
    from lbnn.exporters.emulation import emulate
    from lbnn.model.file import load, read_model, save
    from lbnn.nn import cat
    from lbnn.nn.heads import softmax_moments
    from lbnn.train import class_metrics, class_plots, losses, metrics, montecarlo, plots, priors
    from lbnn.train.classifier import Classifier as Classifier
    from lbnn.train.fit import fit
    from lbnn.train.regressor import Regressor as Regressor

_HOMES = {
    "Classes": "lbnn.base.classes",
    "Moments": "lbnn.base.moments",
    "cat": "lbnn.nn",
    "compile": "lbnn.exporters.compiled",
    "emulate": "lbnn.exporters.emulation",
    "export": "lbnn.exporters",
    "fit": "lbnn.train.fit",
    "from_bayesian_torch": "lbnn.convert.from_bayesian_torch",
    "from_blitz": "lbnn.convert.from_blitz",
    "from_fastbnns": "lbnn.convert.from_fastbnns",
    "from_torch": "lbnn.convert.from_torch",
    "from_torchbnn": "lbnn.convert.from_torchbnn",
    "pool_first": "lbnn.convert.pool_first",
    "load": "lbnn.model.file",
    "read_model": "lbnn.model.file",
    "save": "lbnn.model.file",
    "softmax_moments": "lbnn.nn.heads",
}
_MODULES = {
    "class_metrics": "lbnn.train.class_metrics",
    "class_plots": "lbnn.train.class_plots",
    "losses": "lbnn.train.losses",
    "metrics": "lbnn.train.metrics",
    "montecarlo": "lbnn.train.montecarlo",
    "nn": "lbnn.nn",
    "plots": "lbnn.train.plots",
    "priors": "lbnn.train.priors",
}
_ESTIMATORS = {"Classifier": "lbnn.train.classifier", "Regressor": "lbnn.train.regressor"}
"""What needs scikit-learn: not in `__all__`, so that `from lbnn import *` does without it."""

__all__ = [
    "Classes",
    "LbnnError",
    "Moments",
    "__version__",
    "cat",
    "class_metrics",
    "class_plots",
    "compile",
    "emulate",
    "export",
    "fit",
    "from_bayesian_torch",
    "from_blitz",
    "from_fastbnns",
    "from_torch",
    "from_torchbnn",
    "load",
    "losses",
    "metrics",
    "montecarlo",
    "nn",
    "plots",
    "pool_first",
    "priors",
    "read_model",
    "save",
    "softmax_moments",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ESTIMATORS:
        return _estimator(name)
    raise AttributeError(f"module 'lbnn' has no attribute {name!r}")


def _estimator(name: str) -> Any:
    try:
        return getattr(import_module(_ESTIMATORS[name]), name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        raise LbnnError(f"lbnn.{name} needs scikit-learn 1.6 or newer: pip install 'lbnn[sklearn]'") from None


def __dir__() -> list[str]:
    from importlib.util import find_spec

    return sorted([*__all__, *(_ESTIMATORS if find_spec("sklearn") else ())])
