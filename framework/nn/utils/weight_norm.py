"""Weight normalisation: length and direction of a weight as parameters."""

from __future__ import annotations

from typing import Any, TypeVar

from ...tensor.tensor import Tensor
from ..module import Module
from ..module_hooks import hooks_of
from ..parameter import Parameter

M = TypeVar("M", bound=Module)


def norm_except(v: Tensor, dim: int | None) -> Tensor:
    """Return norms over all dimensions but one, which stay; None means over all."""
    dims = tuple(k for k in range(v.ndim) if dim is None or k != dim % v.ndim)
    total: Tensor = (v * v).sum(dims, keepdim=dim is not None) if dims else v * v
    return total.sqrt()


def scaled(v: Tensor, g: Tensor, dim: int | None) -> Tensor:
    """Return a weight of direction `v` and length `g`."""
    return v * (g / norm_except(v, dim))


class WeightNorm:
    """Forward pre-hook that computes a weight from its length and direction."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return the weight of `weight_g` and `weight_v`."""
        g = getattr(module, f"{self.name}_g")
        return scaled(getattr(module, f"{self.name}_v"), g, self.dim)

    def __call__(self, module: Module, inputs: Any) -> None:
        """Set the weight."""
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Replace a parameter by its length `<name>_g` and direction `<name>_v`.

    Parameters
    ----------
    module : Module
    name : str, default "weight"
    dim : int or None, default 0
        Dimension along which there is a length each; None means one length.

    Returns
    -------
    Module
        `module`, which computes the parameter before each call.

    Raises
    ------
    RuntimeError
        If that has been done before.

    Notes
    -----
    `nn.utils.parametrizations.weight_norm` does it for every reading. Source: Salimans
    and Kingma, arXiv:1602.07868.
    """
    for hook in hooks_of(module).forward_pre.values():
        if isinstance(hook, WeightNorm) and hook.name == name:
            raise RuntimeError(
                f"weight_norm: '{name}' of {type(module).__name__} is normalised"
                " already"
            )
    dim = None if dim == -1 else dim
    made = WeightNorm(name, dim)
    weight: Any = getattr(module, name)
    delattr(module, name)
    v = weight.detach()
    module.register_parameter(f"{name}_g", Parameter(norm_except(v, dim)))
    module.register_parameter(f"{name}_v", Parameter(v))
    setattr(module, name, made.compute_weight(module))
    module.register_forward_pre_hook(made)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Make a parameter of a module with `weight_norm` a plain one; return the module.

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
        if isinstance(hook, WeightNorm) and hook.name == name:
            weight = hook.compute_weight(module).detach()
            for part in (name, f"{name}_g", f"{name}_v"):
                delattr(module, part)
            module.register_parameter(name, Parameter(weight))
            del hooks.forward_pre[key]
            return module
    raise ValueError(
        f"remove_weight_norm: '{name}' of {type(module).__name__} is not normalised"
    )
