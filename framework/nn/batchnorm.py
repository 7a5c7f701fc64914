"""Batch normalisation layers, and the base that instance normalisation shares."""

from __future__ import annotations

from .. import ops
from ..autograd.engine import no_grad
from ..base import trace_hooks
from ..base.dtype import int64
from ..base.errors import ShapeError
from ..base.validation import as_int
from ..ir.lazy_graph import Value
from ..tensor.factories import ones, zeros
from ..tensor.tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter


class NormBase(Module):
    """Base of normalisation layers: scale, shift and running statistics of channels.

    Subclasses define the accepted shapes, and `forward`.
    """

    shapes: tuple[int, ...]
    expected: str

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        name = type(self).__name__
        self.num_features = num_features = as_int(f"{name}: num_features", num_features)
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.weight = Parameter(ones(num_features)) if affine else None
        self.bias = Parameter(zeros(num_features)) if affine else None
        self.running_mean: Tensor | None = None
        self.running_var: Tensor | None = None
        if track_running_stats:
            self.register_buffer("running_mean", zeros(num_features))
            self.register_buffer("running_var", ones(num_features))
            # Python reads it where `momentum` is None, so it never leaves the host.
            self.num_batches_tracked = zeros((), int64)
            self.register_buffer(
                "num_batches_tracked", self.num_batches_tracked, on_host=True
            )

    def reset_running_stats(self) -> None:
        """Reset the running statistics."""
        if self.running_mean is not None and self.running_var is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """Set scale to 1 and shift to 0, and reset the running statistics."""
        self.reset_running_stats()
        if self.weight is not None and self.bias is not None:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def check(self, x: Tensor) -> None:
        """Raise `ShapeError` if the layer does not accept the shape."""
        if x.ndim not in self.shapes or x.shape[1] != self.num_features:
            raise ShapeError(
                f"{type(self).__name__}: x is {tuple(x.shape)};"
                f" it must be {self.expected.format(self.num_features)}"
            )

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum},"
            f" affine={self.affine}, track_running_stats={self.track_running_stats}"
        )


class _BatchCounter:
    """Batch counter, as a host action of a trace."""

    def __init__(self, module: NormBase) -> None:
        self._module = module

    def __call__(self) -> None:
        with no_grad():
            self._module.num_batches_tracked.add_(1)

    def mark(self) -> Value:
        """Return the count so far."""
        return self._module.num_batches_tracked.array.value

    def take_back(self, mark: Value) -> None:
        """Restore an earlier count."""
        count = self._module.num_batches_tracked.array
        if count.value is not mark:
            count.rebind(mark)


class _BatchNorm(NormBase):
    def forward(self, x: Tensor) -> Tensor:
        """Return `x` normalised by the batch's statistics, or by the running ones.

        The batch's are used, and tracked, in training; also where none are tracked.
        """
        self.check(x)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            trace_hooks.each_time(_BatchCounter(self))
            if self.momentum is None:
                trace_hooks.once("BatchNorm without momentum averages all batches")
                momentum = 1.0 / self.num_batches_tracked.item()
        return ops.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            training=self.training or self.running_mean is None,
            momentum=momentum,
            eps=self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalises each feature over a batch of vectors or sequences.

    Parameters
    ----------
    num_features : int
        Size of dimension 1.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float or None, default 0.1
        Share of each batch in the running statistics; None averages all batches.
    affine : bool, default True
        Whether there are a scale `weight` and a shift `bias`.
    track_running_stats : bool, default True
        Whether there are `running_mean`, `running_var` and `num_batches_tracked`.

    Notes
    -----
    Source: Ioffe and Szegedy, arXiv:1502.03167.
    """

    shapes = (2, 3)
    expected = "(batch, {0}) or (batch, {0}, length)"


class BatchNorm2d(_BatchNorm):
    """Normalises each channel over a batch of images; see `BatchNorm1d`."""

    shapes = (4,)
    expected = "(batch, {0}, height, width)"
