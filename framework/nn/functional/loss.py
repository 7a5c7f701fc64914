"""Losses of predictions and targets, under PyTorch's signatures."""

from __future__ import annotations

import math
import warnings

from ... import ops
from ...autograd.tape import shown_as
from ...base.defaults import get_default_dtype
from ...base.errors import DTypeError, ShapeError
from ...base.validation import as_int, as_number
from ...dispatch.autocast_policy import autocast_float32
from ...dispatch.replayable import replayable
from ...eager.base_tensor import need_tensors
from ...tensor.tensor import Tensor
from .reduction import chosen_reduction, reduced_loss, weighted_loss


def _warn_of_broadcast(name: str, input: Tensor, target: Tensor) -> None:
    if input.layout.shape != target.layout.shape:
        warnings.warn(
            f"{name}: input is {tuple(input.shape)}, target {tuple(target.shape)};"
            " they are"
            " broadcast, which is seldom meant: give them the same shape",
            stacklevel=3,
        )


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the squared differences; see `ops.mse_loss`.

    Parameters
    ----------
    input, target : Tensor, float
        Of one shape; shapes that broadcast give a warning.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    weight : Tensor, shape of `input`, or None
        Factors of the losses; the mean is by their sum.
    """
    _warn_of_broadcast("mse_loss", input, target)
    reduction = chosen_reduction(size_average, reduce, reduction)
    if weight is None:
        return ops.mse_loss(input, target, reduction=reduction)
    losses = ops.mse_loss(input, target, reduction="none")
    return weighted_loss("mse_loss", losses, weight, reduction, by_weight=True)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the absolute differences.

    Parameters
    ----------
    input, target : Tensor, float
        Of one shape; shapes that broadcast give a warning.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them. The mean of none is
        NaN.
    weight : Tensor, shape of the losses, or None
        Factors of the losses; the mean is by their sum.

    Raises
    ------
    ShapeError
        If shapes do not fit, or the reduction is unknown.
    """
    _warn_of_broadcast("l1_loss", input, target)
    reduction = chosen_reduction(size_average, reduce, reduction)
    if weight is None:
        return ops.l1_loss(input, target, reduction=reduction)
    losses = ops.l1_loss(input, target, reduction="none")
    return weighted_loss("l1_loss", losses, weight, reduction, by_weight=True)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return absolute differences, which below `beta` become a parabola.

    With d = abs(input - target): d^2 / (2 beta) where d < beta, else d - beta / 2.

    Parameters
    ----------
    input, target : Tensor, float
        Of one shape; shapes that broadcast give a warning.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    beta : float, default 1
        0 gives `l1_loss`.

    Raises
    ------
    ShapeError
        If shapes do not broadcast, `beta` is negative, or the reduction is unknown.

    Notes
    -----
    Source: Girshick, Fast R-CNN, arXiv:1504.08083.
    """
    _warn_of_broadcast("smooth_l1_loss", input, target)
    reduction = chosen_reduction(size_average, reduce, reduction)
    return ops.smooth_l1_loss(input, target, reduction=reduction, beta=beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Return half the squared differences, which from `delta` on become lines.

    With d = abs(input - target): d^2 / 2 where d <= delta, else delta (d - delta / 2).

    Parameters
    ----------
    input, target : Tensor, float
        Of one shape; shapes that broadcast give a warning.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    delta : float, default 1
        Above 0.
    weight : Tensor, shape of the losses, or None
        Factors of the losses; the mean is by their number.

    Raises
    ------
    ShapeError
        If shapes do not fit, `delta` is not above 0, or the reduction is unknown.

    Notes
    -----
    Source: Huber, Robust Estimation of a Location Parameter, 1964.
    """
    _warn_of_broadcast("huber_loss", input, target)
    if weight is None:
        return ops.huber_loss(input, target, reduction=reduction, delta=delta)
    losses = ops.huber_loss(input, target, reduction="none", delta=delta)
    return weighted_loss("huber_loss", losses, weight, reduction, by_weight=False)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-probability of targets between 0 and 1.

    Parameters
    ----------
    input : Tensor, float
        Probabilities; others give NaN. Logarithms are cut at -100.
    target : Tensor, shape of `input`
        Probabilities wanted.
    weight : Tensor or None
        Factors of the losses, of a shape that broadcasts to theirs; the mean is by the
        number of losses.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.

    Raises
    ------
    ShapeError
        If the shapes differ, or the reduction is unknown.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    return ops.binary_cross_entropy(input, target, weight, reduction=reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return `binary_cross_entropy` of sigmoid(input), without overflow or cut.

    Parameters
    ----------
    input : Tensor, float
        Logits.
    target : Tensor, shape of `input`
        Probabilities wanted.
    weight : Tensor or None
        Factors of the losses, of a shape that broadcasts to theirs.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    pos_weight : Tensor or None
        Factors of the losses of what is wanted to be 1, likewise.

    Raises
    ------
    ShapeError
        If the shapes differ, or the reduction is unknown.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    return ops.binary_cross_entropy_with_logits(
        input, target, weight, reduction=reduction, pos_weight=pos_weight
    )


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return the terms of the Kullback-Leibler divergence of `target` from exp(input).

    Parameters
    ----------
    input : Tensor, float
        Log-probabilities.
    target : Tensor
        Probabilities, of a shape that broadcasts; 0 contributes 0.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean", with a warning, "sum" or "none"; or "batchmean": the sum by the size of
        dimension 0, which is the divergence itself.
    log_target : bool, default False
        Whether `target` has log-probabilities.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast, or the reduction is unknown.

    Notes
    -----
    Source: Kullback and Leibler, On Information and Sufficiency, 1951.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "kl_div: reduction 'mean' divides by the number of elements; 'batchmean'"
            " gives the divergence",
            stacklevel=2,
        )
    return ops.kl_div(input, target, reduction=reduction, log_target=log_target)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative of what `input` says about the class of each label.

    Parameters
    ----------
    input : Tensor, shape (classes,), (batch, classes) or (batch, classes, ...), float
        Log-probabilities.
    target : Tensor, the shape of `input` without the classes, an integer dtype
        Labels: class numbers.
    weight : Tensor, shape (classes,), or None
        Factor of each class.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    ignore_index : int, default -100
        Labels that count nothing.
    reduction : str, default "mean"
        "mean" by the weights of the labels, NaN where none counts; "sum"; or "none" for
        a loss per label.

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
    reduction = chosen_reduction(size_average, reduce, reduction)
    ignore_index = as_int("nll_loss: ignore_index", ignore_index)
    return ops.nll_loss(
        input, target, weight, ignore_index=ignore_index, reduction=reduction
    )


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the negative log-probability of classes under the softmax of logits.

    Parameters
    ----------
    input : Tensor, shape (classes,), (batch, classes) or (batch, classes, ...), float
        Logits.
    target : Tensor
        Class numbers, an integer dtype, in the shape of `input` without the classes; or
        a probability for each class, a float dtype, in the shape of `input`.
    weight : Tensor, shape (classes,), or None
        Factor of each class.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    ignore_index : int, default -100
        Labels that count nothing.
    reduction : str, default "mean"
        "mean" by the weights of the labels, NaN where none counts, and of probabilities
        over all rows; "sum"; or "none" for a loss per row.
    label_smoothing : float, default 0
        Share of the target spread evenly over the classes, in [0, 1].

    Raises
    ------
    ShapeError
        If shapes do not fit, or an option is out of range.
    IndexRangeError
        If a label is neither a class nor `ignore_index`: on the host at once, on a
        device by the next read; see `set_index_checks`.
    """
    if size_average is not None or reduce is not None:
        reduction = chosen_reduction(size_average, reduce, reduction)
    return ops.cross_entropy(
        input,
        target,
        weight,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )


@autocast_float32
@replayable
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood of counts under Poisson distributions.

    Parameters
    ----------
    input : Tensor, float
        The expectation, or its logarithm.
    target : Tensor
        Counts, of a shape that broadcasts.
    log_input : bool, default True
        Whether `input` is the logarithm.
    full : bool, default False
        Whether Stirling's approximation of the logarithm of the factorial is added, for
        counts above 1.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    eps : float, default 1e-8
        Added to an `input` whose logarithm is taken.
    reduction : str, default "mean"

    Raises
    ------
    ShapeError
        If shapes do not broadcast, or the reduction is unknown.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    if not target.dtype.is_differentiable:
        target = target.to(input.dtype)
    eps = as_number("poisson_nll_loss: eps", eps)
    if log_input:
        losses = ops.exp(input) - target * input
    else:
        losses = input - target * ops.log(input + eps)
    if full:
        present = ops.where(target > 1, target, 1)
        stirling = target * ops.log(present) - target
        stirling = stirling + ops.log(present * (2.0 * math.pi)) * 0.5
        losses = losses + ops.where(target > 1, stirling, 0.0)
    return reduced_loss("poisson_nll_loss", losses, reduction)


@replayable
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood under normal distributions.

    Parameters
    ----------
    input, target : Tensor, float
        Expectations, and what was observed.
    var : Tensor or float
        Variances: one, or of the shape of `input`, or with one dimension of size 1, or
        without the last dimension.
    full : bool, default False
        Whether the constant is added.
    eps : float, default 1e-6
        Variances are taken as no smaller; the gradient passes to them all the same.
    reduction : str, default "mean"

    Raises
    ------
    ShapeError
        If the shape of `var` does not fit, the reduction is unknown, or, for variances
        on the host, one is negative; on a device that gives NaN.
    """
    variances = _variances(input, var)
    raised = ops.clamp_min(variances, eps) - variances
    safe = variances + raised.detach()
    losses = (ops.log(safe) + ops.square(input - target) / safe) * 0.5
    losses = ops.where(variances < 0, float("nan"), losses)
    if full:
        losses = losses + 0.5 * math.log(2.0 * math.pi)
    return reduced_loss("gaussian_nll_loss", losses, reduction)


