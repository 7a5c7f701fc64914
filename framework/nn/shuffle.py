"""Layers that rearrange pixels and channels."""

from __future__ import annotations

from . import functional
from .functional_module import FunctionalModule


class PixelShuffle(FunctionalModule, function=functional.pixel_shuffle):
    """Makes images larger with the elements of their channels.

    Parameters
    ----------
    upscale_factor : int
        (batch, channels * factor^2, h, w) become (batch, channels, h * factor,
        w * factor).

    Notes
    -----
    Source: Shi et al., arXiv:1609.05158.
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor


class PixelUnshuffle(FunctionalModule, function=functional.pixel_unshuffle):
    """Undoes `PixelShuffle`.

    Parameters
    ----------
    downscale_factor : int
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor


class ChannelShuffle(FunctionalModule, function=functional.channel_shuffle):
    """Deals the channels of groups out anew: one of each group in turn.

    Parameters
    ----------
    groups : int

    Notes
    -----
    Source: Zhang et al., arXiv:1707.01083.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups
