"""Losses that want a margin between what belongs together and what does not."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ... import ops
from ...autograd.tape import shown_as
from ...base.dtype import int32
from ...base.errors import DTypeError, ShapeError
from ...dispatch.autocast_policy import autocast_float32
from ...dispatch.replayable import replayable
from ...kernels.shader_types import statistic_dtype
from ...ops.elementwise.cast import converted
from ...ops.loss.elementwise import check_reduction
from ...ops.loss.multilabel_margin import multilabel_margin_losses
from ...ops.loss.nll import labels_in_words
from ...ops.shape_constant import MOST_BYTES, shape_constant
from ...tensor.tensor import Tensor
from .distance import pairwise_distance
from .reduction import chosen_reduction, reduced_loss

LEAST_SQUARE = 1e-12
"""Added to the squared lengths of `cosine_embedding_loss`, as in PyTorch."""


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `input` where the target is 1, max(0, margin - input) where it is -1.

    Parameters
    ----------
    input : Tensor, float
    target : Tensor
        Of a shape that broadcasts. A target that is neither has the sum of both losses.
    margin : float, default 1
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.

    Raises
    ------
    ShapeError
        If shapes do not broadcast, or the reduction is unknown.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    return ops.hinge_embedding_loss(input, target, margin=margin, reduction=reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, margin - target * (input1 - input2)).

    Parameters
    ----------
    input1, input2 : Tensor, float
        Scores.
    target : Tensor
        1 where `input1` should be the larger, -1 where `input2`. The three shapes
        broadcast.
    margin : float, default 0
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.

    Raises
    ------
    ShapeError
        If shapes do not broadcast, or the reduction is unknown.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(
            f"margin_ranking_loss: input1 is {tuple(input1.shape)}, input2"
            f" {tuple(input2.shape)}, target {tuple(target.shape)}; they must have as"
            " many dimensions"
        )
    return ops.margin_ranking_loss(
        input1, input2, target, margin=margin, reduction=reduction
    )


@autocast_float32
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return 1 - cos where the target is 1, max(0, cos - margin) where it is -1.

    Parameters
    ----------
    input1, input2 : Tensor, shape (batch, size) or (size,)
        Vectors between which the cosine is taken.
    target : Tensor, shape (batch,) or ()
        1 or -1.
    margin : float, default 0
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"

    Raises
    ------
    ShapeError
        If the shapes do not fit, or the reduction is unknown.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    return _cosine_embedding_loss(input1, input2, target, margin, reduction)


@replayable
def _cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: str
) -> Tensor:
    if (
        len(target.layout.shape) > 1
        or not len(input1.layout.shape)
        == len(input2.layout.shape)
        == len(target.layout.shape) + 1
    ):
        raise ShapeError(
            f"cosine_embedding_loss: inputs are {tuple(input1.shape)} and"
            f" {tuple(input2.shape)},"
            f" target {tuple(target.shape)}; they must be (batch, size) and (batch,),"
            " or"
            " without batch"
        )
    products = ops.sum(input1 * input2, -1)
    lengths = [
        ops.sum(ops.square(each), -1) + LEAST_SQUARE for each in (input1, input2)
    ]
    cosine = products / ops.sqrt(lengths[0] * lengths[1])
    losses = ops.where(target == 1, 1.0 - cosine, 0.0)
    apart = ops.clamp_min(cosine - margin, 0.0)
    losses = losses + ops.where(target == -1, apart, 0.0)
    return reduced_loss("cosine_embedding_loss", losses, reduction)


@autocast_float32
@shown_as("MultiMarginLossBackward0", "input")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return what scores of other classes lack to the margin below the target's.

    Parameters
    ----------
    input : Tensor, shape (batch, classes) or (classes,), float
        Scores.
    target : Tensor, shape (batch,), (1,) or (), integer
        Classes.
    p : int, default 1
        Power of what is lacking: 1 or 2.
    margin : float, default 1
    weight : Tensor, shape (classes,), or None
        Factor of the losses of each class as a target.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"

    Raises
    ------
    ValueError
        If shapes do not fit, `p` is another, or the reduction is unknown.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    return _multi_margin_loss(input, target, p, margin, weight, reduction)


@replayable
def _multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int,
    margin: float,
    weight: Tensor | None,
    reduction: str,
) -> Tensor:
    check_reduction("multi_margin_loss", reduction)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p is {p}; it must be 1 or 2")
    if not input.layout.shape:
        input = ops.reshape(input, (1,))
    if len(input.layout.shape) == 1 and target.layout.shape == (1,):
        one = ops.unsqueeze(input, 0)
        losses = multi_margin_loss(one, target, p, margin, weight, reduction="none")
        return reduced_loss("multi_margin_loss", losses, reduction)
    if (
        len(input.layout.shape) not in (1, 2)
        or target.layout.shape != input.layout.shape[:-1]
    ):
        raise ShapeError(
            f"multi_margin_loss: input is {tuple(input.shape)}, target"
            f" {tuple(target.shape)}; they"
            " must be (batch, classes) and (batch,), or without batch"
        )
    classes = input.layout.shape[-1]
    if weight is not None and weight.shape != (classes,):
        raise ShapeError(
            f"multi_margin_loss: weight is {tuple(weight.shape)}; it must be"
            f" ({classes},)"
        )
    labels = ops.unsqueeze(target, -1)
    wanted = _widened(ops.gather(input, -1, labels))
    lacking = ops.clamp_min(margin - wanted + _widened(input), 0.0)
    terms = lacking if p == 1 else ops.square(lacking)
    if weight is not None:
        chosen = ops.index_select(weight, 0, ops.reshape(target, (-1,)))
        factors = ops.reshape(_widened(chosen), target.layout.shape)
        terms = terms * ops.unsqueeze(factors, -1)
    numbers = _numbers(input, classes)
    terms = ops.where(numbers == labels, 0.0, terms)
    losses = ops.sum(terms, -1) * (1.0 / classes)
    losses = reduced_loss("multi_margin_loss", losses, reduction)
    return converted(losses, input.dtype) if input.dtype.is_float else losses


def _numbers(x: Tensor, classes: int) -> Tensor:
    """Return the numbers of classes: a constant, which no kernel makes, if small."""
    found: Tensor
    if classes * int32.itemsize > MOST_BYTES:
        found = ops.arange_like(x, (classes,), 0, 1, int32)
    else:
        found = shape_constant(x, np.arange(classes, dtype=np.int32))
    return found


def _widened(x: Tensor) -> Tensor:
    """Return floats in the dtype that they are computed in, of 2 bytes in float32."""
    return converted(x, statistic_dtype(x.dtype)) if x.dtype.is_float else x


@autocast_float32
@shown_as("MultilabelMarginLossBackward0", "input")
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return what scores of other classes lack to 1 below those of all targets.

    Parameters
    ----------
    input : Tensor, shape (batch, classes) or (classes,), float
        Scores.
    target : Tensor, shape of `input`, integer
        Classes; the first -1 ends them.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"

    Raises
    ------
    ShapeError
        If shapes do not fit, the reduction is unknown, or a software device would loop
        for too long, as over 16,300 classes.
    DTypeError
        If the target is not of integers.
    IndexRangeError
        If a label is neither a class nor -1: on the host at once, on a device by the
        next read.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    return _multilabel_margin_loss(input, target, reduction)


@replayable
def _multilabel_margin_loss(input: Tensor, target: Tensor, reduction: str) -> Tensor:
    check_reduction("multilabel_margin_loss", reduction)
    if not input.layout.shape and not target.layout.shape:
        input, target = (ops.reshape(each, (1,)) for each in (input, target))
    if (
        len(input.layout.shape) not in (1, 2)
        or target.layout.shape != input.layout.shape
    ):
        raise ShapeError(
            f"multilabel_margin_loss: input is {tuple(input.shape)}, target"
            f" {tuple(target.shape)};"
            " both must be (batch, classes), or without batch"
        )
    if target.dtype.kind not in ("int", "uint"):
        raise DTypeError(
            f"multilabel_margin_loss: target is {target.dtype.name}; it must be of"
            " integers"
        )
    classes = input.layout.shape[-1]
    if not classes:
        raise ShapeError(
            f"multilabel_margin_loss: input is {tuple(input.shape)}; there must be"
            " classes"
        )
    rows = [
        ops.reshape(each, (-1, classes)) for each in (input, labels_in_words(target))
    ]
    losses = ops.reshape(multilabel_margin_losses(*rows), input.layout.shape[:-1])
    losses = reduced_loss("multilabel_margin_loss", losses, reduction)
    return converted(losses, input.dtype)


@replayable
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the binary cross entropies of all classes, averaged over these.

    Parameters
    ----------
    input : Tensor, shape (..., classes), float
        Logits.
    target : Tensor, shape of `input`
        0 or 1 for each class.
    weight : Tensor or None
        Factors of the classes.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    losses = target * ops.log_sigmoid(input) + (1 - target) * ops.log_sigmoid(-input)
    if weight is not None:
        losses = losses * weight
    classes = input.layout.shape[-1]
    losses = ops.sum(losses, -1) * (-1.0 / classes if classes else math.nan)
    return reduced_loss("multilabel_soft_margin_loss", losses, reduction)


@autocast_float32
@replayable
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return what a negative lacks to be further from the anchor than a positive.

    Parameters
    ----------
    anchor, positive, negative : Tensor, shape (batch, size) or (size,)
        Vectors; distances are those of `pairwise_distance`.
    margin : float, default 1
        By how much further; above 0.
    p : float, default 2
        Norm of the distances.
    eps : float, default 1e-6
        Added to differences.
    swap : bool, default False
        Whether the negative's distance to the positive counts where it is smaller.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"

    Raises
    ------
    ValueError
        If `margin` is not above 0, shapes do not fit, or the reduction is unknown.

    Notes
    -----
    Source: Balntas et al., Learning shallow convolutional feature descriptors with
    triplet losses, 2016.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)

    def distance(x1: Tensor, x2: Tensor) -> Tensor:
        return pairwise_distance(x1, x2, p, eps)

    vectors = (anchor, positive, negative)
    return _triplet("triplet_margin_loss", vectors, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return `triplet_margin_loss` for another distance.

    Parameters
    ----------
    anchor, positive, negative : Tensor
    distance_function : callable or None
        Of two tensors; None means `pairwise_distance`.
    margin, swap, reduction
        As in `triplet_margin_loss`.
    """
    name = "triplet_margin_with_distance_loss"
    vectors = (anchor, positive, negative)
    distance = distance_function or pairwise_distance
    return _triplet(name, vectors, distance, margin, swap, reduction)


def _triplet(
    name: str,
    vectors: tuple[Tensor, Tensor, Tensor],
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    anchor, positive, negative = vectors
    if margin <= 0:
        raise ValueError(f"{name}: margin is {margin}; it must be above 0")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(
            f"{name}: anchor is {tuple(anchor.shape)}, positive"
            f" {tuple(positive.shape)}, negative"
            f" {tuple(negative.shape)}; they must have as many dimensions"
        )
    far = distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    near = distance(anchor, positive) + margin
    return reduced_loss(name, ops.clamp_min(near - far, 0.0), reduction)
