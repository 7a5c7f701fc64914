"""Upsampling layers."""

from __future__ import annotations

from .. import ops
from ..base.shape import Shape
from ..tensor.tensor import Tensor
from .module import Module

Factor = float | tuple[float, ...] | None


class Upsample(Module):
    """Resizes signals, images or volumes; see `ops.interpolate`.

    Parameters
    ----------
    size : int or sequence of int, or None
        Sizes afterwards.
    scale_factor : float or sequence of float, or None
        What to multiply sizes with instead.
    mode : str, default "nearest"
    align_corners, recompute_scale_factor : bool or None
    """

    def __init__(
        self,
        size: int | Shape | None = None,
        scale_factor: Factor = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.scale_factor: Factor = None
        if isinstance(scale_factor, tuple | list):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        elif scale_factor is not None:
            self.scale_factor = float(scale_factor)
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return (batch, channels, ...) resized."""
        return ops.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        given = "size" if self.scale_factor is None else "scale_factor"
        return f"{given}={getattr(self, given)}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Repeats the pixels of images.

    Parameters
    ----------
    size : int or (int, int), or None
    scale_factor : float or (float, float), or None
    """

    def __init__(
        self, size: int | Shape | None = None, scale_factor: Factor = None
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Interpolates images linearly, with aligned corners.

    Parameters
    ----------
    size : int or (int, int), or None
    scale_factor : float or (float, float), or None
    """

    def __init__(
        self, size: int | Shape | None = None, scale_factor: Factor = None
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
