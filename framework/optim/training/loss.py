"""Losses of a training: of a batch, and of several batches as one large one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...nn.module import Module
from ...tensor.tensor import Tensor
from .evaluate import size_of, split_batch


class BatchLoss:
    """Loss of a model on a batch: a function of outputs and targets, applied to it."""

    def __init__(self, model: Module, loss: Callable[..., Tensor]) -> None:
        self.model = model
        self.loss = loss

    def __call__(self, *batch: Any) -> Tensor:
        """Return the loss of a batch of inputs and, at its end, targets."""
        inputs, targets = split_batch(batch)
        return self.loss(self.model(*inputs), targets)


class AccumulatedLoss:
    """Losses of several batches, weighted to sum to the mean of the large batch."""

    def __init__(self, closure: Callable[..., Tensor]) -> None:
        self.closure = closure

    def losses(self, *batches: Any) -> Iterator[Tensor]:
        """Yield the weighted loss of each batch; all but one are freed in between."""
        sizes = [size_of(batch) for batch in batches]
        total = sum(sizes)
        for size, batch in zip(sizes, batches):
            yield self.closure(*batch) * (size / total)

    def __call__(self, *batches: Any) -> Tensor:
        """Return the loss of the large batch."""
        first, *others = self.losses(*batches)
        for each in others:
            first = first + each
        return first
