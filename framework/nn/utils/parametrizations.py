"""Parametrizations that are often used: weight and spectral norm, orthogonality."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from ...autograd.grad_mode import no_grad
from ...ops import cat
from ...ops.linear_algebra import solve
from ...ops.matrix_exponential import matrix_exp
from ...ops.matrix_functions import householder_product
from ...tensor.from_data import tensor
from ...tensor.sequences import eye
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


def _identity(like: Tensor, columns: int | None = None) -> Tensor:
    """Return ones on the diagonal, in a matrix's last sizes, dtype and device."""
    size = like.shape[-1] if columns is None else columns
    return eye(like.shape[-2], size, dtype=like.dtype, device=like.device)


class _Orthogonal(Module):
    """A matrix with orthonormal rows or columns, of the lower triangle of another.

    `base` is where the triangle's way begins, if it does not begin at the identity.
    """

    base: Tensor | None

    def __init__(self, orthogonal_map: str, base: Tensor | None) -> None:
        super().__init__()
        self.orthogonal_map = orthogonal_map
        self.register_buffer("base", base)

    def forward(self, X: Tensor) -> Tensor:  # noqa: N803 - PyTorch's name
        """Return the matrix of a triangle."""
        is_wide = X.shape[-2] < X.shape[-1]
        x = X.mT if is_wide else X
        if self.orthogonal_map == "householder":
            below = x.tril(-1)
            tau = 2.0 / (1.0 + (below * below).sum(-2))
            q = householder_product(below + _identity(below), tau)
            # The diagonal has signs, which are not learned.
            q = q * x.detach().diagonal(0, -2, -1).trunc().unsqueeze(-2)
        else:
            q = self._of_skew(x)
        if self.base is not None:
            q = self.base @ q
        return q.mT if is_wide else q

    def _of_skew(self, x: Tensor) -> Tensor:
        """Return the exponential or the Cayley transform of a skew matrix."""
        rows, columns = x.shape[-2:]
        a = x.tril()
        if rows != columns:
            a = cat([a, a.new_zeros((*a.shape[:-2], rows, rows - columns))], -1)
        skew = a - a.mT
        if self.orthogonal_map == "matrix_exp":
            q: Tensor = matrix_exp(skew)
        else:
            one = _identity(skew)
            q = solve(one + 0.5 * skew, one - 0.5 * skew).mT
        return q[..., :columns]

    def right_inverse(self, Q: Tensor) -> Tensor:  # noqa: N803 - PyTorch's name
        """Return a triangle for a matrix, which is made orthonormal."""
        is_wide = Q.shape[-2] < Q.shape[-1]
        given = (Q.mT if is_wide else Q).detach()
        with no_grad():
            if self.base is not None:
                self.base.copy_(_completed(given))
                found = -_identity(given, given.shape[-1]).expand(tuple(given.shape))
            elif self.orthogonal_map == "householder":
                found = _reflections(given)
            else:
                raise NotImplementedError(
                    f"orthogonal: {self.orthogonal_map!r} without use_trivialization"
                    " takes no value; pass use_trivialization=True"
                )
            result: Tensor = (found.mT if is_wide else found).contiguous()
        return result


def _completed(q: Tensor) -> Tensor:
    """Return a square orthogonal matrix whose first columns are a matrix's.

    Those that are not orthonormal become so, each with its own sign.
    """
    wide = q.cpu().double().host_copy()
    size = wide.shape[-1]
    made, r = np.linalg.qr(wide, mode="complete")
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    made[..., :size] *= signs[..., None, :]
    return tensor(made, dtype=q.dtype, device=q.device)


def _reflections(q: Tensor) -> Tensor:
    """Return the vectors of Householder reflections below the diagonal, signs on it."""
    wide = q.cpu().double().host_copy()
    raw, _ = np.linalg.qr(wide, mode="raw")
    found = np.swapaxes(raw, -1, -2)
    size = wide.shape[-1]
    signs = np.sign(np.diagonal(found, axis1=-2, axis2=-1))
    found = np.tril(found, -1)
    found[..., range(size), range(size)] = np.where(signs == 0, 1.0, signs)
    return tensor(found, dtype=q.dtype, device=q.device)


def orthogonal(
    module: M,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> M:
    """Make a matrix of orthonormal rows or columns of a parameter; return the module.

    Parameters
    ----------
    module : Module
    name : str, default "weight"
        A parameter of at least 2 dimensions; the last two are the matrix's.
    orthogonal_map : {"matrix_exp", "cayley", "householder"}, optional
        What makes an orthogonal matrix of a triangle; None means "matrix_exp" for
        square matrices, "householder" for others.
    use_trivialization : bool, default True
        Whether the triangle's way begins at the present value.

    Raises
    ------
    ValueError
        If the parameter has fewer than 2 dimensions, or the map is another word.

    Notes
    -----
    The value becomes orthonormal. Source: Lezcano-Casado, arXiv:1909.09501.
    """
    weight: Any = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(
            f"orthogonal: {type(module).__name__} has no parameter or buffer {name!r}"
        )
    if weight.ndim < 2:
        raise ValueError(
            f"orthogonal: {name} is {tuple(weight.shape)}; it must have at least 2"
            " dimensions"
        )
    if orthogonal_map is None:
        is_square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if is_square else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f"orthogonal: orthogonal_map is {orthogonal_map!r}; it must be"
            " 'matrix_exp', 'cayley' or 'householder'"
        )
    base = None
    if use_trivialization:
        is_wide = weight.shape[-2] < weight.shape[-1]
        base = _completed((weight.mT if is_wide else weight).detach())
    made = _Orthogonal(orthogonal_map, base)
    register_parametrization(module, name, made, unsafe=True)
    return module
