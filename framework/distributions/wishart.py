"""Distribution of Wishart, over positive definite matrices."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from .. import ops
from ..base import trace_hooks
from ..base.shape import broadcast_shapes
from ..ops import linear_algebra as linalg
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import EPS, ExponentialFamily, Number, counted
from .gamma import Chi2
from .multivariate_normal import ByCovariance, log_diagonal

TRIES = 10
"""How often draws that are not positive definite are drawn anew."""


class Wishart(ByCovariance, ExponentialFamily):
    """Distribution of the scatter matrix of normal vectors.

    Parameters
    ----------
    df : float or Tensor
        Degrees of freedom, above n - 1.
    covariance_matrix, precision_matrix, scale_tril : Tensor or None
        One of them, (..., n, n): the covariance of the vectors, its inverse, or its
        Cholesky factor.
    validate_args : bool, optional
        See `Distribution`.

    Raises
    ------
    AssertionError
        If not exactly one matrix is given.
    ValueError
        If the matrix has fewer than 2 dimensions, or `df` is not above n - 1.

    Warns
    -----
    UserWarning
        If `df` is below n, where draws are close to singular.

    Examples
    --------
    >>> wishart = Wishart(3.0, covariance_matrix=fw.eye(2))
    >>> wishart.mean.tolist()
    [[3.0, 0.0], [0.0, 3.0]]

    Notes
    -----
    Draws are Bartlett's: the factor times a lower triangle of normal draws, with the
    roots of chi-squared draws on the diagonal.
    """

    has_rsample = True
    support: Any = constraints.positive_definite
    _number_error = AssertionError
    _parameters = {
        "df": 0,
        "covariance_matrix": 2,
        "precision_matrix": 2,
        "scale_tril": 2,
        "_unbroadcasted_scale_tril": 2,
    }

    @property
    def arg_constraints(self) -> Mapping[str, constraints.Constraint]:  # type: ignore[override]  # of `df` known by the size
        """Constraints of the parameters, by name."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Number,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = self._one_matrix(covariance_matrix, precision_matrix, scale_tril)
        batch = tuple(matrix.shape[:-2])
        if isinstance(df, Tensor):
            batch = broadcast_shapes("Wishart", batch, tuple(df.shape))
            self.df = df.expand(batch)
        else:
            self.df = tensor(df, dtype=matrix.dtype, device=matrix.device).expand(batch)
        event = tuple(matrix.shape[-2:])
        self._check_freedom(df, event[-1])
        setattr(self, name, matrix.expand((*batch, -1, -1)))
        super().__init__(batch, event, validate_args)
        self._take_factor(name, matrix)

    def _check_freedom(self, df: Number, size: int) -> None:
        if trace_hooks.running:
            return
        if bool((self.df <= size - 1).any()):
            raise ValueError(
                f"Wishart: df is {df}; it must be above n - 1 = {size - 1} for matrices"
                f" of {size} rows"
            )
        if bool((self.df < size).any()):
            warnings.warn(
                f"Wishart: df is {df}, below n = {size}: draws are close to singular",
                stacklevel=3,
            )

    def _for_matrices(self, value: Tensor) -> Tensor:
        return value.reshape((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Tensor:
        """`df` times the covariance."""
        return self._for_matrices(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """`df - n - 1` times the covariance; NaN where that is not above 0."""
        factor = self.df - self._event_shape[-1] - 1
        factor = ops.where(factor <= 0, math.nan, factor)
        return self._for_matrices(factor) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """Variance of each element."""
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(0, -2, -1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._for_matrices(self.df) * (covariance.square() + outer)

    def _drawn(self, sample_shape: tuple[int, ...]) -> Tensor:
        size = self._event_shape[-1]
        freedom = self.df.unsqueeze(-1) - counted(size, self._unbroadcasted_scale_tril)
        roots = Chi2(freedom, validate_args=False).rsample(sample_shape).sqrt()
        roots = roots.clamp(min=EPS[roots.dtype.name])
        shape = (*sample_shape, *self._batch_shape, size, size)
        below = ops.draw_normal(self.df, shape, roots.dtype).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (below + ops.diag_embed(roots))
        return factor @ factor.mT

    def rsample(
        self, sample_shape: Iterable[int] = (), max_try_correction: int | None = None
    ) -> Tensor:
        """Return draws, with gradients.

        Parameters
        ----------
        sample_shape : sequence of int, default ()
        max_try_correction : int, optional
            How often draws that rounding made singular are drawn anew; 10 if not
            given. In a function under `fw.jit` none is.
        """
        shape = (
            (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        )
        drawn = self._drawn(shape)
        tries = TRIES if max_try_correction is None else max_try_correction
        for _ in range(0 if trace_hooks.running else tries):
            regular = self.support.check(drawn.detach())
            if bool(regular.all()):
                break
            drawn = ops.where(regular[..., None, None], drawn, self._drawn(shape))
        return drawn

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at matrices `value`."""
        if self._validate_args:
            self._validate_sample(value)
        size, tril = self._event_shape[-1], self._unbroadcasted_scale_tril
        solved = linalg.cholesky_solve(value, tril)
        trace = solved.diagonal(0, -2, -1).sum(-1)
        scale = size * math.log(2) / 2 + log_diagonal(tril)
        power = (self.df - size - 1) / 2 * linalg.slogdet(value)[1]
        result: Tensor = (
            -self.df * scale - ops.mvlgamma(self.df / 2, size) + power - trace / 2
        )
        return result

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        size = self._event_shape[-1]
        scale = size * math.log(2) / 2 + log_diagonal(self._unbroadcasted_scale_tril)
        halves = self.df.unsqueeze(-1) / 2 - counted(size, self.df) / 2
        slope = (self.df - size - 1) / 2 * ops.digamma(halves).sum(-1)
        result: Tensor = (
            (size + 1) * scale
            + ops.mvlgamma(self.df / 2, size)
            - slope
            + self.df * size / 2
        )
        return result
