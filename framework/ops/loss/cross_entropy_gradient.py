"""Gradient of cross entropy by logits: by one kernel, and by differentiable ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, SINGLE, float32, float64, int32
from ...base.index_checks import UNCHECKED
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.cross_entropy import grad_dispatch
from ..elementwise.compare import eq, where
from ..indexing.row_index import INDEX
from ..norm.softmax import softmax
from ..source import arange_like
from ..view import unsqueeze
from .nll import IGNORED, class_indices

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

STATISTIC = (float32, float64)
"""Dtypes of what is kept of rows."""


@primitive(
    dtypes={
        "logits": FLOAT,
        "labels": INDEX,
        "greatest": STATISTIC,
        "log_total": STATISTIC,
        "grad_rows": STATISTIC,
    },
    device_dtypes={"logits": SINGLE},
    typed="logits",
)
def cross_entropy_dlogits(
    logits: Tensor,
    labels: Tensor,
    greatest: Tensor,
    log_total: Tensor,
    grad_rows: Tensor,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    """Return dlogits, (softmax - target) * grad per row; 0 in ignored rows.

    `grad_rows` is one number for each row, or a scalar for all.
    """


@cross_entropy_dlogits.spec
def cross_entropy_dlogits_spec(logits: TensorSpec, **_: object) -> TensorSpec:
    return logits


@cross_entropy_dlogits.kernel
def cross_entropy_dlogits_kernel(
    gpu: DeviceInfo,
    logits: StridedSpec,
    labels: StridedSpec,
    greatest: StridedSpec,
    log_total: StridedSpec,
    grad_rows: StridedSpec,
    ignore_index: int,
    label_smoothing: float,
) -> Dispatch:
    options = ignore_index, label_smoothing
    shared = not grad_rows.shape
    return grad_dispatch(logits, labels, "grad_rows", options, shared)


@cross_entropy_dlogits.reference
def cross_entropy_dlogits_reference(
    logits: np.ndarray,
    labels: np.ndarray,
    greatest: np.ndarray,
    log_total: np.ndarray,
    grad_rows: np.ndarray,
    ignore_index: int,
    label_smoothing: float,
) -> np.ndarray:
    rows, columns = logits.shape
    counted = labels != ignore_index
    target = np.full((rows, columns), label_smoothing / columns, logits.dtype)
    target[np.arange(rows), np.where(counted, labels, 0)] += 1 - label_smoothing
    softmax = np.exp(logits - greatest[:, None] - log_total[:, None])
    return np.where(counted[:, None], (softmax - target) * grad_rows.reshape(-1, 1), 0)


def differentiable_vjp(
    grad: Tensor,
    logits: Tensor,
    labels: Tensor,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    """Return the gradient by differentiable ops, for double backward."""
    columns = logits.layout.shape[1]
    numbers = unsqueeze(class_indices(labels, columns, ignore_index, UNCHECKED), 1)
    is_label = eq(arange_like(logits, (columns,), 0, 1, int32), numbers)
    even = label_smoothing / columns
    target = is_label.to(logits.dtype) * (1.0 - label_smoothing) + even
    dlogits = softmax(logits, 1) - target
    ignored = eq(numbers, IGNORED)
    # The mean of no rows has an infinite gradient, which times 0 is NaN.
    counted = where(ignored, 0.0, unsqueeze(grad, 1))
    return where(ignored, 0.0, dlogits * counted)
