"""Singular vectors and eigenvectors of matrices of any size, by Jacobi's rotations.

The rows of a matrix are rotated in pairs until all are orthogonal: their lengths are
the singular values then. A symmetric matrix is made positive-definite by a multiple of
the identity first: its rows become multiples of its eigenvectors, so that no rotations
need be kept, and each row is rotated by itself, not along with a column. Rows that
count as orthogonal are apart from eigenvectors of near values by many roundings, which
`refined_eigenvectors` takes away. So it does with roundings of float32, by which rows
of float64 are rotated first.

Sources: Golub and Van Loan, "Matrix Computations", 4th edition, section 8.6.3; Becka
and Vajtersic, "Block-Jacobi SVD algorithms for distributed memory systems", Parallel
Algorithms and Applications 13, 1999.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..base.device import GpuDevice
from ..base.dtype import float32, float64, int32
from ..base.shape import TensorSpec
from ..base.trace_hooks import reads_are_refused
from ..dispatch.declare import primitive
from ..eager.base_tensor import evaluate
from ..ir.kernel_call import Dispatch, StridedSpec
from ..kernels.gemm.tiles import SIMT
from ..kernels.jacobi import jacobi_block, jacobi_dispatches, jacobi_fits
from .elementwise.cast import cast
from .elementwise.compare import eq, ne, where
from .host_checks import largest_flag
from .indexing.masked import tril, triu
from .indexing.scatter import take_along_dim
from .matmul.diagonal import diag_embed
from .matmul.matmul import _bmm
from .movement.concat import cat
from .movement.slice import narrow
from .panel_qr import panel_qr, qr_by_kernel
from .reduce.minmax import amax
from .reduce.sum import sum
from .refined_eigenvectors import STEPS, orthogonal, refined
from .selection.sort import argsort
from .source import fill_like
from .triangular import small_by_kernel
from .view import expand, reshape, transpose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vkbackend import DeviceInfo

    from ..tensor.tensor import Tensor

_REAL = (float32, float64)

SWEEPS, AT_ONCE = 5, 512
"""Sweeps of one node, and rows up to which it has all that are expected. Those after
the last that turns anything are left out."""

MOST_SWEEPS = 36

UNFINISHED, NULL = 2, 1
"""Flags of matrices that turn after all sweeps, and of those with rows of length 0."""

LONG, MANY = 4, 1024
"""Columns, as a multiple of the rows, and rows from which a matrix is first factorised
by QR, after which fewer sweeps are needed."""

SHIFT = 1.5
"""Multiple of a bound of the eigenvalues that is added to all: it keeps them apart from
0, by which eigenvectors are as exact as any, and is small enough to take little from
the eigenvalues."""

CHECKS = 1
"""Sweeps of float64 after those of float32, before it is asked what is left."""

_BOTH = 1, 2


@primitive(dtypes={"x": _REAL, "state": (int32,)}, outputs=("out", "info"))
def _jacobi_sweeps(
    x: Tensor, state: Tensor, length: int, tolerance: float, block: int
) -> tuple[Tensor, Tensor]:
    """Return rows after sweeps of rotations, and whether any turned in each sweep."""


@_jacobi_sweeps.spec
def _jacobi_sweeps_spec(
    x: TensorSpec, state: TensorSpec, length: int, tolerance: float, block: int
) -> tuple[TensorSpec, TensorSpec]:
    return x, state


@_jacobi_sweeps.kernel
def _jacobi_sweeps_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    state: StridedSpec,
    length: int,
    tolerance: float,
    block: int,
) -> list[Dispatch]:
    return jacobi_dispatches(gpu, x, state, length, tolerance, block)


@_jacobi_sweeps.reference
def _jacobi_sweeps_reference(
    x: np.ndarray, state: np.ndarray, length: int, tolerance: float, block: int
) -> tuple[np.ndarray, np.ndarray]:
    u, *_ = np.linalg.svd(x[..., :length], full_matrices=False)
    return np.swapaxes(u, -1, -2) @ x, np.zeros_like(state)


def jacobi_by_kernel(x: Tensor) -> bool:
    """Return whether kernels rotate the rows of matrices, or their columns."""
    device, shape = x.device, x.layout.shape
    if not small_by_kernel(x) or not isinstance(device, GpuDevice):
        return False
    least, most = sorted(shape[-2:])
    fits = jacobi_fits(math.prod(shape[:-2]), least, least + most)
    return fits and jacobi_block(device.gpu.info, x.dtype, least) > 0


def expected_sweeps(rows: int) -> int:
    """Return the sweeps after which nothing turns, of random matrices."""
    return max(4, math.ceil(1.5 * math.log2(rows)) - 1)


class _Found(NamedTuple):
    """What rotations have found.

    Attributes
    ----------
    flags : Tensor, int32, shape (matrices,)
    values : Tensor, shape (matrices, rows, 1)
        In their order.
    parts : tuple of Tensor
        What belongs to them, in their order.
    is_null : Tensor, shape (matrices, rows, 1), or None
        Whether a row has no direction.
    """

    flags: Tensor
    values: Tensor
    parts: tuple[Tensor, ...]
    is_null: Tensor | None


def _rotated(
    x: Tensor, length: int, tolerance: float, expected: int
) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Rotate rows, by nodes of the sweeps that are expected and of few after them.

    Yields
    ------
    x : Tensor, shape (matrices, rows, width)
    left : Tensor, int32, shape (matrices,)
        Not 0 where more sweeps would turn rows.
    done : int
        Sweeps so far.
    """
    device, (matrices, rows, _) = x.device, x.layout.shape
    assert isinstance(device, GpuDevice)
    block = jacobi_block(device.gpu.info, x.dtype, rows)
    left: Tensor = fill_like(x, (1, matrices), 1, int32)
    done, few = 0, 1
    while done < MOST_SWEEPS:
        if done < expected:
            each = expected if rows <= AT_ONCE else min(SWEEPS, expected)
        else:
            each, few = few, min(2 * few, SWEEPS)
        none: Tensor = fill_like(x, (each, matrices), 0, int32)
        x, info = _jacobi_sweeps(x, cat([left, none], 0), length, tolerance, block)
        left, done = narrow(info, 0, each, 1), done + each
        if not reads_are_refused():
            # The device begins while what comes after is recorded.
            evaluate(x)
        yield x, reshape(left, (matrices,)), done


