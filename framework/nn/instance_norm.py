"""Instance normalisation layers."""

from __future__ import annotations

from .. import ops
from ..tensor.tensor import Tensor
from .batchnorm import NormBase


class _InstanceNorm(NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` normalised; in evaluation with the running statistics, if any."""
        self.check(x)
        return ops.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            self.momentum or 0.0,
            self.eps,
        )


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sequence; see `InstanceNorm2d`."""

    shapes = (3,)
    expected = "(batch, {0}, length)"


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each image to mean 0 and variance 1.

    Parameters
    ----------
    num_features : int
        Size of dimension 1.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float, default 0.1
        Share of each batch in the running statistics.
    affine : bool, default False
        Whether there are a scale `weight` and a shift `bias`.
    track_running_stats : bool, default False
        Whether there are `running_mean` and `running_var`, used in evaluation.

    Notes
    -----
    Source: Ulyanov, Vedaldi and Lempitsky, arXiv:1607.08022.
    """

    shapes = (4,)
    expected = "(batch, {0}, height, width)"
