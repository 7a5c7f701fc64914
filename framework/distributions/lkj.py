"""Distribution of Lewandowski, Kurowicka and Joe, over factors of correlations."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .. import ops
from ..tensor.tensor import Tensor
from . import constraints
from .beta import Beta
from .distribution import Distribution, Number, broadcast_all, counted


class LKJCholesky(Distribution):
    """Distribution over the Cholesky factors of correlation matrices.

    The density of a correlation matrix is proportional to its determinant to the power
    `concentration - 1`; 1 is uniform.

    Parameters
    ----------
    dim : int
        Size of the matrices, at least 2.
    concentration : float or Tensor, default 1.0
        Above 0.
    validate_args : bool, optional
        See `Distribution`.

    Raises
    ------
    ValueError
        If `dim` is below 2.

    Notes
    -----
    Source: Lewandowski, Kurowicka and Joe, Generating random correlation matrices based
    on vines and extended onion method, 2009; draws are those of the onion.
    """

    arg_constraints = {"concentration": constraints.positive}
    support: Any = constraints.corr_cholesky
    _parameters = {"concentration": 0}

    def __init__(
        self, dim: int, concentration: Number = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(f"LKJCholesky: dim is {dim}; it must be at least 2")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return draws: each row a point of the sphere around a drawn length."""
        shape = self._extended_shape(sample_shape)
        size = self.dim
        above = counted(size - 1, self.concentration)
        first = self.concentration.unsqueeze(-1) + 0.5 * (size - 2)
        # The first row has no point; the others' squared lengths have a beta law each.
        lengths = Beta(
            (above + 0.5).expand((*self._batch_shape, size - 1)), first - 0.5 * above
        ).sample(sample_shape)
        lengths = ops.cat([lengths.new_zeros((*shape[:-2], 1)), lengths], -1)
        normal = ops.draw_normal(self.concentration, shape, self.concentration.dtype)
        points = normal.detach().tril(-1)
        norms = points.square().sum(-1, True).sqrt()
        points = ops.where(norms > 0, points / norms.clamp(min=1e-38), points)
        rows = lengths.sqrt().unsqueeze(-1) * points
        least = 1.1754943508222875e-38
        diagonal = (1 - rows.square().sum(-1)).clamp(min=least).sqrt()
        drawn: Tensor = rows + ops.diag_embed(diagonal)
        return drawn

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at factors `value`."""
        if self._validate_args:
            self._validate_sample(value)
        size = self.dim
        alpha = self.concentration + 0.5 * (size - 1)
        rows = counted(size - 1, value, start=2)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + size - rows
        diagonal = value.diagonal(0, -2, -1)[..., 1:]
        density = (order * diagonal.log()).sum(-1)
        constant = 0.5 * (size - 1) * math.log(math.pi)
        scale = constant + ops.mvlgamma(alpha - 0.5, size - 1)
        result: Tensor = density - scale + ops.lgamma(alpha) * (size - 1)
        return result
