"""Call signatures: cache keys of calls, and the tensors that are graph inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..autograd.engine import is_grad_enabled
from ..base.determinism import is_deterministic
from ..base.device import default_device
from ..base.dtype import default_dtype
from ..base.errors import TraceError
from ..base.modes import autocast_mode
from ..ir.lazy_graph import CacheKey
from ..kernels.tensor_cores import get_float32_matmul_precision
from ..tensor.tensor import Tensor
from .attributes import is_standard
from .pytree import PLAIN, SIMPLE, has_attributes, is_record, own_attributes, value_key

MODES = 6
"""Modes of the thread, with which each key begins."""


class CallSignature(NamedTuple):
    """Signature of a call.

    Attributes
    ----------
    key : hashable
        Calls with equal keys may share a trace.
    inputs : list of Tensor
        Tensors whose elements may differ from call to call, each once: which arguments
        are the same tensor is part of the key.
    identity_keys : list of object
        Objects that the key names by identity.
    on_host : list of str
        What a replay would not see: tensors on the host and NumPy arrays, by their
        place among the arguments. The key has their shapes and dtypes.
    """

    key: object
    inputs: list[Tensor]
    identity_keys: list[object]
    on_host: list[str]


def signature_of(
    args: tuple[Any, ...], kwargs: dict[str, Any], ordered: bool = False
) -> CallSignature:
    """Return the signature of a call, with the order of keyword arguments if `ordered`.

    Raises
    ------
    TraceError
        If an argument is on the tape.
    """
    call = CallSignature(None, [], [], [])
    keys = [_key(value, str(k), call) for k, value in enumerate(args)]
    for name in sorted(kwargs):
        keys += [name, _key(kwargs[name], name, call)]
    if ordered:
        keys += kwargs
    return call._replace(key=(*_modes(), *keys))


def _modes() -> tuple[object, ...]:
    """Return the modes of the thread that change what a function does."""
    defaults = default_dtype(), default_device(), is_deterministic()
    precision = get_float32_matmul_precision()
    return is_grad_enabled(), autocast_mode(), precision, *defaults


def fast_key(args: tuple[Any, ...]) -> CacheKey:
    """Return the cache key of a call whose arguments all are graph inputs.

    Layouts count by identity, so calls with equal signatures may differ here. It is
    empty for any other argument, or one tensor twice.
    """
    if len(args) > 1 and len({*map(id, args)}) < len(args):
        return ()
    # Inlined `call_key`; a thirtieth less host time for a small function.
    key: list[object] = [*_modes()]
    for value in args:
        if type(value) is not Tensor or value.needs_grad or not value.is_gpu:
            return ()
        key += (id(value.layout), value.array.value.dtype, value.device)
    return tuple(key)


def _key(value: Any, place: str, call: CallSignature) -> object:
    if isinstance(value, Tensor):
        return _tensor_key(value, place, call)
    if isinstance(value, SIMPLE) and not has_attributes(value):
        if not is_standard(type(value).__module__):
            call.identity_keys.append(type(value))
        return value_key(value)
    fields: dict[str, object] = {}
    if isinstance(value, tuple | list) and not isinstance(value, SIMPLE):
        held = [_key(each, f"{place}[{k}]", call) for k, each in enumerate(value)]
    elif isinstance(value, Mapping):
        held = [
            (_key_of_key(k, call), _key(each, f"{place}[{k!r}]", call))
            for k, each in value.items()
        ]
    elif is_record(value) and not isinstance(value, SIMPLE):
        fields = {k: getattr(value, k, None) for k in value.__dataclass_fields__}
        held = [_key(v, f"{place}.{k}", call) for k, v in fields.items()]
    elif isinstance(value, np.void) and not value.dtype.hasobject:
        return type(value), value.dtype, value.tobytes()
    elif isinstance(value, np.ndarray | np.void):
        call.on_host.append(f"argument {place} is a NumPy array")
        return type(value), value.shape, str(value.dtype)
    else:
        call.identity_keys.append(value)
        return type(value), id(value)
    if type(value) in PLAIN:
        return type(value), tuple(held)
    if not is_standard(type(value).__module__):
        # State that its methods read is guarded, too.
        call.identity_keys.append(type(value))
    own = own_attributes(value)
    held += [
        (name, _key(each, f"{place}.{name}", call))
        for name, each in own.items()
        if name not in fields
    ]
    return type(value), tuple(held)


def _key_of_key(value: object, call: CallSignature) -> object:
    """Return the cache key of a mapping's key."""
    if type(value) is str:
        return value
    if type(value) is tuple:
        return tuple([_key_of_key(each, call) for each in value])
    if isinstance(value, SIMPLE) and not has_attributes(value):
        return value_key(value)
    call.identity_keys.append(value)
    return type(value), id(value)


def _tensor_key(tensor: Any, place: str, call: CallSignature) -> object:
    if tensor.is_wrapper:
        parts = [_tensor_key(each, place, call) for each in tensor.parts()]
        return type(tensor), tensor.static(), *parts
    if not tensor.is_gpu:
        call.on_host.append(f"argument {place} is on the host")
        return type(tensor), tensor.layout.shape, tensor.dtype, tensor.needs_grad
    if not tensor.needs_grad:
        for k, known in enumerate(call.inputs):
            if known is tensor:
                return Tensor, k
        call.inputs.append(tensor)
        shape, strides, _ = tensor.layout
        return shape, strides, tensor.dtype, id(tensor.device)
    elif tensor.grad_node is not None and is_grad_enabled():
        raise TraceError(
            f"jit: argument {place} is a result that requires a gradient, and gradients"
            " do not flow out of a replay; detach it, or compute it inside"
        )
    call.identity_keys.append(tensor)
    return Tensor, id(tensor)
