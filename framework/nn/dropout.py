"""Dropout layers."""

from __future__ import annotations

from ..base.docstring import shares_parameters
from ..base.errors import ShapeError
from . import functional
from .functional_module import FunctionalModule


class _Dropout(FunctionalModule):
    """Base of dropout layers; they differ in the elements dropped together."""

    options = ("p", "training", "inplace")
    shown = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            name = type(self).__name__
            raise ShapeError(f"{name}: p is {p}; it must be from 0 to 1")
        self.p = p
        self.inplace = inplace


class Dropout(_Dropout, function=functional.dropout):
    """Zeroes random elements in training; returns its input otherwise.

    Parameters
    ----------
    p : float, default 0.5
        Probability of an element to become 0, in [0, 1]; the others are scaled by
        1 / (1 - p).
    inplace : bool, default False
        Whether the input's elements are replaced, and it is returned.

    Raises
    ------
    ShapeError
        If `p` is out of range.
    """


@shares_parameters(functional.dropout1d)
class Dropout1d(_Dropout, function=functional.dropout1d):
    """Zeroes random channels of sequences in training; see `Dropout`."""


@shares_parameters(functional.dropout2d)
class Dropout2d(_Dropout, function=functional.dropout2d):
    """Zeroes random channels of images in training; see `Dropout`."""


@shares_parameters(functional.dropout3d)
class Dropout3d(_Dropout, function=functional.dropout3d):
    """Zeroes random channels of volumes in training; see `Dropout`."""


@shares_parameters(functional.alpha_dropout)
class AlphaDropout(_Dropout, function=functional.alpha_dropout):
    """Drops random elements to the limit of SELU, keeping mean and variance.

    Parameters as in `Dropout`.

    Notes
    -----
    Source: Klambauer et al., Self-Normalizing Neural Networks, arXiv:1706.02515.
    """


@shares_parameters(functional.feature_alpha_dropout)
class FeatureAlphaDropout(_Dropout, function=functional.feature_alpha_dropout):
    """Drops random channels as `AlphaDropout` drops elements."""
