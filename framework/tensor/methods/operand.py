"""Methods made of ops, and what they take beside the tensor itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from ...base.docstring import cleaned, shares_parameters
from ...base.parameters import parameter_stars
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
        doc = cleaned(op.__doc__)
        method.__doc__ = f"Change in place by `{op.__name__}`.\n\n{doc}"
        method.__dict__["__wrapped__"] = op  # whose signature `help` shows
    return method


def with_operand(op: Callable[..., Tensor]) -> WithOperand:
    """Return the method for an op of a tensor and an operand.

    The operand may also be a NumPy array.
    """

    def method(self: Tensor, other: Operand) -> Tensor:
        return op(self, operand(self, other))

    _, second, *_ = parameter_stars(op)
    described = shares_parameters(op, other=second)
    made: Any = described(_documented(method, op))
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
