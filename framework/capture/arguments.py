"""What a call is given: its signature, and the tensors that are fed to each replay."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..autograd import is_grad_enabled
from ..errors import TraceError
from ..precision import autocast_dtype
from ..tensor import Tensor

SIMPLE = (bool, int, float, complex, str, bytes, type(None), np.number, np.bool_)
SIMPLE += (np.character, np.datetime64)
"""Arguments that are the same when they are equal.

Not so `numpy.void`: it may be an element of an array, and changes with that.
"""


class Call(NamedTuple):
    """Arguments taken apart.

    Attributes
    ----------
    key : hashable
        Calls with equal keys may share a trace.
    fed : list of Tensor
        Tensors whose elements may differ from call to call, each once: which arguments
        are the same tensor is part of the key.
    kept : list of object
        What the key names by identity.
    on_host : list of str
        Tensors on the host, by their place among the arguments.
    """

    key: object
    fed: list[Tensor]
    kept: list[object]
    on_host: list[str]


def take_apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Return the signature of a call.

    Raises
    ------
    TraceError
        If an argument cannot be told from another one, or is on the tape.
    """
    call = Call(None, [], [], [])
    keys = [_key(value, str(k), call) for k, value in enumerate(args)]
    for name in sorted(kwargs):
        keys += [name, _key(kwargs[name], name, call)]
    return call._replace(key=(is_grad_enabled(), autocast_dtype(), *keys))


def quick_key(args: tuple[Any, ...]) -> object:
    """Return what tells apart calls with nothing but tensors that are fed.

    Layouts count by identity, so calls that `take_apart` finds alike may differ here.
    None where there is anything else, or one tensor twice.
    """
    if len(args) > 1 and len({*map(id, args)}) < len(args):
        return None
    key: list[object] = [is_grad_enabled(), autocast_dtype()]
    for value in args:
        if type(value) is not Tensor or value.requires_grad or not value.is_gpu:
            return None
        key += (id(value.layout), value.array.value.dtype, value.device)
    return tuple(key)


def _key(value: Any, place: str, call: Call) -> object:
    if isinstance(value, Tensor):
        return _tensor_key(value, place, call)
    if isinstance(value, SIMPLE):
        return _mark(value)
    if isinstance(value, tuple | list):
        parts = [_key(each, f"{place}[{k}]", call) for k, each in enumerate(value)]
        return type(value), tuple(parts)
    if isinstance(value, Mapping):
        pairs = [(k, _key(each, f"{place}[{k!r}]", call)) for k, each in value.items()]
        return type(value), tuple(pairs)
    if _is_record(value):
        fields = [(k, getattr(value, k, None)) for k in value.__dataclass_fields__]
        return type(value), tuple(_key(v, f"{place}.{k}", call) for k, v in fields)
    if isinstance(value, np.ndarray):
        raise TraceError(
            f"jit: argument {place} is a NumPy array of shape {value.shape}, which a"
            " replay would not see; make it a tensor on the device first"
        )
    call.kept.append(value)
    return type(value), id(value)


def _tensor_key(tensor: Tensor, place: str, call: Call) -> object:
    if not tensor.is_gpu:
        call.on_host.append(place)
    elif not tensor.requires_grad:
        for k, known in enumerate(call.fed):
            if known is tensor:
                return Tensor, k
        call.fed.append(tensor)
        shape, strides, _ = tensor.layout
        return shape, strides, tensor.dtype, id(tensor.device)
    elif tensor.grad_node is not None and is_grad_enabled():
        raise TraceError(
            f"jit: argument {place} is a result that requires a gradient, and gradients"
            " do not flow out of a replay; detach it, or compute it inside"
        )
    call.kept.append(tensor)
    return Tensor, id(tensor)


def with_tensors(value: Any, swap: Callable[[Tensor], Any]) -> Any:
    """Return nested sequences, mappings and records with each tensor exchanged."""
    return exchanged(
        value, lambda each: swap(each) if isinstance(each, Tensor) else each
    )


def exchanged(value: Any, swap: Callable[[Any], Any]) -> Any:
    """Return nested sequences, mappings and records with what they hold exchanged."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[exchanged(each, swap) for each in value])
    if isinstance(value, tuple | list | set | frozenset):
        return type(value)([exchanged(each, swap) for each in value])
    if isinstance(value, Mapping):
        pairs = {key: exchanged(each, swap) for key, each in value.items()}
        return pairs if type(value) is dict else _like(value, pairs)
    return _record_like(value, swap) if _is_record(value) else swap(value)


def alike(one: object, other: object) -> bool:
    """Whether two objects are the same number or text; -0.0 is not 0.0, nan is nan."""
    return (
        type(one) is type(other)
        # An object may say that it is of another class, or refuse to say it.
        and issubclass(type(one), SIMPLE)
        and _mark(one) == _mark(other)
    )


def same(found: list[Any], expected: list[Any]) -> bool:
    """Whether two fingerprints are alike: numbers by value, the rest by identity."""
    return len(found) == len(expected) and all(
        one is other or alike(one, other) for one, other in zip(found, expected)
    )


def _mark(value: object) -> object:
    """Return what tells a number or text from others."""
    if isinstance(value, float | complex | np.generic):
        return type(value), repr(value)
    return type(value), value


def _is_record(value: object) -> bool:
    """Whether a value is an instance of a data class, and no module."""
    return (
        hasattr(value, "__dataclass_fields__")
        and not isinstance(value, type)
        and not hasattr(value, "_fingerprint")
    )


def _record_like(value: Any, swap: Callable[[Any], Any]) -> Any:
    """Return a record of the same class with other fields."""
    made = copy.copy(value)
    for name in value.__dataclass_fields__:
        # Set so, as it may be frozen.
        now = getattr(value, name, None)
        object.__setattr__(made, name, exchanged(now, swap))
    return made


def _like(value: Mapping[Any, Any], pairs: dict[Any, Any]) -> Any:
    """Return a mapping of the same class with other values."""
    if isinstance(value, dict):
        # As it is made like, a defaultdict keeps its default.
        made = copy.copy(value)
        made.update(pairs)
        return made
    return type(value)(pairs)  # type: ignore[call-arg]  # as most mappings take
