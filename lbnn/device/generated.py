"""A generated model in a folder, as those who compile and run it see it: its files, its lengths, its interface."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_FLOAT: np.dtype[Any] = np.dtype("<f4")

DECISION_WORDS = 4
"""Of NAME_decision: label, entropy, mutual information, unsure."""


@dataclass(frozen=True)
class GeneratedModel:
    """A generated model in a folder: NAME.c, NAME.h, and the lengths its header defines.

    Lengths count elements; `element` is the type of those of the work memory.
    """

    folder: Path
    name: str
    input_len: int
    output_len: int
    work_len: int
    input_variance: bool
    element: np.dtype[Any] = _FLOAT
    classifies: bool = False  # run NAME_classify instead: probabilities for means, a decision for variances
    replays: bool = False  # push the samples of each input, of a model that streams

    @property
    def second_len(self) -> int:
        """Words of the second result: a variance for each mean, or a decision."""
        return DECISION_WORDS if self.classifies else self.output_len

    @property
    def work_bytes(self) -> int:
        """Bytes of the work memory."""
        return self.element.itemsize * self.work_len

    @property
    def source(self) -> Path:
        """The one translation unit of the model."""
        return self.folder / f"{self.name}.c"

    @property
    def sources(self) -> list[Path]:
        """What is compiled: the translation unit, and the weights where they are a file of their own."""
        weights, replay = (self.folder / f"{self.name}_{end}" for end in ("weights.S", "selftest.c"))
        return [self.source, *([weights] if weights.exists() else []), *([replay] if self.replays else [])]

    @property
    def predict(self) -> str:
        """The C function that predicts."""
        if self.replays:
            return f"{self.name}_{'replay_classify' if self.classifies else 'replay'}"
        return f"{self.name}_{'classify' if self.classifies else 'predict'}"

    @property
    def layered(self) -> str:
        """The C function that calls the kernels: that of integers is shared by two that predict."""
        return f"{self.name}_run" if self.element.kind == "i" else self.predict

    @property
    def weight_pattern(self) -> str:
        """Names of the weight arrays: those of the model, not those of the runtime's tables."""
        return f"(?i){re.escape(self.name)}_"

    @property
    def driver_flags(self) -> tuple[str, ...]:
        """Tells c_runtime/targets/run_samples.c which model it runs."""
        flags = ("-include", f"{self.name}.h", f"-DLBNN_MODEL={self.name}", f"-DLBNN_MODEL_UPPER={self.name.upper()}")
        chosen = {"-DLBNN_INPUT_VARIANCE": self.input_variance, "-DLBNN_CLASSIFY": self.classifies}
        chosen |= {f"-DLBNN_CALL={self.predict}": self.replays}
        return (*flags, *(flag for flag, wanted in chosen.items() if wanted))

    @property
    def record(self) -> np.dtype[np.void]:
        """What c_runtime/targets/run_samples.c writes for a sample."""
        words = [("status", "<i4"), ("ticks", "<u4"), ("stack", "<u4")]
        return np.dtype([*words, ("mean", "<f4", (self.output_len,)), ("variance", "<f4", (self.second_len,))])
