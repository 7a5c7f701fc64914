"""The negative log-likelihood of class labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import show_as
from ...base.device import GpuDevice
from ...base.dtype import FLOAT, INTEGER, int32
from ...base.errors import DTypeError, ShapeError
from ...base.index_checks import CLASSES, out_of_range
from ...base.shape import Layout, TensorSpec
from ...dispatch.autocast_policy import autocast_float32
from ...dispatch.declare import primitive
from ...dispatch.replayable import replayable
from ...ir.kernel_call import Argument, Dispatch, IndexSlot, StridedSpec
from ...kernels.linear import linear_dispatch
from ...kernels.shader_types import statistic_dtype, storage_defines
from ..elementwise.cast import cast
from ..elementwise.compare import eq, ne, where
from ..indexing.gather import rows_of
from ..indexing.row_index import INDEX
from ..reduce.sum import sum
from ..source import arange_like
from ..view import reshape, unsqueeze
from .elementwise import check_reduction

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

BAD_LABEL = -1
IGNORED = -2
"""Sentinels of labels that are no class; as in `loss/label.glsl`."""


def labels_in_words(labels: Tensor) -> Tensor:
    """Return labels in a dtype of 4 or 8 bytes, for shaders read words."""
    small = labels.dtype in INTEGER and labels.dtype.itemsize < 4
    return cast(labels, int32) if small else labels


def check_labels(
    labels: np.ndarray, classes: int, ignore_index: int, site: str
) -> np.ndarray:
    """Return where labels are not ignored.

    Raises
    ------
    IndexRangeError
        If one of these is no class.
    """
    counted = labels != ignore_index
    bad = counted & ((labels < 0) | (labels >= classes))
    if bad.any():
        raise out_of_range(site, int(labels[bad].flat[0]), classes)
    return counted


@primitive(dtypes=INDEX)
def class_indices(labels: Tensor, classes: int, ignore_index: int, site: str) -> Tensor:
    """Return int32 class indices; `IGNORED` or `BAD_LABEL` where there is none."""


@class_indices.spec
def class_indices_spec(
    labels: TensorSpec, classes: int, ignore_index: int, site: str
) -> TensorSpec:
    return TensorSpec(labels.shape, int32)


@class_indices.kernel
def class_indices_kernel(
    gpu: DeviceInfo, labels: StridedSpec, classes: int, ignore_index: int, site: str
) -> Dispatch:
    push: dict[str, Argument] = {"labels": "labels", "out_": "out"}
    push["error"] = IndexSlot(site, classes)
    push |= {"count": labels.numel, "classes": classes, "ignore_index": ignore_index}
    constants = {"LABEL_WORDS": labels.dtype.itemsize // 4}
    return linear_dispatch("loss/check_labels", labels.numel, push, constants)


@class_indices.reference
def class_indices_reference(
    labels: np.ndarray, classes: int, ignore_index: int, site: str
) -> np.ndarray:
    counted = check_labels(labels, classes, ignore_index, site)
    # Class numbers fit; NumPy 2.5 puts no negative number beside unsigned ones.
    return np.where(counted, labels.astype(np.int32), IGNORED)


def per_class(name: str, weight: Tensor, x: Tensor) -> Tensor:
    """Return class weights so that they broadcast over (batch, classes, ...).

    Raises
    ------
    ShapeError
        If there is not one for each class.
    """
    if weight.layout.shape != x.layout.shape[1:2]:
        raise ShapeError(
            f"{name}: weight is {tuple(weight.shape)}; it must be"
            f" {tuple(x.shape[1:2])}, one"
            " for each"
            " class"
        )
    return reshape(weight, (weight.layout.shape[0], *(1,) * (len(x.layout.shape) - 2)))


def nll_losses(
    name: str,
    x: Tensor,
    labels: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    is_stored: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of each label, how much it counts, and whether it does at all.

    The class of a label is taken by index where `x` is stored, and found by comparing
    it with all where `x` is computed on the way, or counts with weights. Comparing
    takes one pass, as the gradient does, which needs no scattered writes.
    """
    if labels.dtype not in INTEGER:
        raise DTypeError(
            f"{name}: labels are {labels.dtype.name}; they must be integers"
        )
    if weight is not None and weight.dtype is not x.dtype:
        raise DTypeError(
            f"{name}: weight is {weight.dtype.name}, x is {x.dtype.name}; they must be"
            " the same"
        )
    classes = x.layout.shape[1]
    words, site = labels_in_words(labels), f"{name}: {CLASSES}"
    if is_stored and weight is None:
        picked, numbers = _stored_elements(x, words, ignore_index, site)
    else:
        numbers = class_indices(words, classes, ignore_index, site)
    counted = ne(numbers, IGNORED)
    if weight is None:
        counts = cast(counted, statistic_dtype(x.dtype))
        picked = picked if is_stored else _found(x, numbers, classes)
    else:
        weights = cast(per_class(name, weight, x), statistic_dtype(x.dtype))
        counts = _found(weights, numbers, classes)
        picked = _found(x * weights, numbers, classes)
    losses = where(counted, -picked, 0.0)
    losses = where(eq(numbers, BAD_LABEL), float("nan"), losses)
    return losses, counts, counted


