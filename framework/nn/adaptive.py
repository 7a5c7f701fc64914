"""Adaptive softmax: frequent classes in full, rare ones in clusters of fewer features.

Source: Grave et al., Efficient softmax approximation for GPUs, arXiv:1609.04309.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import ops
from ..base.dtype import DTypeLike, int64
from ..base.errors import ShapeError
from ..base.validation import as_ints
from ..tensor.factories import DeviceLike
from ..tensor.tensor import Tensor
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module


class AdaptiveLogSoftmaxOutput(NamedTuple):
    """Log-probabilities of the targets, and the negative of their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax over many classes, sorted by frequency, and its loss.

    Parameters
    ----------
    in_features : int
    n_classes : int
    cutoffs : sequence of int
        Increasing; classes below the first are in the head, those from one cutoff to
        the next in a cluster.
    div_value : float, default 4
        Each cluster has as many times fewer features than the one before it.
    head_bias : bool, default False
        Whether the head has a bias.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the parameters.

    Raises
    ------
    ShapeError
        If the cutoffs do not increase from 1 to below `n_classes`.

    Notes
    -----
    Every row goes through every cluster, unlike in PyTorch, where those rows go through
    one whose target is in it: which they are would have to be read back.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        ends = as_ints("AdaptiveLogSoftmaxWithLoss: cutoffs", cutoffs)
        if (
            not ends
            or list(ends) != sorted(set(ends))
            or ends[0] < 1
            or ends[-1] > n_classes - 1
        ):
            raise ShapeError(
                f"AdaptiveLogSoftmaxWithLoss: cutoffs are {ends}; they must increase,"
                f" from at least 1 to at most {n_classes - 1}"
            )
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*ends, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for k in range(self.n_clusters):
            inner = int(in_features // div_value ** (k + 1))
            size = self.cutoffs[k + 1] - self.cutoffs[k]
            self.tail.append(
                Sequential(
                    Linear(in_features, inner, bias=False, **made),
                    Linear(inner, size, bias=False, **made),
                )
            )

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        self.head.reset_parameters()
        for module in self.tail.modules():
            if isinstance(module, Linear):
                module.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> AdaptiveLogSoftmaxOutput:
        """Return the log-probability of each target, and the loss.

        Parameters
        ----------
        input_ : Tensor, shape (batch, in_features) or (in_features,)
        target_ : Tensor, shape (batch,) or (), integer

        Returns
        -------
        AdaptiveLogSoftmaxOutput
            `output` of the shape of `target_`, and the scalar `loss`.

        Raises
        ------
        ShapeError
            If shapes do not fit or, on the host, a target is no class.
        """
        if input_.ndim != target_.ndim + 1 or input_.shape[:-1] != target_.shape:
            raise ShapeError(
                f"AdaptiveLogSoftmaxWithLoss: input is {tuple(input_.shape)}, target"
                f" {tuple(target_.shape)}; they must be (batch, features) and"
                " (batch,), or"
                " without batch"
            )
        if target_.is_cpu and target_.numel():
            labels = target_.host_copy()
            if labels.min() < 0 or labels.max() >= self.n_classes:
                raise ShapeError(
                    f"AdaptiveLogSoftmaxWithLoss: targets are from {labels.min()} to"
                    f" {labels.max()}; they must be from 0 to {self.n_classes - 1}"
                )
        head = ops.log_softmax(self.head(input_), -1)
        first = self.shortlist_size
        column = ops.unsqueeze(target_, -1)
        output = ops.gather(head, -1, ops.clamp_max(column, first - 1))
        for k, cluster in enumerate(self.tail):
            start, end = self.cutoffs[k], self.cutoffs[k + 1]
            place = ops.clamp(column - start, 0, end - start - 1)
            inner = ops.gather(ops.log_softmax(cluster(input_), -1), -1, place)
            found = inner + ops.narrow(head, -1, first + k, 1)
            output = ops.where((column >= start) & (column < end), found, output)
        output = ops.cast(ops.squeeze(output, -1), input_.dtype)
        return AdaptiveLogSoftmaxOutput(output, -ops.mean(output))

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes, (batch, n_classes)."""
        head = ops.log_softmax(self.head(input), -1)
        first = self.shortlist_size
        parts = [ops.narrow(head, -1, 0, first)]
        for k, cluster in enumerate(self.tail):
            inner = ops.log_softmax(cluster(input), -1)
            parts.append(inner + ops.narrow(head, -1, first + k, 1))
        return ops.cat(parts, -1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the class of highest probability of each row."""
        return ops.argmax(self.log_prob(input), -1).to(int64)
