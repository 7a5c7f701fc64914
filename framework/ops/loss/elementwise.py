"""Element-wise losses, and the reduction of losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import distinct, show_as
from ...base.dtype import FLOAT, bool_, promote
from ...base.errors import DomainError, DTypeError, ShapeError
from ...base.shape import broadcast_shapes
from ...dispatch.autocast_policy import autocast_float32
from ...dispatch.declare import elementwise
from ...dispatch.replayable import replayable
from ...kernels.shader_types import statistic_dtype
from ..elementwise.cast import (
    cast,
    converted,
    need_one_dtype,
    need_real_float,
    refuse_complex,
)
from ..elementwise.compare import clamp_min, eq, where
from ..elementwise.exponential import exp, log, log1p, log_sigmoid
from ..elementwise.unary import abs, square
from ..reduce.sum import mean, sum

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


REDUCTIONS = ("mean", "sum", "none")
LEAST_LOGARITHM = -100.0
"""Logarithms of probabilities are no smaller, so that no loss is infinite."""

LEAST_SPREAD = 1e-12
"""x (1 - x) is taken as no smaller, so that no slope is infinite."""


def check_reduction(
    name: str, reduction: str, known: tuple[str, ...] = REDUCTIONS
) -> None:
    """Raise `ShapeError` if losses are not reduced in this way."""
    if reduction not in known:
        listed = ", ".join(repr(each) for each in known[:-1])
        raise ShapeError(
            f"{name}: reduction is {reduction!r}; it must be {listed} or {known[-1]!r}"
        )


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """Return the mean or the sum of the losses, or all of them with "none"."""
    if reduction == "none":
        return losses
    return mean(losses) if reduction == "mean" else sum(losses)


def _check(name: str, x: Tensor, target: Tensor, reduction: str) -> None:
    """Check that the shapes broadcast, and the reduction."""
    broadcast_shapes(name, x.layout.shape, target.layout.shape)
    check_reduction(name, reduction)


def _check_same(name: str, x: Tensor, target: Tensor, reduction: str) -> None:
    """Check that the shapes are the same, and the reduction."""
    if x.layout.shape != target.layout.shape:
        raise ShapeError(
            f"{name}: x is {tuple(x.shape)}, target {tuple(target.shape)}; they must"
            " be the same"
        )
    check_reduction(name, reduction)


def _together(x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return both in their common dtype, in which 0-D tensors count as others."""
    kind = promote(x.dtype, target.dtype)
    if x is target:
        x, target = distinct((x, target))
    return converted(x, kind), converted(target, kind)


def _apart(x: Tensor, target: Tensor) -> Tensor:
    """Return absolute differences of floats, of 2-byte ones in float32: not rounded."""
    wide = statistic_dtype(x.dtype)
    return abs(converted(x, wide) - converted(target, wide))


