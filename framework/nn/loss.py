"""Losses as layers."""

from __future__ import annotations

from .. import ops
from ..tensor import Tensor
from .module import Module


class CrossEntropyLoss(Module):
    """Negative log-probability of class labels under the softmax of logits.

    Parameters
    ----------
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
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.label_smoothing = label_smoothing

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss; see `ops.cross_entropy`.

        Parameters
        ----------
        logits : Tensor, shape (batch, classes) or (batch, classes, ...)
        labels : Tensor, shape (batch,) or (batch, ...), an integer dtype

        Returns
        -------
        Tensor
            A scalar, or one loss per row with "none".
        """
        return ops.cross_entropy(
            logits,
            labels,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
        )
