"""Products of groups of rows with a matrix each."""

from __future__ import annotations

from ... import ops
from ...base.dtype import DType
from ...base.errors import ShapeError
from ...tensor.tensor import Tensor


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a matrix product for each group of rows or columns.

    Parameters
    ----------
    mat_a : Tensor, shape (m, k) or (groups, m, k)
    mat_b : Tensor, shape (k, n) or (groups, k, n)
    offs : Tensor of integers, shape (groups,), optional
        Ends of the groups in the dimension that a matrix divides: the rows of `mat_a`,
        the columns of `mat_b`, or of two matrices the inner dimension. Needed where
        there is a matrix; its values are read.
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
        or the numbers of groups differ.
    """
    kinds = (mat_a.ndim, mat_b.ndim)
    if not {*kinds} <= {2, 3} or (offs is None) != (kinds == (3, 3)):
        raise ShapeError(
            f"grouped_mm: mat_a is {tuple(mat_a.shape)}, mat_b {tuple(mat_b.shape)} and"
            f" offs {'missing' if offs is None else 'given'}; it must be given where an"
            " operand is a matrix, and only there"
        )
    if offs is None:
        out = ops.matmul(mat_a, mat_b)
    else:
        out = _divided(mat_a, mat_b, [int(end) for end in offs.tolist()])
    if bias is not None:
        out = out + bias
    return out if out_dtype is None else out.to(out_dtype)


def _divided(mat_a: Tensor, mat_b: Tensor, ends: list[int]) -> Tensor:
    for name, each in (("mat_a", mat_a), ("mat_b", mat_b)):
        if each.ndim == 3 and each.shape[0] != len(ends):
            raise ShapeError(
                f"grouped_mm: {name} has {each.shape[0]} groups, offs {len(ends)}; they"
                " must be as many"
            )
    size = mat_a.shape[0] if mat_b.ndim == 3 else mat_b.shape[-1]
    if mat_a.ndim == mat_b.ndim:
        size = mat_a.shape[1]
    starts = [0, *ends[:-1]]
    if any(not 0 <= a <= b <= size for a, b in zip(starts, ends, strict=True)):
        raise ShapeError(
            f"grouped_mm: offs is {ends}; the ends must rise, up to {size}"
        )
    spans = [slice(a, b) for a, b in zip(starts, ends, strict=True)]
    if mat_a.ndim == mat_b.ndim:
        return ops.stack([ops.matmul(mat_a[:, span], mat_b[span]) for span in spans], 0)
    rest = size - ends[-1] if ends else size
    if mat_b.ndim == 3:
        parts = [ops.matmul(mat_a[span], mat_b[g]) for g, span in enumerate(spans)]
        left = mat_a.new_zeros((rest, mat_b.shape[2]))
        return ops.cat([*parts, left], 0)
    parts = [ops.matmul(mat_a[g], mat_b[:, span]) for g, span in enumerate(spans)]
    left = mat_a.new_zeros((mat_a.shape[1], rest))
    return ops.cat([*parts, left], 1)