def is_in_memory(x: Tensor) -> bool:
    """Return whether single elements can be read without computing all of them."""
    if type(x.layout) is not Layout:
        return False  # batched, or made of others
    if not isinstance(x.device, GpuDevice):
        return True
    value = x.array.value
    return value.node is None or not value.node.op.is_elementwise


def _is_label(numbers: Tensor, classes: int) -> Tensor:
    """Return where (batch, classes, ...) is the class of each label."""
    class_range = arange_like(numbers, (classes,), 0, 1, int32)
    others = len(numbers.layout.shape) - 1
    return eq(reshape(class_range, (classes, *(1,) * others)), unsqueeze(numbers, 1))


def _found(values: Tensor, numbers: Tensor, classes: int) -> Tensor:
    """Return the value of each label's class; 0 where there is none."""
    return sum(where(_is_label(numbers, classes), values, 0.0), 1)


@primitive(
    dtypes={"x": FLOAT, "labels": INDEX},
    outputs=("out", "numbers"),
    strided=True,
    typed="x",
)
def label_elements(
    x: Tensor, labels: Tensor, ignore_index: int, site: str
) -> tuple[Tensor, Tensor]:
    """Return what (batch, classes, inner) has of each label's class, or 0 without one.

    And `class_indices` of the labels, (batch, inner).
    """


@label_elements.spec
def label_elements_spec(
    x: TensorSpec, labels: TensorSpec, ignore_index: int, site: str
) -> tuple[TensorSpec, TensorSpec]:
    return TensorSpec(labels.shape, x.dtype), TensorSpec(labels.shape, int32)


