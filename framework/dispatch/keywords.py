"""PyTorch's keywords: its names of parameters, NumPy's that it takes too, and `out`.

Functions here are declared with names of their own (`x`, `y`), which their expressions
and gradient rules use. A call may name its arguments as PyTorch's documentation does;
only calls with keywords are looked at, so others cost no more.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

from ..base import modes
from .deprecated_order import in_order
from .diagnosis import (
    flag_places,
    need_flags,
    need_flags_among,
    reraise,
    signature_of,
)
from .view_cache import caches_views, uncached

Function = TypeVar("Function", bound=Callable[..., Any])

ALSO = {"axis": "dim", "keepdims": "keepdim"}
"""NumPy's names, which PyTorch takes everywhere."""

FIRST = ("x", "a", "base", "matrix", "sorted_sequence")
"""Our names of what PyTorch calls `input`."""
SECOND = ("y", "b")
"""Our names of what PyTorch calls `other`."""

POSITIONAL = {
    "addmm": "input mat1 mat2",
    "baddbmm": "input batch1 batch2",
    "bmm": "input mat2",
    "broadcast_to": "input size",
    "dot": "input tensor",
    "expand": "input size",
    "isfinite": "tensor",
    "isinf": "tensor",
    "max": "input other",
    "min": "input other",
    "mm": "input mat2",
    "mv": "input vec",
    "outer": "input vec2",
    "pow": "input exponent",
    "searchsorted": "sorted_sequence input",
    "split": "tensor split_size_or_sections",
    "where": "condition input other",
}
"""PyTorch's names of the first parameters, where they are others."""


def renamed(name: str, parameters: Iterable[str]) -> dict[str, str]:
    """Return our name for each of PyTorch's names of a function's parameters.

    Parameters
    ----------
    name : str
        The function's.
    parameters : iterable of str
        Ours, in order.
    """
    ours = list(parameters)
    names = {also: dim for also, dim in ALSO.items() if dim in ours}
    theirs = POSITIONAL.get(name, "input other").split()
    names.update(
        (them, us)
        for them, us in zip(theirs, ours)
        if them != us and (name in POSITIONAL or us in (*FIRST, *SECOND))
    )
    return {
        them: us for them, us in names.items() if them not in ours or them == "input"
    }


def translated(
    names: Mapping[str, str], given: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Return keyword arguments under our names.

    Raises
    ------
    TypeError
        If one is given under two names.
    """
    found = {names.get(name, name): value for name, value in given.items()}
    if len(found) != len(given):
        raise TypeError(f"{where}: an argument is given under two names: {[*given]}")
    return found


class Parameters(NamedTuple):
    """What is known of a function's parameters.

    Attributes
    ----------
    names : mapping of str to str
        Our name by PyTorch's.
    flags : frozenset of str
        Those that must be bools.
    takes_out : bool
        Whether it has a parameter `out` itself.
    """

    names: Mapping[str, str]
    flags: frozenset[str]
    takes_out: bool


@functools.cache
def parameters_of(function: Callable[..., Any]) -> Parameters:
    """Return a function's parameters; looked at when a call needs it, not on import."""
    found = inspect.signature(function).parameters
    flags = frozenset(
        name for name, each in found.items() if str(each.annotation) == "bool"
    )
    return Parameters(renamed(function.__name__, found), flags, "out" in found)


def takes_keywords(function: Function) -> Function:
    """Return a function that also takes PyTorch's keywords."""
    plain = uncached(function)
    if plain is not None:
        return cast(Function, caches_views(takes_keywords(plain)))
    body = getattr(function, "without_autocast", function)
    places = flag_places(inspect.unwrap(function))
    least = min(places, default=sys.maxsize)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if len(args) > least:
                need_flags_among(function.__name__, places, args)
            if not kwargs:
                return function(*args) if modes.autocast_blocks else body(*args)
            parameters = parameters_of(function)
            if "out" in kwargs and not parameters.takes_out:
                return into(call, args, kwargs)
            if not parameters.names.keys().isdisjoint(kwargs):
                kwargs = translated(parameters.names, kwargs, function.__name__)
            if not parameters.flags.isdisjoint(kwargs):
                need_flags(function.__name__, parameters.flags, kwargs)
            if modes.autocast_blocks:
                return function(*args, **kwargs)
            return body(*args, **kwargs)
        except Exception as error:
            if isinstance(error, TypeError) and not kwargs:
                found = in_order(function.__name__, args)
                if found:
                    return call(*found[0], **found[1])
            names = parameters_of(function).names
            given = {names.get(name, name): each for name, each in kwargs.items()}
            reraise(error, function.__name__, signature_of(function), args, given)

    return call  # type: ignore[return-value]  # takes what the function does, and more


def into(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the result of a call, written into its argument `out` if that is given."""
    rest = {name: value for name, value in kwargs.items() if name != "out"}
    out, name = kwargs["out"], getattr(function, "__name__", "out")
    if name in COMPUTED_AS_OUT and rest.get("dtype") is None and hasattr(out, "dtype"):
        rest["dtype"] = out.dtype
    result = function(*args, **rest)
    if out is None:
        return result
    return _writers[0](name, out, result, (*args, *rest.values()))


COMPUTED_AS_OUT = frozenset({"cumprod", "cumsum", "prod", "sum"})
"""Functions that compute in the dtype of `out`, if they are given no other."""

_writers: list[Callable[[str, Any, Any, Iterable[Any]], Any]] = []


def register_writer(write: Callable[[str, Any, Any, Iterable[Any]], Any]) -> None:
    """Set what writes results into `out`.

    It takes the function's name, `out`, the results and the function's arguments.

    Changes in place are declared above this package, so none can be imported here.
    """
    _writers[:] = [write]
