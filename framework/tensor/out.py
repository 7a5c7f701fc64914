"""Results written into tensors that the caller gives as `out`."""

from __future__ import annotations

import warnings
from typing import Any

from ..autograd.grad_mode import is_grad_enabled
from ..base.dtype import can_cast
from ..base.errors import DeviceMismatchError, DTypeError, GradError
from ..dispatch.keywords import register_writer
from ..eager.base_tensor import TensorCore
from .inplace import assign
from .relayout import resize


def write(name: str, out: Any, result: Any) -> Any:
    """Write the results of a function into `out`, and return it.

    Parameters
    ----------
    name : str
        The function's.
    out : Tensor or sequence of Tensor
        As many as there are results. One of another shape gets the result's.
    result : Tensor or tuple of Tensor

    Raises
    ------
    TypeError
        If `out` is something else.
    DeviceMismatchError
        If `out` is on another device.
    DTypeError
        If its dtype does not hold the results.
    GradError
        If a gradient would have to be recorded, which `out` has no place for.

    Warns
    -----
    UserWarning
        If `out` has elements and another shape.
    """
    if isinstance(result, tuple):
        if not isinstance(out, tuple | list) or len(out) != len(result):
            raise TypeError(
                f"{name}: out is {type(out).__name__}; it must be a tuple of"
                f" {len(result)} tensors"
            )
        for each, value in zip(out, result):
            _check(name, each, value)
        written = [_written(name, each, value) for each, value in zip(out, result)]
        kind: Any = type(result)
        return kind(*written) if hasattr(result, "_fields") else tuple(written)
    _check(name, out, result)
    return _written(name, out, result)


def _check(name: str, out: Any, result: Any) -> None:
    if not isinstance(out, TensorCore):
        raise TypeError(f"{name}: out is a {type(out).__name__}; it must be a tensor")
    if is_grad_enabled() and (out.needs_grad or result.needs_grad):
        raise GradError(
            f"{name}: out is given where a gradient is required; write it without out,"
            " or under no_grad()"
        )
    if out.device is not result.device:
        raise DeviceMismatchError(
            f"{name}: out is on {out.device.name}, the result on {result.device.name};"
            " they must be on one device"
        )
    if not can_cast(result.dtype, out.dtype):
        raise DTypeError(
            f"{name}: out is {out.dtype.name}, which does not hold the result's"
            f" {result.dtype.name}"
        )


def _written(name: str, out: Any, result: Any) -> Any:
    if out.shape != result.shape:
        if out.numel():
            warnings.warn(
                f"{name}: out is {tuple(out.shape)}, the result {tuple(result.shape)};"
                " out is resized, which is deprecated; empty it by resize_(0)",
                UserWarning,
                stacklevel=5,
            )
        resize(out, result.shape)
    return assign(out, result)


register_writer(write)
