"""Results written into tensors that the caller gives as `out`."""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import is_grad_enabled
from ..base.dtype import can_cast
from ..base.errors import DTypeError, GradError, ShapeError
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
        As many as there are results. An empty one gets the result's shape.
    result : Tensor or tuple of Tensor

    Raises
    ------
    TypeError
        If `out` is something else.
    ShapeError
        If `out` has elements and another shape.
    DTypeError
        If its dtype does not hold the results.
    GradError
        If a gradient would have to be recorded, which `out` has no place for.
    """
    if isinstance(result, tuple):
        if not isinstance(out, tuple | list) or len(out) != len(result):
            raise TypeError(
                f"{name}: out is {type(out).__name__}; it must be a tuple of"
                f" {len(result)} tensors"
            )
        for each, value in zip(out, result):
            _check(name, each, value)
        written = [_written(each, value) for each, value in zip(out, result)]
        kind: Any = type(result)
        return kind(*written) if hasattr(result, "_fields") else tuple(written)
    _check(name, out, result)
    return _written(out, result)


def _check(name: str, out: Any, result: Any) -> None:
    if not isinstance(out, TensorCore):
        raise TypeError(f"{name}: out is a {type(out).__name__}; it must be a tensor")
    if is_grad_enabled() and (out.needs_grad or result.needs_grad):
        raise GradError(
            f"{name}: out is given where a gradient is required; write it without out,"
            " or under no_grad()"
        )
    if out.device is not result.device:
        raise GradError(
            f"{name}: out is on {out.device.name}, the result on {result.device.name};"
            " they must be on one device"
        )
    if not can_cast(result.dtype, out.dtype):
        raise DTypeError(
            f"{name}: out is {out.dtype.name}, which does not hold the result's"
            f" {result.dtype.name}"
        )
    if out.shape != result.shape and out.numel():
        raise ShapeError(
            f"{name}: out is {out.shape}, the result {result.shape}; they must be the"
            " same, or out be empty"
        )


def _written(out: Any, result: Any) -> Any:
    if out.shape != result.shape:
        resize(out, result.shape)
    return assign(out, result)


register_writer(write)
