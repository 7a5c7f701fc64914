"""Fused cross entropy: loss and gradient in one pass over register-resident rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...base.device import GpuDevice
from ...base.dtype import FLOAT, SINGLE, float32, float64
from ...base.shape import TensorSpec
from ...dispatch.declare import composite, primitive
from ...ir.constants import is_one
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.cross_entropy import SITE, grad_dispatch, loss_dispatches
from ...kernels.rowwise import row_tile
from ...kernels.shader_types import statistic_dtype
from ..elementwise.cast import cast
from ..elementwise.compare import ne
from ..indexing.row_index import INDEX
from ..reduce.sum import sum
from ..source import fill_like
from .cross_entropy_gradient import cross_entropy_dlogits, differentiable_vjp
from .nll import check_labels

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


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


@composite(
    dtypes={"logits": FLOAT, "labels": INDEX},
    outputs=("loss", "grad_logits", "greatest", "log_total", "share"),
)
def cross_entropy_with_grad(
    logits: Tensor,
    labels: Tensor,
    ignore_index: int,
    label_smoothing: float,
    mean: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the sum or mean of the row losses, and its gradient by the logits.

    Then what the gradient is made of: maxima and log-sum-exps of rows, and the scalar
    by which it is multiplied.
    """
    statistic = statistic_dtype(logits.dtype)
    if mean:
        count = sum(cast(ne(labels, ignore_index), statistic))
        share = 1.0 / count
    else:
        share = fill_like(logits, (), 1, statistic)
    losses, greatest, log_total, _, grad_logits = _cross_entropy_rows_with_grad(
        logits, labels, share, ignore_index, label_smoothing
    )
    loss = sum(losses)
    loss = loss / count if mean else loss
    return loss, grad_logits, greatest, log_total, share


@cross_entropy_with_grad.vjp
def cross_entropy_with_grad_vjp(
    grad: Tensor,
    logits: Tensor,
    labels: Tensor,
    grad_logits: Tensor,
    greatest: Tensor,
    log_total: Tensor,
    share: Tensor,
    ignore_index: int,
    label_smoothing: float,
    mean: bool,
) -> tuple[Tensor, None]:
    options = ignore_index, label_smoothing
    if is_grad_enabled():
        if mean:
            grad = grad / sum(cast(ne(labels, ignore_index), grad.dtype))
        return (
            differentiable_vjp(
                grad.expand(labels.layout.shape), logits, labels, *options
            ),
            None,
        )
    if is_one(grad.array.value):
        # Changes of the result in place must not reach what is saved.
        return grad_logits.alias(), None
    if grad_logits.array.value.node is not None and _has_16_bits(logits):
        # Multiplied before it is rounded, and by one kernel: the plan drops the other
        # gradient, which nothing reads.
        scale = grad.to(share.dtype) * share
        return (
            cross_entropy_dlogits(logits, labels, greatest, log_total, scale, *options),
            None,
        )
    return grad_logits * grad.to(grad_logits.dtype), None


def _has_16_bits(logits: Tensor) -> bool:
    """Return whether logits have 16 bits, or are lazily converted from such ones."""
    value = logits.array.value
    node = value.node
    if node is not None and node.op is cast:
        value = node.values[0]
    return value.dtype.itemsize == 2
