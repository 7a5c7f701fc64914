"""Losses that want a margin, as layers."""

from __future__ import annotations

from collections.abc import Callable

from ..base.docstring import shares_parameters
from ..base.errors import ShapeError
from ..tensor.tensor import Tensor
from . import functional
from .loss import Loss, _Pair, _Weighted


class HingeEmbeddingLoss(_Pair, function=functional.hinge_embedding_loss):
    """Distances where targets are 1, and what they lack to `margin` where they are -1.

    Parameters
    ----------
    margin : float, default 1
        Distance that is enough.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


@shares_parameters(functional.soft_margin_loss)
class SoftMarginLoss(_Pair, function=functional.soft_margin_loss):
    """log(1 + exp(-target * input)), for targets of -1 and 1."""


@shares_parameters(functional.multilabel_margin_loss)
class MultiLabelMarginLoss(_Pair, function=functional.multilabel_margin_loss):
    """What other classes lack to 1 below all targets.

    See `functional.multilabel_margin_loss`.
    """


class MultiLabelSoftMarginLoss(
    _Weighted, function=functional.multilabel_soft_margin_loss
):
    """Binary cross entropies of all classes, averaged over these.

    Parameters
    ----------
    weight : Tensor or None
        Factors of the classes.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
    """


class MultiMarginLoss(_Pair, function=functional.multi_margin_loss):
    """What other classes lack to the margin below the target.

    Parameters
    ----------
    p : int, default 1
        Power of what is lacking: 1 or 2.
    margin : float, default 1
    weight : Tensor, shape (classes,), or None
        Factor of each class as a target.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"

    Raises
    ------
    ValueError
        If `p` is another, or `weight` is not 1-D.
    """

    weight: Tensor | None

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p is {p}; it must be 1 or 2")
        if weight is not None and weight.ndim != 1:
            raise ShapeError(
                f"MultiMarginLoss: weight is {tuple(weight.shape)}; it must be"
                " (classes,)"
            )
        self.p = p
        self.margin = margin
        self.register_buffer("weight", weight)


class _Embedded(Loss):
    """A loss of two tensors and what they should be to each other."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]  # layers differ in what they take
        """Return the loss."""
        options = {"margin": self.margin, "reduction": self.reduction}
        loss: Tensor = type(self)._function(input1, input2, target, **options)
        return loss


class MarginRankingLoss(_Embedded, function=functional.margin_ranking_loss):
    """What the one lacks that should be larger than the other by `margin`.

    Parameters
    ----------
    margin : float, default 0
        Difference that is enough.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    """


class CosineEmbeddingLoss(_Embedded, function=functional.cosine_embedding_loss):
    """1 - cos where targets are 1, and what it is above `margin` where they are -1.

    Parameters
    ----------
    margin : float, default 0
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    """


class _Triplet(Loss):
    """A loss of an anchor, a positive and a negative."""

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:  # type: ignore[override]  # layers differ in what they take
        """Return the loss."""
        options = {name: getattr(self, name) for name in self.options}
        loss: Tensor = type(self)._function(anchor, positive, negative, **options)
        return loss


class TripletMarginLoss(_Triplet, function=functional.triplet_margin_loss):
    """What negatives lack to be further from anchors than positives.

    Parameters
    ----------
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
        If `margin` is not above 0.
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginLoss: margin is {margin}; it must be above 0"
            )
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap


class TripletMarginWithDistanceLoss(
    _Triplet, function=functional.triplet_margin_with_distance_loss
):
    """`TripletMarginLoss` for another distance.

    Parameters
    ----------
    distance_function : callable or None
        Of two tensors; None means `functional.pairwise_distance`.
    margin, swap, reduction
        As in `TripletMarginLoss`.
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: margin is {margin}; it must be above 0"
            )
        self.distance_function = distance_function or functional.pairwise_distance
        self.margin = margin
        self.swap = swap
