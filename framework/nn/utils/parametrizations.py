"""Parametrizations that are often used: weight norm, spectral norm."""

from __future__ import annotations

from typing import TypeVar

from ...autograd.grad_mode import no_grad
from ...tensor.tensor import Tensor
from ..module import Module
from .parametrize import register_parametrization
from .spectral_norm import as_matrix, drawn, normalized
from .weight_norm import norm_except, scaled

M = TypeVar("M", bound=Module)


class _WeightNorm(Module):
    """A weight of its length, `original0`, and its direction, `original1`."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = None if dim == -1 else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """Return the weight."""
        return scaled(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return length and direction of a weight."""
        return norm_except(weight, self.dim), weight


def weight_norm(module: M, name: str = "weight", dim: int = 0) -> M:
    """Replace a parameter by its length and direction; return the module.

    Parameters
    ----------
    module : Module
    name : str, default "weight"
    dim : int, default 0
        Dimension along which there is a length each.

    Notes
    -----
    They are `parametrizations.<name>.original0` and `original1` in the state. Source:
    Salimans and Kingma, arXiv:1602.07868.
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    return module


def _iterated(
    matrix: Tensor, v: Tensor, count: int, eps: float
) -> tuple[Tensor, Tensor]:
    """Return singular vectors after steps of the power method, from the right one."""
    for _ in range(count):
        u = normalized(matrix @ v, eps)
        v = normalized(matrix.mT @ u, eps)
    return u, v


class _SpectralNorm(Module):
    """A weight divided by its largest singular value."""

    _u: Tensor
    _v: Tensor

    def __init__(
        self,
        weight: Tensor,
        n_power_iterations: int = 1,
        dim: int = 0,
        eps: float = 1e-12,
    ) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"spectral_norm: dim is {dim}; the weight has {weight.ndim} dimensions"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            if n_power_iterations <= 0:
                raise ValueError(
                    f"spectral_norm: n_power_iterations is {n_power_iterations}; it"
                    " must be at least 1"
                )
            self.n_power_iterations = n_power_iterations
            with no_grad():
                matrix = as_matrix(weight.detach(), self.dim)
                v = drawn(matrix.shape[1], weight, eps)
                # The vectors are near the singular ones from the start.
                u, v = _iterated(matrix, v, 15, eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight; in training after steps of the power method."""
        if weight.ndim == 1:
            result: Tensor = weight / (weight * weight).sum().sqrt().clamp(min=self.eps)
            return result
        matrix = as_matrix(weight, self.dim)
        u, v = self._u.clone(), self._v.clone()
        if self.training:
            with no_grad():
                count = self.n_power_iterations
                u, v = _iterated(matrix.detach(), v, count, self.eps)
                self._u.copy_(u)
                self._v.copy_(v)
        return weight / (u @ (matrix @ v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the value, which is taken for normalised."""
        return value


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divide a parameter by its largest singular value; return the module.

    Parameters
    ----------
    module : Module
    name : str, default "weight"
    n_power_iterations : int, default 1
        Steps of the power method at each reading in training.
    eps : float, default 1e-12
        Least length of a singular vector.
    dim : int, optional
        Dimension of the outputs; None means 0, and 1 for transposed convolutions.

    Notes
    -----
    Source: Miyato et al., arXiv:1802.05957.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(
            f"spectral_norm: {type(module).__name__} has no parameter '{name}'"
        )
    if dim is None:
        dim = int("ConvTranspose" in type(module).__name__)
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    register_parametrization(module, name, made)
    return module
