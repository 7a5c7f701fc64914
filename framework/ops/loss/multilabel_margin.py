"""The multi-label margin loss: what other classes lack to 1 below those of labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, int32
from ...base.index_checks import CLASSES, out_of_range
from ...base.shape import TensorSpec, ceil_div
from ...dispatch.declare import composite, primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.multilabel_margin import TILE, multilabel_margin_dispatches
from ...kernels.shader_types import statistic_dtype
from ..elementwise.cast import cast
from ..indexing.row_index import INDEX
from ..reduce.sum import sum
from ..view import reshape, unsqueeze

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

END = -1
"""Sentinel that ends the labels of a row."""

_MOST_AT_ONCE = 1 << 18
"""Elements of intermediate results on the host."""


@primitive(dtypes={"x": FLOAT, "labels": INDEX}, typed="x")
def _multilabel_margin_parts(x: Tensor, labels: Tensor) -> Tensor:
    """Return what tiles of classes add to each row's loss, (rows, tiles).

    Of (rows, classes) both; the labels of a row are up to the first -1.
    """


@_multilabel_margin_parts.spec
def _multilabel_margin_parts_spec(x: TensorSpec, labels: TensorSpec) -> TensorSpec:
    rows, classes = x.shape
    return TensorSpec((rows, ceil_div(classes, TILE)), statistic_dtype(x.dtype))


@_multilabel_margin_parts.kernel
def _multilabel_margin_parts_kernel(
    gpu: DeviceInfo, x: StridedSpec, labels: StridedSpec
) -> list[Dispatch]:
    return multilabel_margin_dispatches(gpu, x, labels, False)


@_multilabel_margin_parts.reference
def _multilabel_margin_parts_reference(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    rows, classes = x.shape
    parts = ceil_div(classes, TILE)
    total = np.zeros((rows, parts * TILE), np.result_type(x.dtype, np.float32))
    for _, lacking in _lacking(x, labels):
        total[:, :classes] += lacking.sum(1)
    return total.reshape(rows, parts, TILE).sum(-1) / classes


@primitive(dtypes={"x": FLOAT, "labels": INDEX}, typed="x")
def _multilabel_margin_counts(x: Tensor, labels: Tensor) -> Tensor:
    """Return the derivatives of losses times the number of classes, int32.

    How many labels a class lacks something to; of labels, by how many classes it is
    lacked, below 0.
    """


@_multilabel_margin_counts.spec
def _multilabel_margin_counts_spec(x: TensorSpec, labels: TensorSpec) -> TensorSpec:
    return TensorSpec(x.shape, int32)


@_multilabel_margin_counts.kernel
def _multilabel_margin_counts_kernel(
    gpu: DeviceInfo, x: StridedSpec, labels: StridedSpec
) -> list[Dispatch]:
    return multilabel_margin_dispatches(gpu, x, labels, True)


@_multilabel_margin_counts.reference
def _multilabel_margin_counts_reference(
    x: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    counts = np.zeros(x.shape, np.int32)
    every = np.arange(len(x))[:, None]
    for label, lacking in _lacking(x, labels):
        counts += np.count_nonzero(lacking, axis=1).astype(np.int32)
        lacked = np.count_nonzero(lacking, axis=2).astype(np.int32)
        np.subtract.at(counts, (every, label), lacked)
    return counts


def _lacking(
    x: np.ndarray, labels: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield some labels of each row, (rows, n), and what classes lack to them.

    That is (rows, n, classes), 0 of what lacks nothing, is a label, or beyond the end.

    Raises
    ------
    IndexRangeError
        If a label is neither a class nor `END`, after the end too.
    """
    classes = labels.shape[1]
    wrong = (labels < END) | (labels >= classes)
    if wrong.any():
        found = int(labels[wrong][0])
        raise out_of_range(f"multilabel_margin_loss: {CLASSES}", found, classes)
    wide = x.astype(np.result_type(x.dtype, np.float32), copy=False)
    given = np.logical_and.accumulate(labels >= 0, axis=1)
    is_label = np.zeros(x.shape, bool)
    row, column = np.nonzero(given)
    is_label[row, labels[row, column]] = True
    most = int(given.sum(1).max(initial=0))
    step = max(1, _MOST_AT_ONCE // max(1, x.size))
    for k in range(0, most, step):
        here = given[:, k : min(k + step, most)]
        label = np.where(here, labels[:, k : min(k + step, most)], 0).astype(np.intp)
        margins = np.where(here, 1 - np.take_along_axis(wide, label, 1), -np.inf)
        with np.errstate(invalid="ignore"):
            lacking = margins[..., None] + wide[:, None]
            counted = (lacking > 0) & ~is_label[:, None]
        yield label, np.where(counted, lacking, 0)


@composite(dtypes={"x": FLOAT, "labels": INDEX})
def multilabel_margin_losses(x: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over classes of what others lack to 1 below all labels of a row.

    Parameters
    ----------
    x : Tensor, shape (rows, classes), float
        Scores.
    labels : Tensor, shape (rows, classes), int32 or int64
        Classes; the first -1 ends those of a row.

    Returns
    -------
    Tensor
        Shape (rows,), in float32, or in float64 of scores in float64.

    Raises
    ------
    IndexRangeError
        If a label is neither a class nor -1: on the host at once, on a device by the
        next read, where the loss of its row is NaN; see `set_index_checks`.
    """
    parts: Tensor = _multilabel_margin_parts(x, labels)
    rows, count = parts.layout.shape
    return sum(parts, 1) if count > 1 else reshape(parts, (rows,))


@multilabel_margin_losses.vjp
def multilabel_margin_losses_vjp(
    grad: Tensor, x: Tensor, labels: Tensor
) -> tuple[Tensor, None]:
    shares = _multilabel_margin_counts(x, labels) * (1.0 / x.layout.shape[1])
    return cast(unsqueeze(grad, 1) * shares, x.dtype), None
