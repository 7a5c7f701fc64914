"""Dropout under PyTorch's signatures."""

from __future__ import annotations

import math
import warnings

from ... import ops
from ...base.errors import ShapeError
from ...tensor.inplace import change
from ...tensor.tensor import Tensor

ALPHA = 1.7580993408473766
"""Minus the limit of SELU: alpha times scale (Klambauer et al., 2017)."""


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Set each element to 0 with probability `p` and scale the others by 1 / (1 - p).

    Parameters
    ----------
    input : Tensor, float
    p : float, default 0.5
        In [0, 1].
    training : bool, default True
        Whether anything is dropped.
    inplace : bool, default False

    Raises
    ------
    ShapeError
        If `p` is not in [0, 1].
    """
    if inplace:
        return change(input, ops.dropout, p, training)
    return ops.dropout(input, p, training)


def drop_channels(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, drawn: int = 2
) -> Tensor:
    """Drop all that lies in a place of the first `drawn` dimensions, one or two."""
    sizes = input.layout.shape
    if len(sizes) < drawn:
        raise ShapeError(f"{name}: input is {sizes}; it must be (batch, channels, ...)")
    shape = (*(1,) * (2 - drawn), *sizes[:drawn], math.prod(sizes[drawn:]))
    if not inplace:
        return ops.reshape(ops.dropout1d(ops.reshape(input, shape), p, training), sizes)
    dropout1d(input.view(*shape), p, training, True)
    return input


def _warn_of_dims(name: str, ndim: int) -> None:
    """Warn that `dropout` is what an input of so many dimensions needs."""
    warnings.warn(
        f"{name}: input is {ndim}-D, without the dimensions that it drops together;"
        " use dropout for that",
        stacklevel=3,
    )


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Set whole channels to 0 with probability `p`; scale the others by 1 / (1 - p).

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or without batch, float
    p : float, default 0.5
        In [0, 1].
    training : bool, default True
        Whether anything is dropped.
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Raises
    ------
    ShapeError
        If `p` is not in [0, 1], or `input` has other dimensions.

    Notes
    -----
    Source: Tompson et al., arXiv:1411.4280.
    """
    if inplace:
        return change(input, ops.dropout1d, p, training)
    return ops.dropout1d(input, p, training)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Set whole channels to 0 with probability `p`; scale the others by 1 / (1 - p).

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width), float
        Three dimensions are (batch, channels, length), as in PyTorch, with a warning.
        Other numbers from two on are (batch, channels, ...), with a warning too.
    p : float, default 0.5
        In [0, 1].
    training : bool, default True
        Whether anything is dropped.
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Raises
    ------
    ShapeError
        If `p` is not in [0, 1], or `input` has fewer than two dimensions.
    """
    ndim = len(input.layout.shape)
    if ndim not in (3, 4):
        _warn_of_dims("dropout2d", ndim)
        return drop_channels("dropout2d", input, p, training, inplace)
    if ndim == 3:
        warnings.warn(
            "dropout2d: input is 3-D, taken for (batch, channels, length); use"
            " dropout1d for that",
            stacklevel=2,
        )
        return dropout1d(input, p, training, inplace)
    if inplace:
        return change(input, ops.dropout2d, p, training)
    return ops.dropout2d(input, p, training)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Set whole channels to 0 with probability `p`; scale the others by 1 / (1 - p).

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width), float
        Four dimensions have no batch. Other numbers neither, with a warning, as in
        PyTorch: all that lies in a place of the first is dropped together.
    p : float, default 0.5
        In [0, 1].
    training : bool, default True
        Whether anything is dropped.
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Raises
    ------
    ShapeError
        If `p` is not in [0, 1], or `input` has no dimension.
    """
    ndim = len(input.layout.shape)
    if ndim not in (4, 5):
        _warn_of_dims("dropout3d", ndim)
        return drop_channels("dropout3d", input, p, training, inplace, 1)
    if inplace:
        return change(input, ops.dropout3d, p, training)
    return ops.dropout3d(input, p, training)


def _alpha_dropped(input: Tensor, p: float, drawn: int) -> Tensor:
    """Replace what is dropped by -ALPHA, then restore mean 0 and variance 1."""
    if p == 1.0:
        return input * 0.0
    shape = (*input.layout.shape[:drawn], *(1,) * (len(input.layout.shape) - drawn))
    kept = ops.draw_uniform(input.detach(), shape, input.dtype) >= p
    scale = 1.0 / math.sqrt((ALPHA * ALPHA * p + 1.0) * (1.0 - p))
    shift = ALPHA * scale * p
    return ops.where(kept, input * scale + shift, shift - ALPHA * scale)


def _alpha(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, drawn: int
) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise ShapeError(f"{name}: p is {p}; it must be from 0 to 1")
    if not training or p == 0.0 or input.numel() == 0:
        return input
    if inplace:
        return change(input, _alpha_dropped, p, drawn)
    return _alpha_dropped(input, p, drawn)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Drop elements to the limit of SELU, keeping mean 0 and variance 1.

    Parameters
    ----------
    input : Tensor, float
    p : float, default 0.5
        Probability of an element to be dropped, in [0, 1].
    training : bool, default False
        Whether anything is dropped.
    inplace : bool, default False

    Raises
    ------
    ShapeError
        If `p` is not in [0, 1].

    Notes
    -----
    Source: Klambauer et al., Self-Normalizing Neural Networks, arXiv:1706.02515.
    """
    return _alpha("alpha_dropout", input, p, training, inplace, len(input.layout.shape))


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Drop whole channels to the limit of SELU, keeping mean 0 and variance 1.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, ...), float
    p : float, default 0.5
        Probability of a channel to be dropped, in [0, 1]; 1 gives zeros.
    training : bool, default False
        Whether anything is dropped.
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Raises
    ------
    ShapeError
        If `p` is not in [0, 1], or `input` has fewer than two dimensions while
        training.

    Notes
    -----
    Source: Klambauer et al., arXiv:1706.02515.
    """
    if training and len(input.layout.shape) < 2:
        raise ShapeError(
            f"feature_alpha_dropout: input is {tuple(input.shape)}; it must be (batch,"
            " channels, ...)"
        )
    return _alpha("feature_alpha_dropout", input, p, training, inplace, 2)
