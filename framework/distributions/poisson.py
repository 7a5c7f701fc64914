"""Poisson distribution."""

from __future__ import annotations

from collections.abc import Iterable

from .. import ops
from ..autograd.grad_mode import no_grad
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import ExponentialFamily, Number, broadcast_all


class Poisson(ExponentialFamily):
    """Poisson distribution.

    Parameters
    ----------
    rate : float or Tensor
        Mean, at least 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _parameters = {"rate": 0}

    def __init__(self, rate: Number, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """`rate`."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """`rate`, rounded down."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """`rate`."""
        return self.rate

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return draws without a gradient."""
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return ops.xlogy(value, self.rate) - self.rate - ops.lgamma(value + 1)