def _swept(
    x: Tensor,
    length: int,
    tolerance: float,
    finish: Callable[[Tensor, Tensor], _Found],
    expected: int,
) -> tuple[_Found, int]:
    """Return what `finish` finds in rotated rows, and the largest flag.

    Parameters
    ----------
    x : Tensor, shape (matrices, rows, width)
    length : int
        Columns, the first ones, that become orthogonal.
    tolerance : float
        Cosine of rows up to which they count as orthogonal, in roundings.
    finish : callable
        Is given the rows, and a flag for each matrix that is not 0 where more sweeps
        would turn them. Its results are computed in the submission that reads flags.
    expected : int
        Sweeps after which nothing is likely to turn.
    """
    rows, left = x, x
    for rows, left, done in _rotated(x, length, tolerance, expected):
        if reads_are_refused() or done < expected:
            continue
        found = finish(rows, left)
        flag = largest_flag(found.flags, found.values, *found.parts)
        if flag < UNFINISHED:
            return found, flag
    return finish(rows, left), UNFINISHED


def _tolerance(length: int) -> float:
    """Return the cosine, in roundings, of rows that count as orthogonal.

    Their products are not exacter. What is left between equal values is an error of
    theirs, not its square, as between others.
    """
    return max(3.0, math.sqrt(length) / 4)


def _divided(x: Tensor, size: Tensor) -> Tensor:
    """Return quotients, and zeros as they are."""
    return x / where(eq(size, 0.0), 1.0, size)


