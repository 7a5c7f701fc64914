"""Norms of matrices under their own names, which PyTorch keeps beside `linalg`."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..base.errors import ShapeError
from ..base.validation import as_ints
from ..ops import matrix_functions
from .factories import a_tensor
from .tensor import Tensor

Dims = int | Sequence[int]


def frobenius_norm(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """Return the square root of the sum of |x|^2 over one or two dimensions.

    Parameters
    ----------
    input : Tensor of a float or complex dtype
    dim : int or sequence of int
        Dimensions to sum over; none means all.
    keepdim : bool, default False
        Whether they are kept with size 1.
    """
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return ops.norm(input, 2, dims or None, keepdim)


def nuclear_norm(
    input: Tensor, dim: Sequence[int] = (-2, -1), keepdim: bool = False
) -> Tensor:
    """Return the sum of the singular values of matrices.

    Parameters
    ----------
    input : Tensor of a float or complex dtype
    dim : sequence of int
        The two dimensions of the matrices; by default the last ones.
    keepdim : bool, default False
        Whether they are kept with size 1.
    """
    x = a_tensor("nuclear_norm", input)
    dims = as_ints("nuclear_norm: dim", dim)
    if len(dims) != 2:
        raise ShapeError(f"nuclear_norm: dim is {dim}; it must be two dimensions")
    pair = (dims[0], dims[1])
    norm: Tensor = matrix_functions.matrix_norm(x, "nuc", pair, keepdim)
    return norm
