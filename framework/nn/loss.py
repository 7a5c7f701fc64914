"""Losses as layers."""

from __future__ import annotations

from .. import ops
from ..ops.loss import REDUCTIONS, check_reduction
from ..tensor import Tensor
from .module import Module


class _Loss(Module):
    """A loss that is reduced.

    Parameters
    ----------
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    """

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


class MSELoss(_Loss):
    """Squared differences."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss; see `ops.mse_loss`."""
        return ops.mse_loss(x, target, reduction=self.reduction)


class L1Loss(_Loss):
    """Absolute differences."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss; see `ops.l1_loss`."""
        return ops.l1_loss(x, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
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

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss; see `ops.smooth_l1_loss`."""
        return ops.smooth_l1_loss(x, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
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

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss; see `ops.huber_loss`."""
        return ops.huber_loss(x, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(_Loss):
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

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss; see `ops.kl_div`."""
        return ops.kl_div(
            x, target, reduction=self.reduction, log_target=self.log_target
        )


class BCELoss(_Weighted):
    """Cross entropy of probabilities of two classes.

    Parameters
    ----------
    weight : Tensor or None
        Factors of the losses, of a shape that broadcasts to theirs.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    """

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss; see `ops.binary_cross_entropy`."""
        return ops.binary_cross_entropy(
            x, target, self.weight, reduction=self.reduction
        )


class BCEWithLogitsLoss(_Weighted):
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

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss; see `ops.binary_cross_entropy_with_logits`."""
        return ops.binary_cross_entropy_with_logits(
            x,
            target,
            self.weight,
            reduction=self.reduction,
            pos_weight=self.pos_weight,
        )


class NLLLoss(_Weighted):
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

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return the loss; see `ops.nll_loss`."""
        return ops.nll_loss(
            x,
            labels,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class CrossEntropyLoss(_Weighted):
    """Negative log-probability of classes under the softmax of logits.

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

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss; see `ops.cross_entropy`.

        Parameters
        ----------
        logits : Tensor, shape (batch, classes) or (batch, classes, ...)
        labels : Tensor, shape (batch,) or (batch, ...), an integer dtype
            Or probabilities, a float dtype in the shape of `logits`.

        Returns
        -------
        Tensor
            A scalar, or one loss per row with "none".
        """
        return ops.cross_entropy(
            logits,
            labels,
            self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
        )


class HingeEmbeddingLoss(_Loss):
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

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss; see `ops.hinge_embedding_loss`."""
        return ops.hinge_embedding_loss(
            x, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_Loss):
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

    def forward(self, x1: Tensor, x2: Tensor, target: Tensor) -> Tensor:
        """Return the loss; see `ops.margin_ranking_loss`."""
        return ops.margin_ranking_loss(
            x1, x2, target, margin=self.margin, reduction=self.reduction
        )
