"""Losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..dispatch import Dispatch, Placed, divisor, linear_grid
from ..dtype import FLOAT, INTEGER, float32, int32, int64
from ..errors import ShapeError
from ..primitive import primitive
from ..shape import TensorSpec
from .movement import permute, reshape
from .reduce import sum
from .reducing import SOFTWARE_WORKGROUP, WORKGROUP

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor import Tensor

_DTYPES = {"logits": FLOAT, "labels": INTEGER}
_DEVICE_DTYPES = {"logits": (float32,), "labels": (int32, int64)}


@primitive(
    dtypes=_DTYPES,
    device_dtypes=_DEVICE_DTYPES,
    outputs=("losses", "logsumexp", "counts"),
)
def _cross_entropy_rows(
    logits: Tensor, labels: Tensor, ignore_index: int, label_smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return of each row the loss, the log of its sum of exponentials, and 0 or 1.

    The last says whether the row counts, which it does unless it is ignored.
    """


@_cross_entropy_rows.spec
def _cross_entropy_rows_spec(
    logits: TensorSpec, labels: TensorSpec, ignore_index: int, label_smoothing: float
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    rows = TensorSpec(logits.shape[:1], logits.dtype)
    return rows, rows, rows


@_cross_entropy_rows.kernel
def _cross_entropy_rows_kernel(
    gpu: DeviceInfo,
    logits: Placed,
    labels: Placed,
    ignore_index: int,
    label_smoothing: float,
) -> Dispatch:
    rows, columns = logits.shape
    size = SOFTWARE_WORKGROUP if gpu.kind == "software" else WORKGROUP
    group = min(1 << max(0, (columns // 8).bit_length() - 1), size)
    push: dict[str, int | float | str] = {"logits": "logits", "labels": "labels"}
    push |= {"loss": "losses", "logsumexp": "logsumexp", "counts": "counts"}
    push |= {"rows": rows, "columns": columns, "ignore_index": ignore_index}
    push["label_smoothing"] = label_smoothing
    constants = {
        "LOCAL_X": size, "GROUP": group, "LABEL_WORDS": labels.dtype.itemsize // 4
    }  # fmt: skip
    grid = linear_grid(rows * group, size)
    return Dispatch("loss/cross_entropy", grid, push, constants)


@_cross_entropy_rows.vjp
def _cross_entropy_rows_vjp(
    grad: Tensor,
    logits: Tensor,
    labels: Tensor,
    logsumexp: Tensor,
    ignore_index: int,
    label_smoothing: float,
) -> tuple[Tensor, None]:
    return (
        _cross_entropy_grad(
            logits, labels, logsumexp, grad, ignore_index, label_smoothing
        ),
        None,
    )


@_cross_entropy_rows.reference
def _cross_entropy_rows_reference(
    logits: np.ndarray, labels: np.ndarray, ignore_index: int, label_smoothing: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    columns = logits.shape[1]
    largest = logits.max(axis=1, keepdims=True)
    total = np.exp(logits - largest).sum(axis=1)
    logsumexp = np.log(total) + largest[:, 0]
    known = (labels >= 0) & (labels < columns)
    picked = logits[np.arange(len(labels)), np.where(known, labels, 0)]
    losses = logsumexp - (1 - label_smoothing) * picked
    losses = losses - label_smoothing * logits.mean(axis=1)
    losses = np.where(known, losses, np.nan)
    counted = labels != ignore_index
    return np.where(counted, losses, 0), logsumexp, counted


@primitive(
    dtypes={**_DTYPES, "logsumexp": FLOAT, "grad_rows": FLOAT},
    device_dtypes=_DEVICE_DTYPES,
)
def _cross_entropy_grad(
    logits: Tensor,
    labels: Tensor,
    logsumexp: Tensor,
    grad_rows: Tensor,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    """Return (softmax - target) * grad of each row, 0 in ignored rows."""


@_cross_entropy_grad.spec
def _cross_entropy_grad_spec(
    logits: TensorSpec,
    labels: TensorSpec,
    logsumexp: TensorSpec,
    grad_rows: TensorSpec,
    ignore_index: int,
    label_smoothing: float,
) -> TensorSpec:
    return logits


@_cross_entropy_grad.kernel
def _cross_entropy_grad_kernel(
    gpu: DeviceInfo,
    logits: Placed,
    labels: Placed,
    logsumexp: Placed,
    grad_rows: Placed,
    ignore_index: int,
    label_smoothing: float,
) -> Dispatch:
    rows, columns = logits.shape
    magic, shift = divisor(columns)
    push: dict[str, int | float | str] = {"grad": "grad_rows", "out_": "out"}
    push |= {name: name for name in ("logits", "labels", "logsumexp")}
    push |= {"rows": rows, "columns": columns, "ignore_index": ignore_index}
    push |= {"columns_magic": magic, "columns_shift": shift}
    push["label_smoothing"] = label_smoothing
    constants = {"LOCAL_X": WORKGROUP, "LABEL_WORDS": labels.dtype.itemsize // 4}
    grid = linear_grid(logits.numel, WORKGROUP)
    return Dispatch("loss/cross_entropy_vjp", grid, push, constants)


@_cross_entropy_grad.reference
def _cross_entropy_grad_reference(
    logits: np.ndarray,
    labels: np.ndarray,
    logsumexp: np.ndarray,
    grad_rows: np.ndarray,
    ignore_index: int,
    label_smoothing: float,
) -> np.ndarray:
    rows, columns = logits.shape
    known = (labels >= 0) & (labels < columns)
    target = np.full((rows, columns), label_smoothing / columns, logits.dtype)
    target[np.arange(rows), np.where(known, labels, 0)] += 1 - label_smoothing
    grad = (np.exp(logits - logsumexp[:, None]) - target) * grad_rows[:, None]
    grad[~known] = np.nan
    grad[labels == ignore_index] = 0
    return grad


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-probability of class labels under softmax(logits).

    Parameters
    ----------
    logits : Tensor, shape (batch, classes) or (batch, classes, ...)
        Unnormalised log-probabilities, float.
    labels : Tensor, shape (batch,) or (batch, ...)
        Class numbers, an integer dtype.
    ignore_index : int, default -100
        Rows with this label count nothing.
    label_smoothing : float, default 0
        Share of the target spread evenly over the classes, in [0, 1].
    reduction : str, default "mean"
        "mean" over the rows that count, "sum", or "none".

    Returns
    -------
    Tensor
        A scalar, or one loss per row with "none".

    Raises
    ------
    ShapeError
        If shapes do not fit, or an option is out of range.

    Notes
    -----
    A label that is neither a class nor `ignore_index` gives NaN; labels are not read
    back to be checked. With "mean" and nothing that counts, the result is NaN, as in
    PyTorch.
    """
    expected = (*logits.shape[:1], *logits.shape[2:])
    if logits.ndim < 2 or labels.shape != expected:
        raise ShapeError(
            f"cross_entropy: logits are {logits.shape}, labels {labels.shape};"
            " logits must be (batch, classes, ...) and labels (batch, ...)"
        )
    if not 0.0 <= label_smoothing <= 1.0:
        raise ShapeError(
            f"cross_entropy: label_smoothing is {label_smoothing};"
            " it must be from 0 to 1"
        )
    if reduction not in ("mean", "sum", "none"):
        raise ShapeError(
            f"cross_entropy: reduction is {reduction!r};"
            " it must be 'mean', 'sum' or 'none'"
        )
    order = (0, *range(2, logits.ndim), 1)
    rows = reshape(permute(logits, order), (labels.numel(), logits.shape[1]))
    flat = reshape(labels, (labels.numel(),))
    losses, _, counts = _cross_entropy_rows(rows, flat, ignore_index, label_smoothing)
    if reduction == "none":
        return reshape(losses, labels.shape)
    if reduction == "sum":
        return sum(losses)
    return sum(losses) / sum(counts)
