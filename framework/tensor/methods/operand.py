"""Methods made of ops, and what they take beside the tensor itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from ... import ops
from ...eager.base_tensor import operand
from ..inplace import change

if TYPE_CHECKING:
    from ..tensor import Tensor

Number = int | float

Operand = Any
"""A tensor, a number or a NumPy array; see `base_tensor.operand`."""

P = ParamSpec("P")
Method = TypeVar("Method", bound=Callable[..., Any])


class _Bound(Protocol):
    def __call__(self, other: Operand) -> Tensor: ...


class WithOperand(Protocol):
    """A method of a tensor and an operand."""

    def __get__(self, instance: object, owner: type) -> _Bound:
        """Return the method of one tensor."""


def _documented(method: Method, op: Callable[..., Any], suffix: str = "") -> Method:
    """Give a method the op's name and documentation."""
    method.__name__ = method.__qualname__ = f"{op.__name__}{suffix}"
    method.__module__ = op.__module__
    method.__doc__ = op.__doc__
    if suffix:
        method.__doc__ = f"Change in place by `{op.__name__}`.\n\n    {op.__doc__}"
        method.__dict__["__wrapped__"] = op  # whose signature `help` shows
    return method


def with_operand(op: Callable[..., Tensor]) -> WithOperand:
    """Return the method for an op of a tensor and an operand.

    The operand may also be a NumPy array.
    """

    def method(self: Tensor, other: Operand) -> Tensor:
        return op(self, operand(self, other))

    made: Any = _documented(method, op)
    return made  # type: ignore[no-any-return]  # a function is one


def in_place(
    op: Callable[Concatenate[Tensor, P], Tensor],
) -> Callable[Concatenate[Tensor, P], Tensor]:
    """Return the method that replaces a tensor's elements by an op's result."""

    def method(self: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        return change(self, op, *args, **kwargs)

    return _documented(method, op, "_")


def in_place_with_operand(op: Callable[..., Tensor]) -> WithOperand:
    """Return the method that replaces a tensor's elements by an op of an operand."""

    def method(self: Tensor, other: Operand) -> Tensor:
        return change(self, op, other)

    made: Any = _documented(method, op, "_")
    return made  # type: ignore[no-any-return]  # a function is one


def number_last(name: str, given: tuple[Any, ...], tensors: int) -> tuple[Any, ...]:
    """Return positional arguments, a number before the tensors moved behind them.

    PyTorch takes `add(alpha, other)` and `addcmul(value, tensor1, tensor2)` too, as
    older programs write.

    Parameters
    ----------
    name : str
        The method's.
    given : tuple
        What a call has in addition to the tensor itself.
    tensors : int
        How many tensors the method takes.

    Returns
    -------
    tuple
        The tensors, and the number.

    Raises
    ------
    TypeError
        If these are no number and as many other arguments.
    """
    if len(given) != tensors + 1 or not isinstance(given[0], Number | complex):
        raise TypeError(
            f"{name}: {len(given)} positional arguments are given; it takes {tensors},"
            " the tensors"
        )
    keyword = "alpha" if tensors == 1 else "value"
    warnings.warn(
        f"{name}: the number is given before the tensors, an old order; write"
        f" {keyword}={given[0]}",
        UserWarning,
        stacklevel=3,
    )
    return (*given[1:], given[0])


def with_value(op: Callable[..., Tensor]) -> Any:
    """Return the method for `addcmul` or `addcdiv`, whose number may come first."""

    def method(
        self: Tensor, tensor1: Tensor, tensor2: Tensor, *old: Any, value: Number = 1
    ) -> Tensor:
        if old:
            given = tensor1, tensor2, *old
            tensor1, tensor2, value = number_last(op.__name__, given, 2)
        return op(self, tensor1, tensor2, value=value)

    return _documented(method, op)


def in_place_with_value(op: Callable[..., Tensor]) -> Any:
    """Return the method that replaces a tensor's elements by that of `with_value`."""

    def method(
        self: Tensor, tensor1: Tensor, tensor2: Tensor, *old: Any, value: Number = 1
    ) -> Tensor:
        if old:
            given = tensor1, tensor2, *old
            tensor1, tensor2, value = number_last(f"{op.__name__}_", given, 2)
        return change(self, op, tensor1, tensor2, value=value)

    return _documented(method, op, "_")


def scaled(other: Tensor | Number, alpha: Number) -> Tensor | Number:
    """Return an operand times a number."""
    if alpha == 1:
        return other
    return other * alpha if isinstance(other, Number) else ops.mul(other, alpha)
