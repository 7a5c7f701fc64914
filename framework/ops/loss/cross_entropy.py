"""Softmax cross entropy with class labels or probabilities."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.decomposed import DecomposedNode, Operand, on_tape
from ...autograd.engine import is_grad_enabled
from ...autograd.shown_hooks import MAX_NODES, key_of, nodes_between
from ...autograd.tape import Edge, GradNode, ShownNode, edge_of, shown_node
from ...base.dtype import FLOAT, SINGLE, float64, promote
from ...base.errors import ShapeError
from ...base.shape import Shape, TensorSpec
from ...dispatch.autocast_policy import autocast_float32
from ...dispatch.declare import primitive
from ...dispatch.replayable import replayable
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.cross_entropy import SITE, loss_dispatches
from ...kernels.shader_types import statistic_dtype
from ..elementwise.compare import where
from ..indexing.row_index import INDEX
from ..movement.slice import select
from ..norm.softmax import log_softmax
from ..reduce.sum import sum
from ..source import fill_like
from ..view import permute, reshape, unsqueeze
from .cross_entropy_fused import (
    _cross_entropy_rows_with_grad,
    cross_entropy_with_grad,
    is_grad_fused,
)
from .cross_entropy_gradient import cross_entropy_dlogits, differentiable_vjp
from .elementwise import check_reduction
from .nll import (
    check_labels,
    is_in_memory,
    labels_in_words,
    nll_loss,
    nll_losses,
    per_class,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

_DTYPES = {"logits": FLOAT, "labels": INDEX}
# The shader takes exponentials, which GLSL has of floats only.
_DEVICE_DTYPES = {"logits": SINGLE}


@primitive(
    dtypes=_DTYPES,
    device_dtypes=_DEVICE_DTYPES,
    outputs=("losses", "greatest", "log_total", "counts"),
    typed="logits",
)
def _cross_entropy_rows(
    logits: Tensor, labels: Tensor, ignore_index: int, label_smoothing: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return per row the loss, maximum, log-sum-exp of the shifted logits, and 0 or 1.

    The last is 0 for rows whose label is ignored.
    """


@_cross_entropy_rows.spec
def _cross_entropy_rows_spec(
    logits: TensorSpec, labels: TensorSpec, ignore_index: int, label_smoothing: float
) -> tuple[TensorSpec, TensorSpec, TensorSpec, TensorSpec]:
    rows = TensorSpec(logits.shape[:1], statistic_dtype(logits.dtype))
    return rows, rows, rows, rows


@_cross_entropy_rows.kernel
def _cross_entropy_rows_kernel(
    gpu: DeviceInfo,
    logits: StridedSpec,
    labels: StridedSpec,
    ignore_index: int,
    label_smoothing: float,
) -> list[Dispatch]:
    return loss_dispatches(gpu, logits, labels, (ignore_index, label_smoothing))


@_cross_entropy_rows.vjp
def _cross_entropy_rows_vjp(
    grad: Tensor,
    logits: Tensor,
    labels: Tensor,
    greatest: Tensor,
    log_total: Tensor,
    ignore_index: int,
    label_smoothing: float,
) -> tuple[Tensor, None]:
    if is_grad_enabled():
        return (
            differentiable_vjp(grad, logits, labels, ignore_index, label_smoothing),
            None,
        )
    return (
        cross_entropy_dlogits(
            logits,
            labels,
            greatest,
            log_total,
            _shared(grad),
            ignore_index,
            label_smoothing,
        ),
        None,
    )


def _shared(grad: Tensor) -> Tensor:
    """Return the scalar that a gradient by rows repeats, or the gradient."""
    repeats = grad.layout.strides == (0,) and grad.layout.shape[0] > 0
    return select(grad, 0, 0) if repeats else grad


