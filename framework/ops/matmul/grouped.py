"""Grouped products: one matrix for each group of rows, chosen on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import bfloat16, float16, float32, float64, int32
from ...base.errors import DTypeError, ShapeError
from ...base.index_checks import out_of_range
from ...base.shape import TensorSpec
from ...dispatch.autocast_policy import autocast_low_precision
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.gemm.grouped import (
    NUMBER_SITE,
    ROW_SITE,
    gathered_dispatches,
    grouped_depth_dispatches,
    grouped_rows_dispatches,
)
from ...kernels.shader_types import check_same_dtype
from ...kernels.tensor_cores import product_mode
from ..elementwise.cast import cast
from ..view import transpose
from .matmul import bmm

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

FLOATS = (float32, float16, bfloat16, float64)
"""Dtypes of the operands."""


@primitive(dtypes={"a": FLOATS, "b": FLOATS, "offs": (int32,)}, strided=True, typed="a")
def _grouped_rows(a: Tensor, b: Tensor, offs: Tensor, mode: str) -> Tensor:
    """Return the product of each group of rows of `a` with its matrix of `b`."""


@_grouped_rows.spec
def grouped_rows_spec(a: TensorSpec, b: TensorSpec, **_: object) -> TensorSpec:
    return TensorSpec((a.shape[0], b.shape[2]), a.dtype)


@_grouped_rows.kernel
def grouped_rows_kernel(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, offs: StridedSpec, mode: str
) -> list[Dispatch]:
    return grouped_rows_dispatches(gpu, a, b, mode)


@_grouped_rows.vjp
def grouped_rows_vjp(
    grad: Tensor, a: Tensor, b: Tensor, offs: Tensor, needs: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, None]:
    return (
        _by_rows(grad, transpose(b, 1, 2), offs) if needs[0] else None,
        _by_depth(transpose(a, 0, 1), grad, offs) if needs[1] else None,
        None,
    )


@_grouped_rows.reference
def grouped_rows_reference(
    a: np.ndarray, b: np.ndarray, offs: np.ndarray, mode: str
) -> np.ndarray:
    out = np.zeros((a.shape[0], b.shape[2]), a.dtype)
    for matrix, (start, end) in zip(b, _spans(offs, a.shape[0]), strict=True):
        out[start:end] = np.matmul(a[start:end], matrix)
    return out


@primitive(dtypes={"a": FLOATS, "b": FLOATS, "offs": (int32,)}, strided=True, typed="a")
def _grouped_depth(a: Tensor, b: Tensor, offs: Tensor, mode: str) -> Tensor:
    """Return the product over each group of columns of `a` and rows of `b`."""


@_grouped_depth.spec
def grouped_depth_spec(
    a: TensorSpec, b: TensorSpec, offs: TensorSpec, mode: str
) -> TensorSpec:
    return TensorSpec((offs.shape[0], a.shape[0], b.shape[1]), a.dtype)


@_grouped_depth.kernel
def grouped_depth_kernel(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, offs: StridedSpec, mode: str
) -> list[Dispatch]:
    return grouped_depth_dispatches(gpu, a, b, offs.shape[0], mode)


@_grouped_depth.vjp
def grouped_depth_vjp(
    grad: Tensor, a: Tensor, b: Tensor, offs: Tensor, needs: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, None]:
    grad_a = None
    if needs[0]:
        grad_a = transpose(_by_rows(b, transpose(grad, 1, 2), offs), 0, 1)
    grad_b = _by_rows(transpose(a, 0, 1), grad, offs) if needs[1] else None
    return grad_a, grad_b, None


@_grouped_depth.reference
def grouped_depth_reference(
    a: np.ndarray, b: np.ndarray, offs: np.ndarray, mode: str
) -> np.ndarray:
    out = np.zeros((len(offs), a.shape[0], b.shape[1]), a.dtype)
    for matrix, (start, end) in zip(out, _spans(offs, a.shape[1]), strict=True):
        matrix[:] = np.matmul(a[:, start:end], b[start:end])
    return out


def _spans(offs: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Return where groups start and end; raise `IndexRangeError` if they fall."""
    ends = offs.tolist()
    spans = list(zip([0, *ends[:-1]], ends))
    for start, end in spans:
        if not start <= end <= size:
            raise out_of_range(ROW_SITE, end, size)
    return spans


