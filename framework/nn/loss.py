"""Losses as layers."""

from __future__ import annotations

from .. import ops
from ..ops.loss.elementwise import REDUCTIONS, check_reduction
from ..tensor.tensor import Tensor
from .functional_module import FunctionalModule


class _Loss(FunctionalModule):
    """A loss that is reduced.

    Parameters
    ----------
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    """

    shown = ()
    reductions: tuple[str, ...] = REDUCTIONS

    def __init__(self, *, reduction: str = "mean") -> None:
        check_reduction(type(self).__name__, reduction, self.reductions)
        self.reduction = reduction


class _Weighted(_Loss):
    """A loss with weights, which are a buffer, so they move with the module."""

    def __init__(
        self, weight: Tensor | None = None, *, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.weight: Tensor | None = None
        if weight is not None:
            self.register_buffer("weight", weight)


class MSELoss(_Loss, function=ops.mse_loss):
    """Squared differences."""


class L1Loss(_Loss, function=ops.l1_loss):
    """Absolute differences."""


class SmoothL1Loss(_Loss, function=ops.smooth_l1_loss):
    """Absolute differences, which below `beta` become a parabola.

    Parameters
    ----------
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    beta : float, default 1
        Where the parabola ends.
    """

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.beta = beta


class HuberLoss(_Loss, function=ops.huber_loss):
    """Half the squared differences, which from `delta` on become lines.

    Parameters
    ----------
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    delta : float, default 1
        Where the lines begin.
    """

    def __init__(self, *, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta


class KLDivLoss(_Loss, function=ops.kl_div):
    """Terms of the Kullback-Leibler divergence.

    Parameters
    ----------
    reduction : str, default "mean"
        "mean", "sum", "none", or "batchmean", which is the divergence itself.
    log_target : bool, default False
        Whether targets are log-probabilities.
    """

    reductions = ("mean", "sum", "batchmean", "none")

    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.log_target = log_target


class BCELoss(_Weighted, function=ops.binary_cross_entropy):
    """Cross entropy of probabilities of two classes.

    Parameters
    ----------
    weight : Tensor or None
        Factors of the losses, of a shape that broadcasts to theirs.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    """


class BCEWithLogitsLoss(_Weighted, function=ops.binary_cross_entropy_with_logits):
    """Cross entropy of two classes, from logits.

    Parameters
    ----------
    weight : Tensor or None
        Factors of the losses, of a shape that broadcasts to theirs.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    pos_weight : Tensor or None
        Factors of the losses of what is wanted to be 1, likewise.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, reduction=reduction)
        self.pos_weight: Tensor | None = None
        if pos_weight is not None:
            self.register_buffer("pos_weight", pos_weight)


class NLLLoss(_Weighted, function=ops.nll_loss):
    """Negative log-likelihood of class labels.

    Parameters
    ----------
    weight : Tensor, shape (classes,), or None
        Factor of each class.
    ignore_index : int, default -100
        Labels that count nothing.
    reduction : str, default "mean"
        "mean" by the weights of the labels, "sum", or "none".
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, reduction=reduction)
        self.ignore_index = ignore_index


class CrossEntropyLoss(_Weighted, function=ops.cross_entropy):
    """Negative log-probability of classes under the softmax of logits.

    Called with logits and labels, or probabilities; see `ops.cross_entropy`.

    Parameters
    ----------
    weight : Tensor, shape (classes,), or None
        Factor of each class.
    ignore_index : int, default -100
        Rows with this label count nothing.
    reduction : str, default "mean"
        "mean" over the rows that count, "sum", or "none".
    label_smoothing : float, default 0
        Share of the target spread evenly over the classes, in [0, 1].

    Examples
    --------
    >>> loss = nn.CrossEntropyLoss()
    >>> round(loss(fw.zeros((2, 4)), fw.tensor([1, 3])).item(), 4)
    1.3863
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction=reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing


class HingeEmbeddingLoss(_Loss, function=ops.hinge_embedding_loss):
    """Distances where targets are 1, and what they lack to `margin` where they are -1.

    Parameters
    ----------
    margin : float, default 1
        Distance that is enough.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    """

    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.margin = margin


class MarginRankingLoss(_Loss, function=ops.margin_ranking_loss):
    """What the one lacks that should be larger than the other by `margin`.

    Parameters
    ----------
    margin : float, default 0
        Difference that is enough.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    """

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.margin = margin
