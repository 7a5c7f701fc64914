"""Embedding lookup."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, INTEGER, int32
from ...base.errors import DTypeError, ShapeError
from ...base.shape import TensorSpec
from ...dispatch.declare import composite, primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.linear import linear_dispatch
from ..elementwise.compare import eq, where
from ..source import fill_like
from ..view import flatten, reshape, unsqueeze
from .gather import INDEX, index_constants, readable_index, segment_sum, take_rows

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=INDEX)
def _row_indices(index: Tensor, rows: int) -> Tensor:
    """Return int32 row indices; `gather.NO_ROW` where out of range or negative."""


@_row_indices.spec
def _row_indices_spec(index: TensorSpec, rows: int) -> TensorSpec:
    return TensorSpec(index.shape, int32)


@_row_indices.kernel
def _row_indices_kernel(gpu: DeviceInfo, index: StridedSpec, rows: int) -> Dispatch:
    push: dict[str, int | str] = {"indices": "index", "out_": "out"}
    push |= {"count": index.numel, "entries": index.numel, "inner": 1, "rows": rows}
    # Read as unsigned, negative numbers do not count from the end.
    constants = index_constants(index) | {"INDEX_SIGNED": 0}
    return linear_dispatch("index/flat_offset", index.numel, push, constants)


@_row_indices.reference
def _row_indices_reference(index: np.ndarray, rows: int) -> np.ndarray:
    bad = (index < 0) | (index >= rows)
    if bad.any():
        raise ShapeError(
            f"embedding: index {index[bad].flat[0]} is out of range: weight has {rows}"
            " rows"
        )
    return index


@composite(dtypes={"weight": FLOAT, "places": (int32,)})
def _embedding(weight: Tensor, places: Tensor, padding: int) -> Tensor:
    """Return rows by index; row `padding` gets no gradient."""
    return reshape(
        take_rows(unsqueeze(weight, 0), places), (*places.shape, *weight.shape[1:])
    )


@_embedding.vjp
def _embedding_vjp(
    grad: Tensor, places: Tensor, weight_spec: TensorSpec, padding: int
) -> tuple[Tensor, None]:
    if grad.numel() == 0:
        return fill_like(grad, weight_spec.shape, 0, weight_spec.dtype), None
    if padding >= 0:
        grad = where(unsqueeze(eq(places, padding), 1), 0.0, grad)
    rows = weight_spec.shape[0]
    return reshape(
        segment_sum(places, unsqueeze(grad, 0), rows), weight_spec.shape
    ), None


def embedding(index: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Return rows of a table by number.

    Parameters
    ----------
    index : Tensor, any integer dtype
        Numbers of rows, from 0.
    weight : Tensor, shape (rows, size), float
        The table.
    padding_idx : int or None
        A row that gets no gradient; negative counts from the end.

    Returns
    -------
    Tensor, shape (*index.shape, size)
        Of the dtype of `weight`. On a device a number that is no row gives NaN and
        contributes no gradient; numbers are not read back to be checked.

    Raises
    ------
    ShapeError
        If `weight` is not 2-D, there is no row `padding_idx` or, on the host, of a
        number of `index`.
    DTypeError
        If `index` is not of an integer dtype.

    Notes
    -----
    For the gradient, numbers are sorted and what belongs to one row is added in order,
    so it is the same in each run.
    """
    if weight.ndim != 2:
        raise ShapeError(f"embedding: weight is {tuple(weight.shape)}; it must be 2-D")
    if index.dtype not in INTEGER:
        raise DTypeError(
            f"embedding: index is {index.dtype.name}; it must be an integer dtype"
        )
    rows = weight.shape[0]
    padding = -1 if padding_idx is None else padding_idx % max(1, rows)
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise ShapeError(
            f"embedding: padding_idx is {padding_idx}; it must be from {-rows} to"
            f" {rows - 1}"
        )
    flat = flatten(readable_index("embedding", index))
    out = _embedding(weight, _row_indices(flat, rows), padding)
    return reshape(out, (*index.shape, weight.shape[1]))
