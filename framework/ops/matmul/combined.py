"""Products of several matrices and vectors, and sums of products with a tensor."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...autograd.tape import show_as, shown_as
from ...base.device import GpuDevice
from ...base.dtype import DType, bool_, promote
from ...base.errors import DTypeError, ShapeError
from ...base.size_limits import check_value
from ...base.validation import as_int
from ...dispatch.autocast_policy import (
    autocast_low_precision,
    autocast_low_precision_on_device,
)
from ...dispatch.replayable import replayable
from ...eager.base_tensor import need_tensors
from ..elementwise.binary import mul
from ..elementwise.cast import cast, converted, need_float
from ..elementwise.compare import both, either
from ..elementwise.complex_numbers import conj
from ..movement.concat import cat
from ..reduce.common import whole_dtype
from ..reduce.scan import cumprod
from ..reduce.sum import sum
from ..source import band_like, fill_like
from ..view import expand, reshape, unsqueeze
from .blas import _added, _check_dims, mv, outer
from .einsum import tensordot
from .matmul import bmm, matmul

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@autocast_low_precision_on_device
@replayable
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """Return beta * input + alpha * (mat @ vec).

    Parameters
    ----------
    input : Tensor, of a shape that broadcasts to (m,)
        Not read where `beta` is 0.
    mat : Tensor, shape (m, k)
    vec : Tensor, shape (k,)
        Of one dtype.
    beta, alpha : number, default 1

    Raises
    ------
    ShapeError
        If shapes do not fit.
    """
    _check_dims("addmv", mat=(mat, 2), vec=(vec, 1))
    out = _added("addmv", input, mv(mat, vec), beta, alpha)
    show_as(out, "AddmvBackward0", input, mat, vec)
    return out


@autocast_low_precision_on_device
@replayable
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """Return beta * input + alpha * outer(vec1, vec2).

    Parameters
    ----------
    input : Tensor, of a shape that broadcasts to (m, n)
        Not read where `beta` is 0.
    vec1 : Tensor, shape (m,)
    vec2 : Tensor, shape (n,)
        Dtypes promote; of bools products are "and", sums "or".
    beta, alpha : number, default 1

    Raises
    ------
    ShapeError
        If shapes do not fit.
    DTypeError
        If all are bool and a factor is a float.
    """
    _check_dims("addr", vec1=(vec1, 1), vec2=(vec2, 1))
    if input.dtype is vec1.dtype is vec2.dtype is bool_:
        for name, factor in (("beta", beta), ("alpha", alpha)):
            if isinstance(factor, float):
                raise DTypeError(
                    f"addr: {name} is {factor}; of bools it must be an int"
                )
        product = both(unsqueeze(vec1, -1), both(vec2, bool(alpha)))
        return either(both(input, bool(beta)), product)
    kind = promote(input.dtype, promote(vec1.dtype, vec2.dtype))
    product = outer(converted(vec1, kind), converted(vec2, kind))
    out = _added("addr", converted(input, kind), product, beta, alpha)
    show_as(out, "AddrBackward0", input, vec1, vec2)
    return out


@autocast_low_precision
@shown_as("AddbmmBackward0", "input", "batch1", "batch2")
@replayable
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """Return beta * input + alpha * (sum of the products of two batches).

    Parameters
    ----------
    input : Tensor, of a shape that broadcasts to (m, n)
        Not read where `beta` is 0.
    batch1 : Tensor, shape (batch, m, k)
    batch2 : Tensor, shape (batch, k, n)
        Of one dtype.
    beta, alpha : number, default 1

    Returns
    -------
    Tensor, shape (m, n)

    Raises
    ------
    ShapeError
        If shapes do not fit.
    """
    _check_dims("addbmm", batch1=(batch1, 3), batch2=(batch2, 3))
    product = sum(bmm(batch1, batch2), 0, dtype=batch1.dtype)
    return _added("addbmm", input, product, beta, alpha)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """Return the product of matrices, multiplied in the order that costs least.

    Source: Cormen et al., "Introduction to Algorithms", matrix-chain order.

    Parameters
    ----------
    *matrices : Tensor, each of two dimensions
        The columns of each are as many as the rows of the next.

    Raises
    ------
    ShapeError
        If there is none, one is not a matrix, or sizes do not fit.
    """
    if not matrices or any(each.ndim != 2 for each in matrices):
        shapes = [each.layout.shape for each in matrices]
        raise ShapeError(
            f"chain_matmul: matrices are {shapes}; there must be at least one, and each"
            " be 2-D"
        )
    sizes = [matrices[0].shape[0], *(each.shape[1] for each in matrices)]
    count = len(matrices)
    # Of equal costs PyTorch takes the first two of three, of more the first cut.
    order = -1 if count == 3 else 1
    costs = {(at, at): (0, at) for at in range(count)}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            costs[first, last] = min(
                [
                    (
                        costs[first, cut][0]
                        + costs[cut + 1, last][0]
                        + sizes[first] * sizes[cut + 1] * sizes[last + 1],
                        cut,
                    )
                    for cut in range(first, last)[::order]
                ],
                key=operator.itemgetter(0),
            )

    return _chained(matrices, costs, 0, count - 1)


def _chained(
    matrices: Sequence[Tensor],
    costs: Mapping[tuple[int, int], tuple[int, int]],
    first: int,
    last: int,
) -> Tensor:
    """Return the product of matrices `first` to `last`, cut as the costs say."""
    if first == last:
        return matrices[first]
    cut = costs[first, last][1]
    return matmul(
        _chained(matrices, costs, first, cut), _chained(matrices, costs, cut + 1, last)
    )


@replayable
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Return the sums of products over the last dimensions.

    Parameters
    ----------
    input : Tensor, shape (..., k)
    other : Tensor, shape (*rest, k)
        Where one has no dimensions, the result is the product.

    Returns
    -------
    Tensor, shape (..., *rest)

    Raises
    ------
    ShapeError
        If the last sizes differ.
    """
    if not len(input.layout.shape) or not len(other.layout.shape):
        return mul(input, other)
    if input.layout.shape[-1] != other.layout.shape[-1]:
        raise ShapeError(
            f"inner: last sizes differ: {input.layout.shape},"
            f" {other.layout.shape}; they must be"
            " equal"
        )
    return tensordot(input, other, ([-1], [-1]))


