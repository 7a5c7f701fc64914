"""Products of groups of rows with a matrix each."""

from __future__ import annotations

from ... import ops
from ...base.dtype import DType
from ...tensor.tensor import Tensor


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a matrix product for each group of rows or columns, in one kernel.

    Parameters
    ----------
    mat_a : Tensor, shape (m, k) or (groups, m, k), float
    mat_b : Tensor, shape (k, n) or (groups, k, n), same dtype
    offs : Tensor of integers, shape (groups,), optional
        Ends of the groups in the dimension that a matrix divides: the rows of `mat_a`,
        the columns of `mat_b`, or of two matrices the inner dimension. Needed where
        there is a matrix. The host does not read them.
    bias : Tensor, optional
        Added to the results.
    out_dtype : DType, optional
        Of the result; by default that of the operands.

    Returns
    -------
    Tensor
        Of shape (m, n) for a matrix and a batch; (groups, m, n) for two matrices or
        two batches. Rows or columns beyond the last group are 0.

    Raises
    ------
    ShapeError
        If `offs` is missing or too many, an operand has another number of dimensions,
        or sizes do not fit.
    DTypeError
        If dtypes differ, or `offs` is not of integers.
    IndexRangeError
        If offsets fall, or exceed what they divide: on the host at once, on a device
        by the next read.
    """
    out = ops.grouped_mm(mat_a, mat_b, offs)
    if bias is not None:
        out = out + bias
    return out if out_dtype is None else out.to(out_dtype)
