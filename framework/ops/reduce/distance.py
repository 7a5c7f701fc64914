"""Distances between vectors, and vectors cut to a norm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import shown_as
from ...base.errors import ShapeError
from ...base.shape import broadcast_shapes, normalize_dim
from ...dispatch.autocast_policy import autocast_float32_on_host
from ...dispatch.replayable import replayable
from ...eager.base_tensor import need_tensors
from ..elementwise.binary import sub
from ..elementwise.cast import need_one_dtype
from ..elementwise.compare import clamp_min, where
from ..elementwise.unary import abs
from ..indexing.scatter import index_select
from ..matmul.matmul import matmul
from ..movement.slice import narrow
from ..selection.combinations import combination_places
from ..shape_constant import shape_constant
from ..source import fill_like
from ..view import expand, transpose, unsqueeze
from .minmax import amax
from .sum import sum
from .variance import _need_float, _std, norm

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

LARGE = 25
"""Rows from which "use_mm_for_euclid_dist_if_necessary" multiplies matrices."""

MOST_PAIRS = 512
"""Pairs whose rows are a constant of 4 KiB at most, in place of six small kernels."""

COMPUTE_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


@shown_as("DistBackward0", "input", "other")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return the p-norm of the difference of two tensors, as a number.

    Parameters
    ----------
    input, other : Tensor, float
        Of shapes that broadcast.
    p : float, default 2
        Which norm; see `norm`. Infinity gives the largest |difference|, 0 how many
        differ.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """
    need_tensors("dist", input=input, other=other)
    return norm(sub(input, other), p)


@autocast_float32_on_host
@shown_as("CdistBackward0", "x1", "x2")
@replayable
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """Return the distances of each row of `x1` from each row of `x2`.

    Parameters
    ----------
    x1 : Tensor, float, shape (..., n, k)
    x2 : Tensor, float, shape (..., m, k)
        The sizes in front broadcast.
    p : number, default 2
        Of the norm; at least 0, may be infinite.
    compute_mode : str
        Whether Euclidean distances come from a product of matrices, which is quicker
        and loses digits of small distances: PyTorch's names; by default with more than
        25 rows.

    Returns
    -------
    Tensor, shape (..., n, m)

    Raises
    ------
    ShapeError
        If shapes do not fit, or `p` is below 0.
    DTypeError
        If a dtype is no float, or they are not the same.
    ValueError
        If `compute_mode` is another.
    """
    _need_float("cdist", x1)
    _need_float("cdist", x2)
    need_one_dtype("cdist", x1=x1, x2=x2)
    if compute_mode not in COMPUTE_MODES:
        raise ValueError(
            f"cdist: compute_mode is {compute_mode!r}; it must be one of"
            f" {COMPUTE_MODES}"
        )
    if (
        len(x1.layout.shape) < 2
        or len(x2.layout.shape) < 2
        or x1.layout.shape[-1] != x2.layout.shape[-1]
        or not p >= 0
    ):
        raise ShapeError(
            f"cdist: x1 is {x1.layout.shape}, x2 {x2.layout.shape}, p {p}; both must be"
            " matrices with as many columns, and p at least 0"
        )
    broadcast_shapes("cdist", x1.layout.shape[:-2], x2.layout.shape[:-2])
    large = max(x1.layout.shape[-2], x2.layout.shape[-2]) > LARGE
    multiplied = compute_mode == COMPUTE_MODES[1] or (
        compute_mode == COMPUTE_MODES[0] and large
    )
    if p == 2 and multiplied:
        squares = unsqueeze(sum(x1 * x1, -1), -1) + unsqueeze(sum(x2 * x2, -1), -2)
        product = matmul(x1, transpose(x2, -2, -1))
        return _std(clamp_min(squares - product * 2.0, 0.0))
    return _norms(sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), p)


def _norms(difference: Tensor, p: float) -> Tensor:
    if difference.layout.shape[-1] == 0:
        shape = difference.layout.shape[:-1]
        zeros: Tensor = fill_like(difference, shape, 0, difference.dtype)
        return zeros
    return norm(difference, p, -1)


@shown_as("PdistBackward0", "input")
@replayable
def pdist(input: Tensor, p: float = 2) -> Tensor:
    """Return the distances of each two rows of a matrix, each pair once.

    Returns
    -------
    Tensor, shape (n * (n - 1) / 2,)
        Row 0 with 1, 2 and so on, then row 1 with 2.

    Raises
    ------
    ShapeError
        If `input` is no matrix, or `p` is below 0.
    """
    _need_float("pdist", input)
    if len(input.layout.shape) != 2 or not p >= 0:
        raise ShapeError(
            f"pdist: x is {input.layout.shape}, p {p}; x must be 2-D and p at least 0"
        )
    count = input.layout.shape[0]
    pairs = math.comb(count, 2)
    if not pairs:
        none: Tensor = fill_like(input, (0,), 0, input.dtype)
        return none
    if pairs > MOST_PAIRS:
        chosen = combination_places("pdist", input, 2)
        rows = [index_select(input, 0, places) for places in chosen]
    else:
        table = np.stack(np.triu_indices(count, 1)).astype(np.int32)
        both = index_select(input, 0, shape_constant(input, table.reshape(-1)))
        rows = [narrow(both, 0, start, pairs) for start in (0, pairs)]
    return _norms(sub(*rows), p)


@shown_as("RenormBackward0", "input")
@replayable
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Return a tensor whose slices along a dimension are scaled down to a norm.

    Parameters
    ----------
    input : Tensor, float
    p : number
        Of the norm; above 0.
    dim : int
    maxnorm : number
        What a slice whose norm is larger gets; at least 0.

    Raises
    ------
    ShapeError
        If `p` is not above 0, `maxnorm` below 0, or `input` has one dimension.
    """
    if not input.dtype.is_complex:
        _need_float("renorm", input)
    at = normalize_dim("renorm", dim, len(input.layout.shape))
    if not p > 0 or not maxnorm >= 0 or len(input.layout.shape) < 2:
        raise ShapeError(
            f"renorm: x is {input.layout.shape}, p {p}, maxnorm {maxnorm}; x"
            " must have at"
            " least 2 dimensions, p be above 0 and maxnorm at least 0"
        )
    others = tuple(each for each in range(len(input.layout.shape)) if each != at)
    if math.isinf(p):
        size = amax(abs(input), others, True)
    else:
        size = norm(input, p, others, True)
    scale = where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
    return input * expand(scale, input.layout.shape)
