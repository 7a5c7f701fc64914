"""Operations on the bits of integers, and logic on bools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import BOOL, INTEGER
from ...dispatch.declare import elementwise

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

BITS = (*BOOL, *INTEGER)


@elementwise(glsl="bits_not(x)", reference=np.invert, dtypes=BITS)
def bitwise_not(x: Tensor) -> Tensor:
    """Return each element with every bit changed; of bools the opposite."""


@elementwise(glsl="bits_and(x, y)", reference=np.bitwise_and, dtypes=BITS)
def bitwise_and(x: Tensor | int, y: Tensor | int) -> Tensor:
    """Return the bits that two elements have in common.

    Parameters
    ----------
    x, y : Tensor or int, one of them a tensor
        Integers or bools; shapes broadcast, dtypes promote.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the promoted dtype is another.
    """


@elementwise(glsl="bits_or(x, y)", reference=np.bitwise_or, dtypes=BITS)
def bitwise_or(x: Tensor | int, y: Tensor | int) -> Tensor:
    """Return the bits that at least one of two elements has.

    Parameters
    ----------
    x, y : Tensor or int, one of them a tensor
        Integers or bools; shapes broadcast, dtypes promote.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the promoted dtype is another.
    """


@elementwise(glsl="bits_xor(x, y)", reference=np.bitwise_xor, dtypes=BITS)
def bitwise_xor(x: Tensor | int, y: Tensor | int) -> Tensor:
    """Return the bits that exactly one of two elements has.

    Parameters
    ----------
    x, y : Tensor or int, one of them a tensor
        Integers or bools; shapes broadcast, dtypes promote.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the promoted dtype is another.
    """


@elementwise(glsl="shifted_left(x, y)", reference=np.left_shift, dtypes=INTEGER)
def bitwise_left_shift(x: Tensor | int, y: Tensor | int) -> Tensor:
    """Return `x` with its bits moved `y` places up.

    Parameters
    ----------
    x, y : Tensor or int, one of them a tensor
        Integers; shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, of the promoted dtype
        0 where `y` is negative, or at least the number of bits.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the promoted dtype is another.
    """


@elementwise(glsl="shifted_right(x, y)", reference=np.right_shift, dtypes=INTEGER)
def bitwise_right_shift(x: Tensor | int, y: Tensor | int) -> Tensor:
    """Return `x` with its bits moved `y` places down; its sign fills in.

    Parameters
    ----------
    x, y : Tensor or int, one of them a tensor
        Integers; shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, of the promoted dtype
        0, or -1 for a negative element, where `y` is negative, or at least the number
        of bits.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the promoted dtype is another.
    """