@autocast_low_precision
def grouped_mm(a: Tensor, b: Tensor, offs: Tensor | None = None) -> Tensor:
    """Return a matrix product for each group of rows or columns.

    Parameters
    ----------
    a : Tensor, shape (m, k) or (groups, m, k), float
    b : Tensor, shape (k, n) or (groups, k, n), same dtype
        Transposed operands are read in place.
    offs : Tensor, any integer dtype, shape (groups,), or None
        Ends of the groups in the dimension that a matrix divides: the rows of `a`, the
        columns of `b`, or of two matrices the inner dimension. Needed where there is a
        matrix. The host does not read them.

    Returns
    -------
    Tensor
        Of shape (m, n) for a matrix and a batch; (groups, m, n) for two matrices or
        two batches. Rows or columns beyond the last group are 0. Accumulated in
        float32 or wider.

    Raises
    ------
    ShapeError
        If `offs` is missing or too many, an operand has another number of dimensions,
        or sizes do not fit.
    DTypeError
        If dtypes differ or are no floats, or `offs` is not of integers.
    IndexRangeError
        If offsets fall, or exceed what they divide: on the host at once, on a device
        by the next read.
    """
    kinds = (len(a.layout.shape), len(b.layout.shape))
    if not {*kinds} <= {2, 3} or (offs is None) != (kinds == (3, 3)):
        raise ShapeError(
            f"grouped_mm: mat_a is {tuple(a.shape)}, mat_b {tuple(b.shape)} and offs"
            f" {'missing' if offs is None else 'given'}; it must be given where an"
            " operand is a matrix, and only there"
        )
    check_same_dtype("grouped_mm", mat_a=a.spec, mat_b=b.spec)
    if a.layout.shape[-1] != b.layout.shape[-2]:
        raise ShapeError(
            f"grouped_mm: inner sizes differ: mat_a is {tuple(a.shape)}, mat_b"
            f" {tuple(b.shape)}; {a.layout.shape[-1]} must equal {b.layout.shape[-2]}"
        )
    if offs is None:
        return bmm(a, b)
    if a.dtype not in FLOATS:
        accepted = ", ".join(each.name for each in FLOATS)
        raise DTypeError(f"grouped_mm: mat_a is {a.dtype.name}; accepted: {accepted}")
    ends = _checked_offsets(a, b, offs)
    if kinds == (2, 2):
        return _by_depth(a, b, ends)
    if kinds == (2, 3):
        return _by_rows(a, b, ends)
    out = _by_rows(transpose(b, 0, 1), transpose(a, 1, 2), ends)
    return transpose(out, 0, 1)


def _by_rows(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    return _grouped_rows(a, b, offs, product_mode(a.device, a.dtype))


def _by_depth(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    return _grouped_depth(a, b, offs, product_mode(a.device, a.dtype))


def _checked_offsets(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    """Return the ends as int32, for as many groups as there are matrices."""
    if offs.dtype.kind not in ("int", "uint"):
        raise DTypeError(
            f"grouped_mm: offs is {offs.dtype.name}; it must be of an integer dtype"
        )
    if len(offs.layout.shape) != 1:
        raise ShapeError(
            f"grouped_mm: offs is {tuple(offs.shape)}; it must be (groups,)"
        )
    count = offs.layout.shape[0]
    for name, each in (("mat_a", a), ("mat_b", b)):
        if len(each.layout.shape) == 3 and each.layout.shape[0] != count:
            raise ShapeError(
                f"grouped_mm: {name} has {each.layout.shape[0]} groups, offs {count};"
                " they must be as many"
            )
    return cast(offs, int32).contiguous()


@primitive(
    dtypes={"a": FLOATS, "b": FLOATS, "numbers": (int32,)}, strided=True, typed="a"
)
def _gather_mm(a: Tensor, b: Tensor, numbers: Tensor) -> Tensor:
    """Return the product of rows with matrices by their numbers."""


@_gather_mm.spec
def gather_mm_spec(a: TensorSpec, b: TensorSpec, numbers: TensorSpec) -> TensorSpec:
    return TensorSpec((numbers.shape[0], b.shape[2]), a.dtype)


@_gather_mm.kernel
def gather_mm_kernel(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, numbers: StridedSpec
) -> list[Dispatch]:
    return gathered_dispatches(gpu, a, b, numbers)


@_gather_mm.reference
def gather_mm_reference(
    a: np.ndarray, b: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    check_numbers(numbers, len(b))
    rows = np.repeat(a, len(numbers) // max(1, len(a)), 0)
    return np.matmul(rows[:, None], b[numbers])[:, 0]


def check_numbers(numbers: np.ndarray, count: int) -> None:
    """Raise `IndexRangeError` if there is no matrix of a number."""
    wrong = numbers[(numbers < 0) | (numbers >= count)]
    if wrong.size:
        raise out_of_range(NUMBER_SITE, int(wrong[0]), count)


def gather_mm(a: Tensor, b: Tensor, numbers: Tensor) -> Tensor:
    """Return the product of each row with a matrix of its own; of few rows.

    Parameters
    ----------
    a : Tensor, shape (rows, k), float
    b : Tensor, shape (matrices, k, n), same dtype
        Of the matrices only those are read that are named.
    numbers : Tensor, int32, shape (count,)
        Which matrix, from 0. There is a multiple of `rows`: each row is multiplied with
        as many matrices, one after the other. The host does not read them.

    Returns
    -------
    Tensor, shape (count, n)
        Without a gradient, which `grouped_mm` has. Accumulated in float32 or wider.

    Raises
    ------
    ShapeError
        If sizes do not fit.
    IndexRangeError
        If there is no matrix of a number: on the host at once, on a device by the next
        read.

    Notes
    -----
    `gather_mm` of MLX, `mul_mat_id` of llama.cpp.
    """
    check_same_dtype("gather_mm", a=a.spec, b=b.spec)
    check_gathered("gather_mm", a, tuple(b.layout.shape), numbers)
    return _gather_mm(a, b, numbers.contiguous())


def check_gathered(
    name: str, a: Tensor, matrices: tuple[int, ...], numbers: Tensor
) -> None:
    """Refuse rows (rows, k), matrices (count, k, n) and numbers that do not fit."""
    rows, count = tuple(a.layout.shape), tuple(numbers.layout.shape)
    fits = len(rows) == 2 and len(matrices) == 3 and len(count) == 1
    if not fits or rows[1] != matrices[1] or count[0] % max(1, rows[0]):
        raise ShapeError(
            f"{name}: rows are {rows}, matrices {matrices}, numbers {count}; they must"
            " be (rows, k), (matrices, k, n) and a multiple of the rows"
        )
    if count[0] and not matrices[0]:
        raise ShapeError(f"{name}: there are no matrices for {count[0]} numbers")