@autocast_float32
@replayable
def mse_loss(x: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Return the squared differences.

    Parameters
    ----------
    x, target : Tensor
        Float, of shapes that broadcast.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.

    Returns
    -------
    Tensor
        A scalar, or with "none" the broadcast shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast, or the reduction is unknown.
    """
    refuse_complex("mse_loss", x=x, target=target)
    _check("mse_loss", x, target, reduction)
    x, target = _together(x, target)
    out = reduced(square(x - target), reduction)
    if out.grad_node is not None:
        show_as(out, "MseLossBackward0", x, target)
    return out


@autocast_float32
@replayable
def l1_loss(x: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Return the absolute differences; parameters as in `mse_loss`."""
    _check("l1_loss", x, target, reduction)
    if bool_ not in (x.dtype, target.dtype):
        x, target = _together(x, target)
    return reduced(abs(x - target), reduction)


@autocast_float32
@replayable
def smooth_l1_loss(
    x: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """Return absolute differences, which below `beta` become a parabola.

    With d = abs(x - target): d^2 / (2 beta) where d < beta, else d - beta / 2. `beta` 0
    gives `l1_loss`. Other parameters as in `mse_loss`.

    Raises
    ------
    ShapeError
        Also if `beta` is negative.
    """
    _check("smooth_l1_loss", x, target, reduction)
    x, target = _together(x, target)
    need_real_float("smooth_l1_loss", x=x)
    if beta < 0:
        raise ShapeError(f"smooth_l1_loss: beta is {beta}; it must be at least 0")
    if beta == 0:
        return l1_loss(x, target, reduction=reduction)
    apart = _apart(x, target)
    curve = square(apart) * (0.5 / beta)
    losses = where(apart < beta, curve, apart - 0.5 * beta)
    out = converted(reduced(losses, reduction), x.dtype)
    if out.grad_node is not None:
        show_as(out, "SmoothL1LossBackward0", x, target)
    return out


@autocast_float32
@replayable
def huber_loss(
    x: Tensor, target: Tensor, *, reduction: str = "mean", delta: float = 1.0
) -> Tensor:
    """Return half the squared differences, which from `delta` on become lines.

    With d = abs(x - target): d^2 / 2 where d <= delta, else delta (d - delta / 2).
    Other parameters as in `mse_loss`.

    Raises
    ------
    ShapeError
        Also if `delta` is not above 0.

    Notes
    -----
    Source: Huber, Robust Estimation of a Location Parameter, 1964.
    """
    refuse_complex("huber_loss", x=x, target=target)
    _check("huber_loss", x, target, reduction)
    result = x.dtype
    if not result.is_float:
        raise DTypeError(f"huber_loss: x is {result.name}; it must be a float dtype")
    x, target = _together(x, target)
    if delta <= 0:
        raise ShapeError(f"huber_loss: delta is {delta}; it must be above 0")
    apart = _apart(x, target)
    lines = (apart - 0.5 * delta) * delta
    losses = where(apart <= delta, square(apart) * 0.5, lines)
    out = converted(reduced(losses, reduction), result)
    if out.grad_node is not None:
        show_as(out, "HuberLossBackward0", x, target)
    return out


def _binary_losses(x: np.ndarray, target: np.ndarray) -> np.ndarray:
    for name, given in (("x", x), ("target", target)):
        wrong = ~((given >= 0) & (given <= 1))
        if wrong.any():
            raise DomainError(
                f"binary_cross_entropy: a number of {name} is {given[wrong].flat[0]};"
                " it must be from 0 to 1"
            )
    likely = np.maximum(np.log(x), LEAST_LOGARITHM)
    unlikely = np.maximum(np.log1p(-x), LEAST_LOGARITHM)
    return (target - 1) * unlikely - target * likely


@elementwise(
    glsl="!(target >= 0.0 && target <= 1.0) ? 0.0 / 0.0 : (target - 1.0)"
    " * (precise_log1p(-x) < -100.0 ? -100.0 : precise_log1p(-x))"
    " - target * (precise_log(x) < -100.0 ? -100.0 : precise_log(x))",
    reference=_binary_losses,
    dtypes=FLOAT,
)
def _binary_cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    """Return the cross entropy of probabilities, with logarithms of at least -100."""


@_binary_cross_entropy.vjp
def _binary_cross_entropy_vjp(
    grad: Tensor, x: Tensor, target: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None]:
    # Last times the gradient, which in float16 may be a few of its smallest steps.
    grad_x = grad * ((x - target) / clamp_min((1.0 - x) * x, LEAST_SPREAD))
    if not needs[1]:
        return grad_x, None
    likely = clamp_min(log(x), LEAST_LOGARITHM)
    return grad_x, grad * (clamp_min(log1p(-x), LEAST_LOGARITHM) - likely)


@autocast_float32
@replayable
def binary_cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-probability of targets between 0 and 1.

    Parameters
    ----------
    x : Tensor
        Float probabilities. Logarithms are cut at -100, and their
        slopes at 10^12, as in PyTorch; `binary_cross_entropy_with_logits` needs no cut.
    target : Tensor, shape of `x`
        Probabilities wanted, from 0 to 1.
    weight : Tensor or None
        Factors of the losses, of a shape that broadcasts to theirs.
    reduction : str, default "mean"
        As in `mse_loss`; weights are no part of the count.

    Raises
    ------
    ShapeError
        If the shapes differ, or the reduction is unknown.
    DomainError
        If, on the host, a number is not from 0 to 1; on a device its loss is NaN.
    """
    _check_same("binary_cross_entropy", x, target, reduction)
    need_one_dtype("binary_cross_entropy", x=x, target=target)
    if x is target:
        x, target = distinct((x, target))
    losses = _binary_cross_entropy(x, target)
    out = reduced(losses if weight is None else losses * weight, reduction)
    if out.grad_node is not None:
        show_as(out, "BinaryCrossEntropyBackward0", x, target)
    return out


@autocast_float32
@replayable
def binary_cross_entropy_with_logits(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return `binary_cross_entropy` of sigmoid(x), without overflow or cut.

    Parameters
    ----------
    x : Tensor
        Float.
    target : Tensor, shape of `x`
        Probabilities wanted.
    weight : Tensor or None
        Factors of the losses, of a shape that broadcasts to theirs.
    reduction : str, default "mean"
        As in `mse_loss`.
    pos_weight : Tensor or None
        Factors of the losses of what is wanted to be 1, likewise.

    Raises
    ------
    ShapeError
        If the shapes differ, or the reduction is unknown.
    """
    _check_same("binary_cross_entropy_with_logits", x, target, reduction)
    if not target.dtype.is_float:
        raise DTypeError(
            "binary_cross_entropy_with_logits: target is"
            f" {target.dtype.name}; it must be a float dtype"
        )
    if x is target:
        x, target = distinct((x, target))
    likely = log_sigmoid(x)
    if pos_weight is not None:
        likely = likely * (target * (pos_weight - 1.0) + 1.0)
    # As in PyTorch, which computes the losses where it has inverted the target.
    losses = converted((1.0 - target) * x - likely, target.dtype)
    if weight is not None:
        losses = converted(losses * weight, losses.dtype)
    out = reduced(losses, reduction)
    if out.grad_node is not None:
        show_as(out, "BinaryCrossEntropyWithLogitsBackward0", x, target)
    return out


@autocast_float32
@replayable
def kl_div(
    x: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """Return the terms of the Kullback-Leibler divergence of `target` from exp(x).

    Parameters
    ----------
    x : Tensor
        Float log-probabilities.
    target : Tensor
        Probabilities, of a shape that broadcasts; 0 contributes 0.
    reduction : str, default "mean"
        As in `mse_loss`, or "batchmean": the sum by the size of dimension 0, which is
        the divergence itself.
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
    need_real_float("kl_div", x=x, target=target)
    broadcast_shapes("kl_div", x.layout.shape, target.layout.shape)
    check_reduction("kl_div", reduction, (*REDUCTIONS[:2], "batchmean", "none"))
    if log_target:
        losses = exp(target) * (target - x)
    else:
        present = where(eq(target, 0.0), 1.0, target)
        losses = target * log(present) - target * x
    if reduction == "batchmean":
        return sum(losses) / float(losses.shape[0]) if losses.ndim else sum(losses)
    return reduced(losses, reduction)


@autocast_float32
@replayable
def hinge_embedding_loss(
    x: Tensor, target: Tensor, *, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """Return `x` where the target is 1, and max(0, margin - x) where it is -1.

    Any other target has both. Other parameters as in `mse_loss`.
    """
    _check("hinge_embedding_loss", x, target, reduction)
    apart = clamp_min(margin - x, 0.0)
    losses = where(eq(target, -1.0), 0.0, x) + where(eq(target, 1.0), 0.0, apart)
    if not x.dtype.is_differentiable:
        losses = cast(losses, x.dtype)
    return reduced(losses, reduction)


@autocast_float32
@replayable
def margin_ranking_loss(
    x1: Tensor,
    x2: Tensor,
    target: Tensor,
    *,
    margin: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, margin - target * (x1 - x2)): 1 wants `x1` larger, -1 `x2`."""
    broadcast_shapes(
        "margin_ranking_loss", x1.layout.shape, x2.layout.shape, target.layout.shape
    )
    check_reduction("margin_ranking_loss", reduction)
    apart = target * (x1 - x2)
    losses = margin - apart if apart.dtype.is_signed else margin + -apart
    return reduced(clamp_min(losses, 0.0), reduction)
