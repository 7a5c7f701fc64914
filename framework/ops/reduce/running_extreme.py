"""Running extremes along a dimension, and where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import shown_as
from ...base.dtype import ANY, DType
from ...base.index_checks import UNCHECKED
from ...base.shape import TensorSpec, normalize_dim
from ...dispatch.declare import primitive
from ...dispatch.replayable import replayable
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.scan import scan_dispatches
from ..elementwise.unary import lazy_copy
from ..indexing.gather import rows_of, segment_sum
from ..source import fill_like
from ..view import reshape
from .common import as_dtype_of, as_places, in_storage, place_dtype, stored_places
from .minmax import ValuesIndices

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=ANY, outputs=("values", "indices"), typed="x")
def _running_extreme(x: Tensor, least: bool, places: DType) -> tuple[Tensor, Tensor]:
    """Return the extreme up to each of (outer, count, inner), and where it is."""


@_running_extreme.spec
def _running_extreme_spec(
    x: TensorSpec, least: bool, places: DType
) -> tuple[TensorSpec, TensorSpec]:
    return x, TensorSpec(x.shape, places)


@_running_extreme.kernel
def _running_extreme_kernel(
    gpu: DeviceInfo, x: StridedSpec, least: bool, places: DType
) -> list[Dispatch]:
    results = {"out_": "values", "places": "indices"}
    operation = "min" if least else "max"
    return scan_dispatches(gpu, x, operation, results=results, places=places)


@_running_extreme.vjp
def _running_extreme_vjp(grad: Tensor, indices: Tensor, x_spec: TensorSpec) -> Tensor:
    return segment_sum(indices, grad, x_spec.shape[1], UNCHECKED, False)


@_running_extreme.reference
def _running_extreme_reference(
    x: np.ndarray, least: bool, places: DType
) -> tuple[np.ndarray, np.ndarray]:
    extreme, later = (
        (np.minimum, np.less_equal) if least else (np.maximum, np.greater_equal)
    )
    values = extreme.accumulate(x, axis=1)
    before = values[:, :-1]
    with np.errstate(invalid="ignore"):
        takes = later(x[:, 1:], before)
    takes |= x[:, 1:] != x[:, 1:]
    numbers = np.arange(1, x.shape[1]).reshape(1, -1, 1)
    indices = np.zeros(x.shape, places.numpy)
    indices[:, 1:] = np.where(takes, numbers, 0)
    return values, np.maximum.accumulate(indices, axis=1)


def _running(x: Tensor, name: str, dim: int, least: bool) -> ValuesIndices:
    at = normalize_dim(name, dim, len(x.layout.shape) or 1)
    if not x.layout.shape or not x.numel():
        where = fill_like(x, x.layout.shape, 0, place_dtype(x))
        return ValuesIndices(lazy_copy(x), where)
    rows = in_storage(rows_of(x, at))
    values, indices = _running_extreme(rows, least, stored_places(x))
    values = as_dtype_of(reshape(values, x.layout.shape), x.dtype)
    return ValuesIndices(values, as_places(reshape(indices, x.layout.shape)))


@shown_as("CummaxBackward0", "input")
@replayable
def cummax(input: Tensor, dim: int) -> ValuesIndices:
    """Return the largest element up to each along a dimension, and where it is.

    Parameters
    ----------
    input : Tensor
    dim : int

    Returns
    -------
    ValuesIndices, shape of `input`
        (values, indices): of equal ones the last; NaN is above every number. Indices
        are as `sort` gives them.
    """
    return _running(input, "cummax", dim, least=False)


@shown_as("CumminBackward0", "input")
@replayable
def cummin(input: Tensor, dim: int) -> ValuesIndices:
    """Return the smallest element up to each along a dimension, and where it is.

    Parameters
    ----------
    input : Tensor
    dim : int

    Returns
    -------
    ValuesIndices, shape of `input`
        (values, indices): of equal ones the last; NaN is below every number. Indices
        are as `sort` gives them.
    """
    return _running(input, "cummin", dim, least=True)
