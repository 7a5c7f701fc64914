"""Distances and products between vectors."""

from __future__ import annotations

from ... import ops
from ...autograd.tape import show_as, shown_as
from ...base.errors import ShapeError
from ...dispatch.autocast_policy import autocast_float32_on_device
from ...dispatch.replayable import replayable
from ...eager.base_tensor import need_tensors
from ...tensor.tensor import Tensor


def cosine_similarity(
    x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8
) -> Tensor:
    """Return the cosines of the angles between vectors along a dimension.

    Parameters
    ----------
    x1, x2 : Tensor, float
        Of shapes that broadcast.
    dim : int, default 1
        Dimension along which the vectors lie; the result lacks it.
    eps : float, default 1e-8
        Least norm to divide by; a vector of zeros gives 0.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """
    return ops.cosine_similarity(x1, x2, dim, eps)


@replayable
def pairwise_distance(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    eps: float = 1e-6,
    keepdim: bool = False,
) -> Tensor:
    """Return the norms of differences along the last dimension.

    Parameters
    ----------
    x1, x2 : Tensor, float
        Of shapes that broadcast.
    p : float, default 2
        Which norm; see `ops.norm`.
    eps : float, default 1e-6
        Added to the differences, so that no gradient is infinite.
    keepdim : bool, default False
    """
    need_tensors("pairwise_distance", x1=x1, x2=x2)
    between = x1 - x2
    moved = between + eps
    show_as(moved, "AddBackward1", between)
    found = ops.norm(moved, p, -1, keepdim)
    show_as(found, "NormBackward1", moved)
    return found


@autocast_float32_on_device
@shown_as("PdistBackward0", "input")
def pdist(input: Tensor, p: float = 2) -> Tensor:
    """Return the distances between all pairs of rows.

    Parameters
    ----------
    input : Tensor, shape (rows, size), float
    p : float, default 2
        Which norm, at least 0.

    Returns
    -------
    Tensor, shape (rows * (rows - 1) / 2,)
        In the order (0, 1), (0, 2), ..., (1, 2), ...

    Raises
    ------
    ShapeError
        If `input` is not 2-D, or `p` below 0.
    """
    if len(input.layout.shape) != 2:
        raise ShapeError(
            f"pdist: input is {tuple(input.shape)}; it must be (rows, size)"
        )
    if p < 0:
        raise ShapeError(f"pdist: p is {p}; it must be at least 0")
    return ops.pdist(input, p)


@replayable
def bilinear(
    input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Return input1^T A input2 + b for each matrix A of the weight.

    Parameters
    ----------
    input1 : Tensor, shape (..., in1_features), float
    input2 : Tensor, shape (..., in2_features)
        Leading dimensions are those of `input1`.
    weight : Tensor, shape (out_features, in1_features, in2_features)
    bias : Tensor, shape (out_features,), or None

    Returns
    -------
    Tensor, shape (..., out_features)

    Raises
    ------
    ShapeError
        If shapes do not fit.
    """
    lead = input1.layout.shape[:-1]
    sizes = (input1.layout.shape[-1:], input2.layout.shape[-1:])
    if (
        len(weight.layout.shape) != 3
        or input2.layout.shape[:-1] != lead
        or sizes != (weight.layout.shape[1:2], weight.layout.shape[2:])
    ):
        raise ShapeError(
            f"bilinear: inputs are {tuple(input1.shape)} and {tuple(input2.shape)},"
            " weight"
            f" {tuple(weight.shape)}; they must be (..., n), (..., m) and (out, n, m)"
        )
    out_features, rows, columns = weight.layout.shape
    if bias is not None and bias.shape != (out_features,):
        raise ShapeError(
            f"bilinear: bias is {tuple(bias.shape)}; it must be ({out_features},)"
        )
    flat = ops.reshape(ops.permute(weight, (1, 0, 2)), (rows, out_features * columns))
    products = ops.matmul(ops.reshape(input1, (-1, rows)), flat)
    products = ops.reshape(products, (*lead, out_features, columns))
    out = ops.sum(products * ops.unsqueeze(input2, -2), -1, dtype=input1.dtype)
    return out if bias is None else out + bias
