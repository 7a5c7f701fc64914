"""Functions without a name of one tensor function, beside their peers.

They are given the module, `vkbackend.framework` or PyTorch, then tensors; what makes
tensors of nothing learns from one where the result goes and how long it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def _where(like: Any) -> dict[str, Any]:
    return {"device": like.device, "dtype": like.dtype}


def arange(module: Any, like: Any) -> Any:
    """Return the numbers from 0."""
    return module.arange(like.shape[0], **_where(like))


def linspace(module: Any, like: Any) -> Any:
    """Return numbers at equal distances from 0 to 1."""
    return module.linspace(0, 1, like.shape[0], **_where(like))


def full(module: Any, like: Any) -> Any:
    """Return one number, repeated."""
    return module.full(tuple(like.shape), 0.5, **_where(like))


def eye(module: Any, like: Any) -> Any:
    """Return the identity matrix of as many rows as `like` has hundreds."""
    return module.eye(max(2, int(like.shape[0] ** 0.5)), **_where(like))


def rand(module: Any, like: Any) -> Any:
    """Return uniform random numbers."""
    return module.rand(tuple(like.shape), **_where(like))


def randn(module: Any, like: Any) -> Any:
    """Return normal random numbers."""
    return module.randn(tuple(like.shape), **_where(like))


def randint(module: Any, like: Any) -> Any:
    """Return random whole numbers."""
    return module.randint(0, 99, tuple(like.shape), device=like.device)


def randperm(module: Any, like: Any) -> Any:
    """Return a random permutation."""
    return module.randperm(like.shape[0], device=like.device)


def exponential(module: Any, like: Any) -> Any:
    """Return exponential random numbers."""
    return module.empty_like(like).exponential_()


def contiguous(module: Any, x: Any) -> Any:
    """Return a tensor in row-major order."""
    return x.contiguous()


def _layer(name: str) -> Callable[..., Any]:
    """Return the function that runs a recurrent layer of as many features as inputs."""
    made: dict[Any, Any] = {}

    def run(module: Any, x: Any) -> Any:
        key = id(module), x.dtype, x.shape[-1], x.device
        if key not in made:
            layer = getattr(module.nn, name)(x.shape[-1], x.shape[-1])
            made[key] = layer.to(x.device, x.dtype)
        return made[key](x)[0]

    run.__name__ = f"nn.{name}"
    return run


def total_norm(module: Any, *gradients: Any) -> Any:
    """Return the norm of several tensors together."""
    return module.nn.utils.get_total_norm(gradients)


CREATION: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        arange,
        linspace,
        full,
        eye,
        rand,
        randn,
        randint,
        randperm,
        exponential,
        contiguous,
        total_norm,
        *map(_layer, ("LSTM", "GRU", "RNN")),
    )
}
"""The functions, by the name of their cases."""
