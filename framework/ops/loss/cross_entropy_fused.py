"""Fused cross entropy: loss and gradient in one pass over register-resident rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...base.device import GpuDevice
from ...base.dtype import FLOAT, SINGLE, float32, float64, int32
from ...base.index_checks import UNCHECKED
from ...base.shape import TensorSpec
from ...dispatch.declare import composite, primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.cross_entropy import SITE, grad_dispatch, loss_dispatches
from ...kernels.rowwise import row_tile
from ...kernels.shader_types import statistic_dtype
from ..elementwise.cast import cast
from ..elementwise.compare import eq, ne, where
from ..indexing.row_index import INDEX
from ..norm.softmax import softmax
from ..reduce.sum import sum
from ..source import arange_like, fill_like
from ..view import unsqueeze
from .nll import IGNORED, check_labels, class_indices

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


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


def is_grad_fused(logits: Tensor, labels: Tensor) -> bool:
    """Return whether forward also computes the gradient.

    It does if the logits require one and their rows fit in registers.
    """
    device = logits.device
    if not isinstance(device, GpuDevice) or labels.dtype not in INDEX:
        return False
    if len(logits.layout.shape) < 2 or logits.numel() == 0:
        return False
    if logits.dtype is float64:
        return False
    needs_grad = is_grad_enabled() and logits.needs_grad
    return (
        needs_grad
        and row_tile(device.gpu.info, logits.dtype, logits.layout.shape[1]) is not None
    )


@primitive(
    dtypes={"logits": FLOAT, "labels": INDEX, "share": (float32, float64)},
    device_dtypes={"logits": SINGLE},
    outputs=("losses", "greatest", "log_total", "counts", "out"),
    typed="logits",
)
def _cross_entropy_rows_with_grad(
    logits: Tensor,
    labels: Tensor,
    share: Tensor,
    ignore_index: int,
    label_smoothing: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return `_cross_entropy_rows`, and dlogits scaled by `share`."""


@_cross_entropy_rows_with_grad.spec
def _cross_entropy_rows_with_grad_spec(
    logits: TensorSpec, **_: object
) -> tuple[TensorSpec, TensorSpec, TensorSpec, TensorSpec, TensorSpec]:
    rows = TensorSpec(logits.shape[:1], statistic_dtype(logits.dtype))
    return rows, rows, rows, rows, logits


@_cross_entropy_rows_with_grad.kernel
def _cross_entropy_rows_with_grad_kernel(
    gpu: DeviceInfo,
    logits: StridedSpec,
    labels: StridedSpec,
    share: StridedSpec,
    ignore_index: int,
    label_smoothing: float,
) -> list[Dispatch]:
    options = ignore_index, label_smoothing
    first, *others = loss_dispatches(gpu, logits, labels, options)
    if first.kernel != "loss/cross_entropy_registers":
        grad = grad_dispatch(logits, labels, "share", options, shared=True)
        return [first, *others, grad]
    push = {**first.push, "share": "share", "out_": "out"}
    return [replace(first, push=push, constants={**first.constants, "GRAD": 1})]


@_cross_entropy_rows_with_grad.reference
def _cross_entropy_rows_with_grad_reference(
    logits: np.ndarray,
    labels: np.ndarray,
    share: np.ndarray,
    ignore_index: int,
    label_smoothing: float,
) -> tuple[np.ndarray, ...]:
    counted = check_labels(labels, logits.shape[1], ignore_index, SITE)
    label_positions = np.arange(len(labels)), np.where(counted, labels, 0)
    target = np.full_like(logits, label_smoothing / logits.shape[1])
    target[label_positions] += 1 - label_smoothing
    greatest = logits.max(axis=1)
    shifted = logits - greatest[:, None]
    log_total = np.log(np.exp(shifted).sum(axis=1))
    losses = log_total - (target * shifted).sum(axis=1)
    dlogits = np.exp(shifted - log_total[:, None]) - target
    grad = np.where(counted[:, None], dlogits * share, 0)
    return np.where(counted, losses, 0), greatest, log_total, counted, grad


@composite(dtypes={"logits": FLOAT, "labels": INDEX}, outputs=("loss", "grad_logits"))
def cross_entropy_with_grad(
    logits: Tensor,
    labels: Tensor,
    ignore_index: int,
    label_smoothing: float,
    mean: bool,
) -> tuple[Tensor, Tensor]:
    """Return the sum or mean of the row losses, and its gradient by the logits."""
    statistic = statistic_dtype(logits.dtype)
    if mean:
        count = sum(cast(ne(labels, ignore_index), statistic))
        share = 1.0 / count
    else:
        share = fill_like(logits, (), 1, statistic)
    losses, _, _, _, grad_logits = _cross_entropy_rows_with_grad(
        logits, labels, share, ignore_index, label_smoothing
    )
    loss = sum(losses)
    return (loss / count if mean else loss), grad_logits


@cross_entropy_with_grad.vjp
def cross_entropy_with_grad_vjp(
    grad: Tensor,
    logits: Tensor,
    labels: Tensor,
    grad_logits: Tensor,
    ignore_index: int,
    label_smoothing: float,
    mean: bool,
) -> tuple[Tensor, None]:
    if is_grad_enabled():
        if mean:
            grad = grad / sum(cast(ne(labels, ignore_index), grad.dtype))
        return (
            differentiable_vjp(
                grad.expand(labels.layout.shape),
                logits,
                labels,
                ignore_index,
                label_smoothing,
            ),
            None,
        )
    if _is_one(grad):
        # Changes of the result in place must not reach what is saved.
        return grad_logits.alias(), None
    return grad_logits * grad.to(grad_logits.dtype), None


def _is_one(x: Tensor) -> bool:
    """Return whether a lazy tensor is the constant 1, the seed of `backward`."""
    node = x.array.value.node
    return (
        node is not None
        and node.op is fill_like
        and dict(node.scalars).get("value") == 1
    )