@label_elements.kernel
def label_elements_kernel(
    gpu: DeviceInfo, x: StridedSpec, labels: StridedSpec, ignore_index: int, site: str
) -> Dispatch:
    _, classes, inner = x.shape
    push: dict[str, Argument] = {"x": "x", "labels": "labels", "out_": "out"}
    push |= {"numbers": "numbers", "error": IndexSlot(site, classes)}
    push |= {"count": labels.numel, "classes": classes, "inner": inner}
    push["ignore_index"] = ignore_index
    push |= zip(("by_batch", "by_class", "by_inner"), x.layout.strides, strict=True)
    push |= zip(("next_batch", "next_inner"), labels.layout.strides, strict=True)
    constants = {"LABEL_WORDS": labels.dtype.itemsize // 4}
    defines = storage_defines(x.dtype)
    return linear_dispatch(
        "loss/label_elements", labels.numel, push, constants, defines
    )


@label_elements.vjp
def label_elements_vjp(
    grad: Tensor, x_spec: TensorSpec, numbers: Tensor
) -> tuple[Tensor, None]:
    chosen = _is_label(numbers, x_spec.shape[1])
    return where(chosen, unsqueeze(grad, 1), 0.0), None


@label_elements.reference
def label_elements_reference(
    x: np.ndarray, labels: np.ndarray, ignore_index: int, site: str
) -> tuple[np.ndarray, np.ndarray]:
    numbers = class_indices_reference(labels, x.shape[1], ignore_index, site)
    places = np.maximum(numbers, 0)[:, None]
    found = np.take_along_axis(np.asarray(x), places, 1)[:, 0]
    return np.where(numbers < 0, found.dtype.type(0), found), numbers


def _stored_elements(
    x: Tensor, labels: Tensor, ignore_index: int, site: str
) -> tuple[Tensor, Tensor]:
    """Return `label_elements` of `x` (batch, classes, ...), in the labels' shape."""
    shape, batch = labels.layout.shape, x.layout.shape[0]
    flat = reshape(labels, (batch, labels.numel() // max(batch, 1)))
    found, numbers = label_elements(rows_of(x, 1), flat, ignore_index, site)
    return reshape(found, shape), reshape(numbers, shape)


@autocast_float32
def nll_loss(
    x: Tensor,
    labels: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative of what `x` says about the class of each label.

    Parameters
    ----------
    x : Tensor, shape (classes,), (batch, classes) or (batch, classes, ...)
        Log-probabilities, float.
    labels : Tensor, the shape of `x` without the classes
        Class numbers, an integer dtype.
    weight : Tensor, shape (classes,), or None
        Factor of each class.
    ignore_index : int, default -100
        Labels that count nothing.
    reduction : str, default "mean"
        "mean" by the weights of the labels, "sum", or "none".

    Returns
    -------
    Tensor
        A scalar, or one loss per label with "none".

    Raises
    ------
    ShapeError
        If shapes do not fit, or the reduction is unknown.
    IndexRangeError
        If a label is neither a class nor `ignore_index`: on the host at once, on a
        device by the next read; see `set_index_checks`.
    DTypeError
        If the labels are no integers.
    """
    check_reduction("nll_loss", reduction)
    if len(x.layout.shape) == 1 and len(labels.layout.shape) == 0:
        whole, x, labels = x, unsqueeze(x, 0), unsqueeze(labels, 0)
        only = nll_loss(
            x, labels, weight, ignore_index=ignore_index, reduction=reduction
        )
        only = reshape(only, ())
        show_as(only, "NllLossBackward0", whole)
        return only
    if len(x.layout.shape) < 2 or labels.layout.shape != (
        *x.layout.shape[:1],
        *x.layout.shape[2:],
    ):
        raise ShapeError(
            f"nll_loss: x is {tuple(x.shape)}, labels are {tuple(labels.shape)};"
            " x must be (batch, classes, ...) and labels (batch, ...)"
        )
    if x.needs_grad and len(x.layout.shape) not in (2, 4) and labels.numel():
        # As PyTorch records it, of images.
        batch, classes = x.layout.shape[:2]
        image = reshape(x, (batch, classes, 1, labels.numel() // batch))
        flat = reshape(labels, (batch, 1, labels.numel() // batch))
        out = nll_loss(
            image, flat, weight, ignore_index=ignore_index, reduction=reduction
        )
        return reshape(out, labels.layout.shape) if reduction == "none" else out
    out = _nll_loss(x, labels, weight, ignore_index, reduction, is_in_memory(x))
    if out.grad_node is not None:
        dims = len(x.layout.shape)
        show_as(out, "NllLossBackward0" if dims < 3 else "NllLoss2DBackward0", x)
    return out


@replayable
def _nll_loss(
    x: Tensor,
    labels: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    is_stored: bool,
) -> Tensor:
    given = x, labels, weight, ignore_index
    losses, counts, _ = nll_losses("nll_loss", *given, is_stored)
    if reduction != "none":
        losses = sum(cast(losses, counts.dtype))
    if reduction == "mean":
        losses = losses / sum(counts)
    return losses.to(x.dtype)