def _lengths(rows: Tensor) -> Tensor:
    """Return the lengths (matrices, rows, 1) of rows."""
    return sum(rows * rows, 2, True) ** 0.5


def _unless(left: Tensor, values: Tensor) -> Tensor:
    """Return values, and NaN for matrices that are not finished."""
    return where(reshape(ne(left, 0), (-1, 1, 1)), math.nan, values)


def _sorted(x: Tensor, order: Tensor) -> Tensor:
    """Return the rows of matrices in an order (matrices, rows, 1)."""
    return take_along_dim(x, expand(order, x.layout.shape), 1)


def _singular(
    found: Tensor,
    left: Tensor,
    scales: tuple[Tensor, Tensor],
    long: int,
    vectors: bool,
) -> _Found:
    """Return singular values, descending, and rows and rotations if `vectors`.

    They are multiplied by both scales, whose product may overflow.
    """
    root, largest = scales
    rows = narrow(found, 2, 0, long)
    sizes = _lengths(rows)
    flags = cast(ne(left, 0), int32) * UNFINISHED
    if not vectors:
        order = argsort(sizes, 1, True)
        values = _unless(left, take_along_dim(sizes, order, 1)) * root * largest
        return _Found(flags, values, (), None)
    turns = narrow(found, 2, long, found.layout.shape[2] - long)
    # Rotations are a little longer or shorter than they should be, for both alike.
    turned = _lengths(turns)
    lengths, sizes = sizes, sizes / turned
    order = argsort(sizes, 1, True)
    sizes = take_along_dim(sizes, order, 1)
    # What is smaller changes no singular value by more than rounding does.
    is_null = sizes <= 2.0 * float(np.finfo(found.dtype.numpy).eps)
    lengths, turned = (take_along_dim(each, order, 1) for each in (lengths, turned))
    rows = _sorted(rows, order) / where(is_null, 1.0, lengths)
    # What is no number turned no row.
    turns = where(ne(sizes, sizes), math.nan, _sorted(turns, order) / turned)
    flags = flags + amax(cast(is_null, int32), (1, 2)) * NULL
    values = _unless(left, sizes) * root * largest
    return _Found(flags, values, (where(is_null, 0.0, rows), turns), is_null)


def jacobi_svd(x: Tensor, vectors: bool) -> Tensor | None:
    """Return U of (..., m, n), below it the singular values, and below them V.

    Or None, where the rotations do not end, or rows of length 0 cannot be made unit
    vectors by a kernel. Only the values (..., k), if no `vectors` are wanted. While a
    function is traced, values that are not found are NaN.

    Parameters
    ----------
    x : Tensor, shape (..., m, n)
        Of which `jacobi_by_kernel` is true.
    vectors : bool
    """
    *batch, m, n = x.layout.shape
    flat = reshape(x, (-1, m, n))
    wide = transpose(flat, 1, 2) if m > n else flat
    matrices, short, long = wide.layout.shape
    largest = amax(wide.abs(), _BOTH, True)
    ratio, q = _divided(wide, largest), None
    tall = transpose(ratio, 1, 2)
    if (long >= LONG * short or short >= MANY) and qr_by_kernel(tall):
        q, ratio = panel_qr(tall)
        long = short
    root = sum(ratio * ratio, _BOTH, True) ** 0.5
    given = _divided(ratio, root)
    if vectors:
        ones: Tensor = fill_like(given, (matrices, short), 1, x.dtype)
        given = cat([given, diag_embed(ones)], 2)

    def finish(found: Tensor, left: Tensor) -> _Found:
        return _singular(found, left, (root, largest), long, vectors)

    tolerance, expected = _tolerance(long), expected_sweeps(short)
    found, flag = _swept(given, long, tolerance, finish, expected)
    if flag >= UNFINISHED and not reads_are_refused():
        return None
    values = found.values
    if not vectors:
        return reshape(values, (*batch, short))
    rows, turns = found.parts
    if flag:
        across = transpose(rows, 1, 2)
        if not qr_by_kernel(across):
            return None
        assert found.is_null is not None
        rows = where(found.is_null, transpose(panel_qr(across)[0], 1, 2), rows)
    beside, along = turns, rows
    if q is not None:
        beside, along = rows, _bmm(turns, transpose(q, 1, 2), SIMT)
    pair = (along, beside) if m > n else (beside, along)
    u, v = (transpose(each, 1, 2) for each in pair)
    both = cat([u, transpose(values, 1, 2), v], 1)
    return reshape(both, (*batch, m + 1 + n, short))