@_cross_entropy_rows.reference
def _cross_entropy_rows_reference(
    logits: np.ndarray, labels: np.ndarray, ignore_index: int, label_smoothing: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    counted = check_labels(labels, logits.shape[1], ignore_index, SITE)
    greatest = logits.max(axis=1, keepdims=True)
    shifted = logits - greatest
    log_total = np.log(np.exp(shifted).sum(axis=1))
    picked = shifted[np.arange(len(labels)), np.where(counted, labels, 0)]
    losses = log_total - picked
    if label_smoothing:
        smooth = log_total - shifted.mean(axis=1)
        losses = losses + label_smoothing * (smooth - losses)
    return np.where(counted, losses, 0), greatest, log_total, counted


# The same losses, where nothing reads the gradient that came with them.
_cross_entropy_rows_with_grad.shorter_form = _cross_entropy_rows


@autocast_float32
def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-probability of classes under softmax(logits).

    Parameters
    ----------
    logits : Tensor, shape (classes,), (batch, classes) or (batch, classes, ...)
        Unnormalised log-probabilities, float.
    labels : Tensor
        Class numbers, an integer dtype, in the shape of `logits` without the classes;
        or a probability for each class, a float dtype, in the shape of `logits`.
    weight : Tensor, shape (classes,), or None
        Factor of each class's log-probabilities.
    ignore_index : int, default -100
        Rows with this label count nothing.
    label_smoothing : float, default 0
        Share of the target spread evenly over the classes, in [0, 1].
    reduction : str, default "mean"
        "mean", "sum", or "none". The mean is over the rows that count, by the weights
        of their labels; of probabilities it is over all rows.

    Returns
    -------
    Tensor
        A scalar, or one loss per row with "none".

    Raises
    ------
    ShapeError
        If shapes do not fit, or an option is out of range.
    IndexRangeError
        If a label is neither a class nor `ignore_index`: on the host at once, on a
        device by the next read; see `set_index_checks`.

    Notes
    -----
    With "mean" and nothing that counts, the result is NaN, as in PyTorch.
    """
    out = _cross_entropy(
        logits, labels, weight, ignore_index, label_smoothing, reduction
    )
    node = out.grad_node
    if node is not None and not labels.dtype.is_float and not label_smoothing:
        options = ignore_index, reduction
        node.shown = _shown(node, (logits, labels, weight), options)
    return out


def _shown(
    node: GradNode,
    given: tuple[Tensor, Tensor, Tensor | None],
    options: tuple[int, str],
) -> ShownNode:
    """Return what the graph shows, which is recorded where hooks are registered."""
    logits, _, weight = given
    ignored, reduction = options
    dims, edge = len(logits.layout.shape), edge_of(logits)
    log: Any = shown_node("LogSoftmaxBackward0", logits)
    if dims > 1 and (weight is not None or logits.dtype is float64):
        log = _log_softmax_behind(node) or log
    name = "NllLossBackward0" if dims < 3 else "NllLoss2DBackward0"
    edges = (log,)
    if dims == 3 or dims > 4:
        edges = (ShownNode("ViewBackward0", edges),)
        if reduction == "none":
            name, edges = "ViewBackward0", (ShownNode(name, edges),)
    if type(log) is Edge and edges == (log,):
        # The loss is computed of these: hooks between are those of that node.
        return ShownNode(name, edges)
    operands = [None if each is None else Operand(each) for each in given]
    shapes = logits.layout.shape, given[1].layout.shape

    def composed(node: GradNode) -> Tensor:
        found: list[Any] = _given_to(node, shapes, edge) or [
            each and each.tensor() for each in operands
        ]
        x, labels, weight = found
        likelihoods = log_softmax(x, min(1, dims - 1))
        return nll_loss(
            likelihoods, labels, weight, ignore_index=ignored, reduction=reduction
        )

    return DecomposedNode(name, edges, composed)


def _given_to(
    last: GradNode, shapes: tuple[Shape, Shape], edge: Edge | None
) -> list[Any] | None:
    """Return logits, labels and no weights, from what the loss of rows saved."""
    for node in nodes_between(last, [key_of(edge)]) or ():
        if node.op_name == "cross_entropy_rows" and node.saved is not None:
            rows, labels = (node.saved[name].tensor() for name in ("logits", "labels"))
            batch, *rest = shapes[1] or (1,)
            logits = reshape(rows, (batch, *rest, rows.layout.shape[1]))
            order = (0, len(rest) + 1, *range(1, len(rest) + 1))
            logits = reshape(permute(logits, order), shapes[0])
            return [on_tape(logits, edge), reshape(labels, shapes[1]), None]
    return None


def _log_softmax_behind(last: GradNode) -> Edge | None:
    """Return the edge to the log-softmax that a loss was computed of, if there is."""
    left = [last]
    for node in itertools.islice(iter(left), MAX_NODES):
        for edge in node.edges:
            if edge is not None and isinstance(edge.target, GradNode):
                if edge.target.name() == "LogSoftmaxBackward0":
                    return edge
                left.append(edge.target)
    return None


@replayable
def _cross_entropy(
    logits: Tensor,
    labels: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
) -> Tensor:
    check_reduction("cross_entropy", reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ShapeError(
            f"cross_entropy: label_smoothing is {label_smoothing};"
            " it must be from 0 to 1"
        )
    if weight is None and reduction != "none" and is_grad_fused(logits, labels):
        _check_shapes(logits, labels)
        rows, flat = _flat(logits, labels)
        mean = reduction == "mean"
        loss, *_ = cross_entropy_with_grad(
            rows, flat, ignore_index, label_smoothing, mean
        )
        return loss.to(logits.dtype)
    if (
        len(logits.layout.shape) == 1
        and len(labels.layout.shape) == labels.dtype.is_float
    ):
        logits, labels = unsqueeze(logits, 0), unsqueeze(labels, 0)
        losses, counts = _losses(logits, labels, weight, ignore_index, label_smoothing)
        losses = reshape(losses, ())
    else:
        losses, counts = _losses(logits, labels, weight, ignore_index, label_smoothing)
    if reduction == "mean":
        total = sum(losses)
        losses = total / (sum(counts) if counts is not None else float(_rows(logits)))
    elif reduction == "sum":
        losses = sum(losses)
    kind = promote(logits.dtype, labels.dtype) if labels.dtype.is_float else None
    return losses.to(kind or logits.dtype)


def _rows(logits: Tensor) -> int:
    return logits.numel() // max(1, logits.layout.shape[1])


def _check_shapes(logits: Tensor, labels: Tensor) -> None:
    expected = (*logits.layout.shape[:1], *logits.layout.shape[2:])
    if len(logits.layout.shape) < 2 or labels.layout.shape != expected:
        raise ShapeError(
            f"cross_entropy: logits are {tuple(logits.shape)}, labels"
            f" {tuple(labels.shape)};"
            " logits must be (batch, classes, ...) and labels (batch, ...)"
        )


def _flat(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits as (rows, classes), and a label per row in 32-bit words."""
    order = (0, *range(2, len(logits.layout.shape)), 1)
    rows = reshape(permute(logits, order), (labels.numel(), logits.layout.shape[1]))
    return rows, labels_in_words(reshape(labels, (labels.numel(),)))


def _losses(
    logits: Tensor,
    labels: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    label_smoothing: float,
) -> tuple[Tensor, Tensor | None]:
    """Return the loss of each row, and how much it counts, None meaning 1."""
    if (
        labels.dtype.is_float
        and labels.layout.shape == logits.layout.shape
        and len(logits.layout.shape) > 1
    ):
        if ignore_index >= 0:
            raise ShapeError(
                f"cross_entropy: ignore_index is {ignore_index} beside probabilities;"
                " it is for labels"
            )
        return _probability_losses(logits, labels, weight, label_smoothing), None
    _check_shapes(logits, labels)
    if weight is None and logits.is_gpu and logits.dtype is float64:
        # Of doubles there is no kernel.
        weight = fill_like(logits, (logits.layout.shape[1],), 1, float64)
    if weight is not None:
        return _weighted_losses(logits, labels, weight, ignore_index, label_smoothing)
    rows, flat = _flat(logits, labels)
    losses, _, _, counts = _cross_entropy_rows(
        rows, flat, ignore_index, label_smoothing
    )
    return reshape(losses, labels.layout.shape), counts


def _probability_losses(
    logits: Tensor, target: Tensor, weight: Tensor | None, label_smoothing: float
) -> Tensor:
    """Return the cross entropy with probabilities of all classes."""
    if label_smoothing:
        even = label_smoothing / logits.layout.shape[1]
        target = target * (1.0 - label_smoothing) + even
    terms = log_softmax(logits, 1) * target
    if weight is not None:
        terms = terms * per_class("cross_entropy", weight, logits)
    return -sum(terms, 1)


def _weighted_losses(
    logits: Tensor,
    labels: Tensor,
    weight: Tensor,
    ignore_index: int,
    label_smoothing: float,
) -> tuple[Tensor, Tensor]:
    """Return the losses with class weights, and the weight of each row's label."""
    likelihoods = log_softmax(logits, 1)
    given = likelihoods, labels, weight, ignore_index
    losses, counts, counted = nll_losses(
        "cross_entropy", *given, is_in_memory(likelihoods)
    )
    if label_smoothing:
        weights = per_class("cross_entropy", weight, logits)
        smooth = sum(likelihoods * weights, 1) * (-1.0 / logits.layout.shape[1])
        smooth = where(counted, smooth, 0.0)
        losses = losses * (1.0 - label_smoothing) + smooth * label_smoothing
    return losses, counts