@replayable
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Return the Kronecker product: each element of `input` times the whole `other`.

    Parameters
    ----------
    input, other : Tensor
        Of any shapes; the one with fewer dimensions gets dimensions of size 1 in front.

    Returns
    -------
    Tensor
        Its sizes are the products of theirs.
    """
    ndim = max(len(input.layout.shape), len(other.layout.shape))
    one, two = ((1,) * (ndim - each.ndim) + each.shape for each in (input, other))
    left = reshape(input, tuple(n for size in one for n in (size, 1)))
    right = reshape(other, tuple(n for size in two for n in (1, size)))
    return reshape(mul(left, right), tuple(a * b for a, b in zip(one, two)))


def matrix_power(input: Tensor, n: int) -> Tensor:
    """Return matrices multiplied by themselves, `n` factors in all.

    Parameters
    ----------
    input : Tensor, shape (..., m, m)
    n : int
        At least 0; 0 gives the identity.

    Raises
    ------
    ShapeError
        If the matrices are not square, or `n` is below 0.
    """
    n = as_int("matrix_power: n", n)
    if (
        len(input.layout.shape) < 2
        or input.layout.shape[-1] != input.layout.shape[-2]
        or n < 0
    ):
        raise ShapeError(
            f"matrix_power: x is {input.layout.shape}, n {n}; matrices must be"
            " square and n at"
            " least 0"
        )
    if n == 0:
        rows = max(input.layout.shape[-1], 1)
        return cast(
            band_like(input, input.layout.shape, rows, rows, 0, 0, bool_), input.dtype
        )
    if n == 3:  # In the order of PyTorch's products, which is another one.
        return matmul(matmul(input, input), input)
    result, power = None, input
    while n:
        if n & 1:
            result = power if result is None else matmul(result, power)
        n >>= 1
        power = matmul(power, power) if n else power
    assert result is not None, "matrix_power: n is positive"
    return result


@replayable
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803 - PyTorch's name
    """Return the powers of each element of a vector, one element a row.

    Parameters
    ----------
    x : Tensor, shape (n,)
    N : int or None
        Number of powers, from 0 on; None means n.
    increasing : bool, default False
        Whether the lowest is first.

    Raises
    ------
    ShapeError
        If `x` is not a vector, `N` is below 0, or a device cannot index the powers.
    """
    if len(x.layout.shape) != 1:
        raise ShapeError(f"vander: x is {x.layout.shape}; it must have one dimension")
    count = x.layout.shape[0] if N is None else as_int("vander: N", N)
    if count < 0:
        raise ShapeError(f"vander: N is {count}; it must be at least 0")
    kind = x.dtype if x.dtype.is_differentiable else whole_dtype(x)
    need_room_for_powers(x, count, kind)
    ones = fill_like(x, (x.layout.shape[0], min(count, 1)), 1, kind)
    powers = ones
    if count > 1:
        wide = expand(unsqueeze(x, 1), (x.layout.shape[0], count - 1))
        powers = cat([ones, cumprod(wide, 1, dtype=kind)], 1)
    if increasing:
        return powers
    from ..movement.rearrange import flip

    return flip(powers, 1)


def need_room_for_powers(x: Tensor, count: int, dtype: DType) -> None:
    """Check that a device can allocate and index so many powers of each element."""
    if isinstance(x.device, GpuDevice):
        check_value("vander", (*x.layout.shape, count), dtype, x.device)


@autocast_low_precision
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Return sums of products along a dimension.

    Parameters
    ----------
    x, y : Tensor, float or complex, of one dtype
        Shapes broadcast. Of complex numbers the conjugates of `x` are taken.
    dim : int, default -1
        Which the result lacks.

    Raises
    ------
    DTypeError
        If the dtypes differ, or are of integers.
    """
    need_tensors("vecdot", x=x, y=y)
    if x.dtype is not y.dtype:
        raise DTypeError(
            f"vecdot: x is {x.dtype.name}, y {y.dtype.name}; they must be the same"
        )
    need_float("vecdot", x=x, y=y)
    found = sum(mul(conj(x), y), dim)
    if x.ndim == y.ndim == 1:
        show_as(found, "VdotBackward0", x, y)
    return found
