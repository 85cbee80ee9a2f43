"""The evaluator of the onnx package with a ConvTranspose that knows groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.reference.ops.op_conv_transpose import ConvTranspose as OneGroup


class ConvTranspose(OneGroup):  # type: ignore[misc]
    """Each group on its own: of several groups the package takes the weights by output channel and loses results."""

    op_domain = ""

    def _run(self, x: Any, w: Any, b: Any = None, group: int = 1, **geometry: Any) -> tuple[Any]:
        biases = [None] * group if b is None else np.split(b, group)
        parts = zip(np.split(x, group, axis=1), np.split(w, group), biases, strict=True)
        out = [super(ConvTranspose, self)._run(*part, group=1, **geometry)[0] for part in parts]
        return (np.concatenate(out, axis=1),)
