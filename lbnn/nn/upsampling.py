"""Nearest-neighbour upsampling by whole factors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from lbnn.base.errors import LbnnError
from lbnn.nn.base import Layer
from lbnn.nn.weighted import IntOrTuple, per_axis
from lbnn.ops import Shape

ONLY_FACTORS = 'only mode="nearest" with a scale_factor of whole numbers is supported'


class Upsample(Layer):
    """`torch.nn.Upsample(scale_factor=..., mode="nearest")`, for one or two spatial axes.

    The first argument of torch's is `size`, which is refused, as are other modes.
    """

    op = "upsample"
    counterpart: ClassVar[type[nn.Module] | None] = nn.Upsample

    def __init__(
        self,
        size: Any = None,
        scale_factor: IntOrTuple | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        if size is not None or scale_factor is None or mode != "nearest" or align_corners is not None:
            raise LbnnError(f"{type(self).__name__}: {ONLY_FACTORS}, as in scale_factor=2; the first argument is size")
        factors = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,)
        if any(isinstance(factor, bool) or factor != int(factor) or factor < 1 for factor in factors):
            raise LbnnError(f"scale_factor must be whole numbers from 1, got {scale_factor}")
        whole = tuple(map(int, factors))
        self.scale_factor: IntOrTuple = whole if isinstance(scale_factor, (tuple, list)) else whole[0]

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """A factor for each spatial axis."""
        return {"factors": per_axis(self.scale_factor, len(shapes[0]) - 1)}

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """The factors."""
        return cls(scale_factor=attrs["factors"])

    @classmethod
    def like(cls, module: nn.Module) -> Layer:
        """A layer that copies; others mix elements, whose moments would need their covariances."""
        if getattr(module, "mode", None) != "nearest" or getattr(module, "scale_factor", None) is None:
            raise LbnnError(ONLY_FACTORS)
        return cls(scale_factor=module.scale_factor)  # type: ignore[arg-type]

    def extra_repr(self) -> str:
        """As torch prints its own."""
        return f"scale_factor={self.scale_factor}"


class UpsamplingNearest2d(Upsample):
    """`torch.nn.UpsamplingNearest2d`."""

    counterpart = nn.UpsamplingNearest2d

    def __init__(self, size: Any = None, scale_factor: IntOrTuple | None = None) -> None:
        super().__init__(size, scale_factor)


class UpsampleNearest(Upsample):
    """`Upsample` by the name of its one mode, with the factor as its only argument."""

    counterpart = None

    def __init__(self, scale_factor: IntOrTuple) -> None:
        super().__init__(scale_factor=scale_factor)
