"""lbnn: Bayesian neural networks in one pass, from PyTorch to a microcontroller.

Names are imported when first used, so that `lbnn --help` does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lbnn.errors import LbnnError
from lbnn.moments import Moments

if TYPE_CHECKING:
    from lbnn.checkpoint import load, read_model, save
    from lbnn.compiler import compile
    from lbnn.convert import from_torch
    from lbnn.exporters import export
    from lbnn.nn import cat
    from lbnn.training import fit

__version__ = "0.1.0"

_HOMES = {
    "cat": "lbnn.nn",
    "compile": "lbnn.compiler",
    "export": "lbnn.exporters",
    "fit": "lbnn.training",
    "from_torch": "lbnn.convert",
    "load": "lbnn.checkpoint",
    "read_model": "lbnn.checkpoint",
    "save": "lbnn.checkpoint",
}

__all__ = [
    "LbnnError",
    "Moments",
    "__version__",
    "cat",
    "compile",
    "export",
    "fit",
    "from_torch",
    "load",
    "read_model",
    "save",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lbnn' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
