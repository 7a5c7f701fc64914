"""Von Mises distribution, over angles."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .. import ops
from ..autograd.grad_mode import no_grad
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import LOG_2_PI, Distribution, Number, broadcast_all, filled

MOST_ROUNDS = 64
"""At most a third of the proposals of a round is rejected: 3^-64 remain."""


class VonMises(Distribution):
    """Von Mises distribution.

    Parameters
    ----------
    loc : float or Tensor
        Mean angle, in radians.
    concentration : float or Tensor
        Above 0.
    validate_args : bool, optional
        See `Distribution`.

    Notes
    -----
    Draws: Best and Fisher, Efficient Simulation of the von Mises Distribution, 1979.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    _parameters = {"loc": 0, "concentration": 0}

    def __init__(
        self, loc: Number, concentration: Number, validate_args: bool | None = None
    ) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def _log_norm(self) -> Tensor:
        """Logarithm of 2 pi I0(concentration)."""
        return LOG_2_PI + ops.log(ops.i0e(self.concentration)) + self.concentration

    @property
    def mean(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Circular variance."""
        return 1 - ops.i1e(self.concentration) / ops.i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return self.concentration * ops.cos(value - self.loc) - self._log_norm

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return angles from -pi to pi, without a gradient."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            kappa = self.concentration.expand(shape)
            tau = 1 + (1 + 4 * kappa.square()).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
            exact = (1 + rho.square()) / (2 * rho)
            # Of small concentrations the difference above loses its digits.
            r = ops.where(kappa < 1e-3, 1 / kappa + kappa, exact)
            angle = filled(0, kappa)
            done = filled(0, kappa) != 0
            for _ in range(MOST_ROUNDS):
                u = ops.draw_uniform(kappa, (3, *shape), kappa.dtype)
                z = ops.cos(math.pi * u[0])
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                rest = 1 - u[1]
                accepted = (c * (2 - c) > rest) | ((c / rest).log() + 1 - c >= 0)
                turned = ops.where(u[2] < 0.5, -1.0, 1.0) * ops.acos(f.clamp(-1, 1))
                angle = ops.where(~done & accepted, turned, angle)
                done = done | accepted
                if bool(done.all()):
                    break
            whole = angle + math.pi + self.loc
            return ops.remainder(whole, 2 * math.pi) - math.pi
