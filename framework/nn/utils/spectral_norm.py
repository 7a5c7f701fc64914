"""Spectral normalisation: a weight divided by its largest singular value."""

from __future__ import annotations

from typing import Any, TypeVar

from ...autograd.grad_mode import no_grad
from ...tensor.tensor import Tensor
from ..module import Module
from ..module_hooks import hooks_of
from ..parameter import Parameter

M = TypeVar("M", bound=Module)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Return a weight as a matrix whose rows go along one dimension."""
    if dim:
        order = (dim, *[k for k in range(weight.ndim) if k != dim])
        weight = weight.permute(order)
    return weight.reshape(weight.shape[0], -1)


def normalized(x: Tensor, eps: float) -> Tensor:
    """Return a vector divided by its length, which is at least `eps`."""
    result: Tensor = x / (x * x).sum().sqrt().clamp(min=eps)
    return result


def drawn(size: int, like: Tensor, eps: float) -> Tensor:
    """Return a random vector of length 1."""
    return normalized(like.detach().new_zeros((size,)).normal_(), eps)


def iterated(
    matrix: Tensor, u: Tensor, v: Tensor, count: int, eps: float
) -> tuple[Tensor, Tensor]:
    """Return singular vectors after steps of the power method."""
    for _ in range(count):
        v = normalized(matrix.mT @ u, eps)
        u = normalized(matrix @ v, eps)
    return u, v


class SpectralNorm:
    """Forward pre-hook that divides a weight by its largest singular value."""

    def __init__(
        self, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> None:
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the weight, after steps of the power method if asked for."""
        weight: Any = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                count = self.n_power_iterations
                new_u, new_v = iterated(matrix.detach(), u, v, count, self.eps)
                u.copy_(new_u)
                v.copy_(new_v)
            # The tape keeps these, and the buffers change at the next call.
            u, v = new_u, new_v
        result: Tensor = weight / (u @ (matrix @ v))
        return result

    def __call__(self, module: Module, inputs: Any) -> None:
        """Set the weight."""
        weight = self.compute_weight(module, module.training)
        setattr(module, self.name, weight)


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divide a parameter by its largest singular value before each call.

    Parameters
    ----------
    module : Module
    name : str, default "weight"
    n_power_iterations : int, default 1
        Steps of the power method in each call in training.
    eps : float, default 1e-12
        Least length of a singular vector.
    dim : int, optional
        Dimension of the outputs; None means 0, and 1 for transposed convolutions.

    Returns
    -------
    Module
        `module`, with the parameter `<name>_orig` and buffers `<name>_u`, `<name>_v`.

    Raises
    ------
    RuntimeError
        If that has been done before.
    ValueError
        If `n_power_iterations` is below 1.

    Notes
    -----
    Source: Miyato et al., arXiv:1802.05957.
    """
    for hook in hooks_of(module).forward_pre.values():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            raise RuntimeError(
                f"spectral_norm: '{name}' of {type(module).__name__} is normalised"
                " already"
            )
    if n_power_iterations <= 0:
        raise ValueError(
            f"spectral_norm: n_power_iterations is {n_power_iterations}; it must be at"
            " least 1"
        )
    if dim is None:
        dim = int("ConvTranspose" in type(module).__name__)
    made = SpectralNorm(name, n_power_iterations, dim, eps)
    weight: Any = getattr(module, name)
    with no_grad():
        matrix = as_matrix(weight.detach(), dim)
        u = drawn(matrix.shape[0], weight, eps)
        v = drawn(matrix.shape[1], weight, eps)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(made)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Make a parameter of a module with `spectral_norm` a plain one; return the module.

    Parameters
    ----------
    module : Module
        Has the parameter.
    name : str, default "weight"
        The parameter's.

    Raises
    ------
    ValueError
        If it has none.
    """
    hooks = hooks_of(module)
    for key, hook in hooks.forward_pre.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            with no_grad():
                weight = hook.compute_weight(module, False).detach()
            for part in ("", "_orig", "_u", "_v"):
                delattr(module, f"{name}{part}")
            module.register_parameter(name, Parameter(weight))
            del hooks.forward_pre[key]
            return module
    raise ValueError(
        f"remove_spectral_norm: '{name}' of {type(module).__name__} is not normalised"
    )
