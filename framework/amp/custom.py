"""Decorators of the methods of an `autograd.Function` that is used under autocast."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..base.dtype import DType, DTypeLike, as_dtype, float64
from ..base.modes import autocast, autocast_again, autocast_dtype
from ..jit.pytree import tree_map
from ..tensor.tensor import Tensor

__all__ = ["custom_bwd", "custom_fwd"]


def _cast(value: Any, dtype: DType) -> Any:
    """Return a structure with its floating tensors in a dtype; float64 stays."""

    def cast(each: Any) -> Any:
        if not isinstance(each, Tensor) or not each.is_floating_point():
            return each
        return each if each.dtype is float64 else each.to(dtype)

    return tree_map(value, cast)


def _without_autocast() -> autocast:
    return autocast(enabled=False)


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str = "gpu",
    cast_inputs: DTypeLike | None = None,
) -> Any:
    """Return a `forward` that notes the autocast state for `backward`.

    Parameters
    ----------
    fwd : callable or None
        The method; without it, a decorator is returned.
    device_type : str
        Has no effect: autocast is for tensors on every device.
    cast_inputs : DType or None
        Under autocast, inputs are cast to it, and the method runs without autocast.
    """
    if fwd is None:
        return functools.partial(
            custom_fwd, device_type=device_type, cast_inputs=cast_inputs
        )
    wanted = None if cast_inputs is None else as_dtype(cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        args[0]._autocast = autocast_again()
        if wanted is None or autocast_dtype() is None:
            return fwd(*args, **kwargs)
        args[0]._autocast = _without_autocast
        with _without_autocast():
            return fwd(*_cast(args, wanted), **_cast(kwargs, wanted))

    return forward


def custom_bwd(
    bwd: Callable[..., Any] | None = None, *, device_type: str = "gpu"
) -> Any:
    """Return a `backward` that runs in the autocast state of its `forward`.

    Parameters
    ----------
    bwd : callable or None
        The method; without it, a decorator is returned.
    device_type : str
        Has no effect: autocast is for tensors on every device.
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        with args[0]._autocast():
            return bwd(*args, **kwargs)

    return backward
