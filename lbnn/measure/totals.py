"""What `lbnn predict` says of all chunks of a file together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lbnn.base.terminal import counted


@dataclass
class Totals:
    """The chunks in sum: rows that are unsure and out of range, and the means of their scores."""

    chunks: int = 0
    unsure: int | None = None
    out_of_range: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, unsure: Any | None, out_of_range: Any | None, scores: Mapping[str, float]) -> None:
        """One more chunk: its flags, where there are limits, and its scores, where it says what was observed."""
        self.chunks += 1
        if unsure is not None:
            self.unsure = (self.unsure or 0) + int(unsure.sum())
        if out_of_range is not None:
            self.out_of_range += int((out_of_range > 0).sum())
        for key, value in scores.items():
            weighted = value if key == "scored" else scores["scored"] * value ** (2 if key == "rmse" else 1)
            self.sums[key] = self.sums.get(key, 0) + weighted

    @property
    def scores(self) -> dict[str, float]:
        """The scores of all rows; squared errors have a mean, their roots have none."""
        means = {key: value if key == "scored" else value / self.sums["scored"] for key, value in self.sums.items()}
        return means | ({"rmse": math.sqrt(means["rmse"])} if "rmse" in means else {})

    def lines(self, uncalibrated: str) -> list[str]:
        """What is said of flagged rows, or that the model has no limit."""
        unsure = uncalibrated if self.unsure is None else f"{counted(self.unsure, 'row')} unsure"
        outside = f"{counted(self.out_of_range, 'row')} with inputs outside of the training range"
        return [unsure, outside] if self.out_of_range else [unsure]
