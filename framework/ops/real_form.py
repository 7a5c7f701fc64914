"""Complex matrices as real ones of twice as many rows and columns.

Each number a + bi is the block [[a, -b], [b, a]], and products and inverses of such
matrices are those of the complex ones. Kernels factorise real matrices alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.dtype import complex64
from .elementwise.binary import add, floor_divide
from .elementwise.complex_numbers import _complex_of, _imaginary_part, _real_part
from .movement.concat import stack
from .movement.slice import select
from .view import reshape

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


def has_real_form(x: Tensor) -> bool:
    """Return whether a device has no kernels for such numbers, but for their parts."""
    return x.dtype is complex64 and x.is_gpu


def real_matrix(x: Tensor) -> Tensor:
    """Return the real form (..., 2 m, 2 n) of complex matrices (..., m, n)."""
    *batch, rows, columns = x.layout.shape
    a, b = _real_part(x), _imaginary_part(x)
    both = stack([stack([a, b * -1.0], -1), stack([b, a], -1)], -3)
    return reshape(both, (*batch, 2 * rows, 2 * columns))


def real_columns(x: Tensor) -> Tensor:
    """Return every second column of `real_matrix`, from the first on.

    The others tell nothing more: a product with these gives these of its result.
    """
    *batch, rows, columns = x.layout.shape
    both = stack([_real_part(x), _imaginary_part(x)], -2)
    return reshape(both, (*batch, 2 * rows, columns))


def complex_columns(x: Tensor) -> Tensor:
    """Return the complex matrices of which `x` is what `real_columns` returns."""
    *batch, rows, columns = x.layout.shape
    both = reshape(x, (*batch, rows // 2, 2, columns))
    return _complex_of(select(both, -2, 0), select(both, -2, 1))


def complex_pivots(info: Tensor) -> Tensor:
    """Return which pivot is the first that is 0, from 1 on, by that of a real form.

    The two columns of a real form depend on those before them together.
    """
    return floor_divide(add(info, 1), 2)