def _variances(input: Tensor, var: Tensor | float) -> Tensor:
    if not isinstance(var, Tensor):
        if var < 0:
            raise ShapeError(f"gaussian_nll_loss: var is {var}; it must be at least 0")
        filled: Tensor = ops.fill_like(
            input.detach(),
            input.layout.shape,
            var,
            input.dtype if input.dtype.is_float else get_default_dtype(),
        )
        return filled
    if var.is_cpu and var.numel() and var.host_copy().min() < 0:
        raise ShapeError("gaussian_nll_loss: a variance is negative; none may be")
    if var.shape == input.layout.shape:
        return var
    if var.shape == input.layout.shape[:-1]:
        return ops.unsqueeze(var, -1)
    other = [b for a, b in zip(input.layout.shape, var.shape) if a != b]
    if var.ndim != len(input.layout.shape) or other != [1]:
        raise ShapeError(
            f"gaussian_nll_loss: var is {tuple(var.shape)}, input"
            f" {tuple(input.shape)}; they must be"
            " the same, but for one size of 1 or a last dimension left out"
        )
    return var


@autocast_float32
@shown_as("SoftMarginLossBackward0", "input")
@replayable
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return log(1 + exp(-target * input)), for targets of -1 and 1.

    Parameters
    ----------
    input : Tensor, float
    target : Tensor
        Of a shape that broadcasts.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.

    Raises
    ------
    ShapeError
        If shapes do not broadcast, or the reduction is unknown.
    DTypeError
        If `input` is not float.

    Notes
    -----
    It does not overflow where PyTorch's gives infinity.
    """
    need_tensors("soft_margin_loss", input=input, target=target)
    reduction = chosen_reduction(size_average, reduce, reduction)
    losses = -ops.log_sigmoid(target * input)
    if not input.dtype.is_float:
        raise DTypeError(
            f"soft_margin_loss: input is {input.dtype.name}; it must be a float dtype"
        )
    if losses.dtype is not input.dtype:
        losses = ops.cast(losses, input.dtype)
    return reduced_loss("soft_margin_loss", losses, reduction)