def _begun_in_float32(x: Tensor, matrix: Tensor) -> Tensor:
    """Return rows (matrices, n, n) of float64, rotated by sweeps of float32 first.

    Their rotations, which are refined to those of float64, leave little to turn.

    Parameters
    ----------
    x : Tensor, shape (matrices, n, n)
        The matrix with what was added to it.
    matrix : Tensor, shape (matrices, n, n)
    """
    n = x.layout.shape[1]
    expected, found = expected_sweeps(n), cast(x, float32)
    for each, _, done in _rotated(found, n, _tolerance(n), expected):
        found = each
        if done >= expected:
            break
    rows = cast(found / _lengths(found), float64)
    for most in STEPS:
        rows, _ = refined(rows, matrix, most)
    return _bmm(rows, x, SIMT)


def jacobi_eigh(x: Tensor, upper: bool, vectors: bool) -> Tensor | None:
    """Return eigenvectors, as columns, and below them the eigenvalues, ascending.

    Or None, where the rotations do not end. Only the values (..., n), if no `vectors`
    are wanted. While a function is traced, values that are not found are NaN.

    Parameters
    ----------
    x : Tensor, shape (..., n, n)
        Of which `jacobi_by_kernel` is true, and one triangle is read.
    upper : bool
    vectors : bool
    """
    *batch, n, _ = x.layout.shape
    flat = reshape(x, (-1, n, n))
    half = triu(flat, 1) if upper else tril(flat, -1)
    whole = (triu(flat) if upper else tril(flat)) + transpose(half, 1, 2)
    largest = amax(whole.abs(), _BOTH, True)
    ratio = _divided(whole, largest)
    power = _bmm(ratio, ratio, SIMT)
    power = _bmm(power, power, SIMT)
    # The Schatten 8-norm: at most the 8th root of the order above the spectral norm
    bound = sum(power * power, _BOTH, True) ** 0.125
    ratio = _divided(ratio, bound)
    one: Tensor = fill_like(ratio, (flat.layout.shape[0], n), SHIFT, x.dtype)

    def finish(found: Tensor, left: Tensor) -> _Found:
        rows = found / _lengths(found)
        # Rayleigh quotients: what was added is not to be taken from the lengths.
        if vectors:
            rows, values = refined(rows, ratio, STEPS[0])
            rows = orthogonal(rows)
        else:
            values = sum(_bmm(rows, ratio, SIMT) * rows, 2, True)
        order = argsort(values, 1)
        parts = (_sorted(rows, order),) if vectors else ()
        values = _unless(left, take_along_dim(values, order, 1))
        values = values * bound * largest
        return _Found(cast(ne(left, 0), int32) * UNFINISHED, values, parts, None)

    begun, expected = ratio + diag_embed(one), expected_sweeps(n)
    if x.dtype is float64:
        begun, expected = _begun_in_float32(begun, ratio), CHECKS
    found, flag = _swept(begun, n, _tolerance(n), finish, expected)
    if flag >= UNFINISHED and not reads_are_refused():
        return None
    values = found.values
    if not vectors:
        return reshape(values, (*batch, n))
    both = cat([transpose(each, 1, 2) for each in (found.parts[0], values)], 1)
    return reshape(both, (*batch, n + 1, n))
