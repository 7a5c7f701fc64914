"""Autocast policies: the dtype of each op within a block of `modes.autocast`.

Most ops pass tensors through and let their dtypes promote. Those declared
`autocast_low_precision` (matrix products, convolutions, attention) take 16-bit copies
of their tensors within a block; those declared `autocast_float32` (losses) take float32
ones, and those declared `autocast_promote` the widest dtype of their arguments. Blocks
for "cpu" have PyTorch's lists for the host, where exponentials, softmax, norms and sums
stay as they come, but factorizations, transforms and padding take float32. float64,
integers and bools are never cast. The body of a composite op is not cast again, nor is
the backward pass: gradients have the dtypes of the forward pass.

Source: PyTorch's `torch/include/ATen/autocast_mode.h`, the lists for CUDA, and
`aten/src/ATen/autocast_mode.cpp`, those for the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from ..autograd.engine import grad_mode
from ..base import modes
from ..base.dtype import DType, float32, float64
from ..base.modes import AutocastState, autocast_state
from ..base.scoped_setting import ScopeFrame, remove_frame
from ..eager.base_tensor import TensorCore

if TYPE_CHECKING:
    from ..ir.lazy_graph import Value

F = TypeVar("F", bound=Callable[..., Any])
Rule = Callable[[DType, Sequence[DType]], DType | None]
"""From a block's dtype and a call's dtypes to the compute dtype; None is the given."""


class Policy(NamedTuple):
    """Autocast policy of an op, as PyTorch has it for CUDA and for the host.

    None says that the op is on no list: nothing changes, also for what it calls.
    """

    device: Rule | None
    host: Rule | None

    def rule(self) -> Rule | None:
        """Return the rule for this thread's block."""
        return self.host if autocast_state.top.value.host else self.device


# Quicker than the constructors of named tuples, which are written in Python.
_tuple: Any = tuple.__new__


class _Copy(NamedTuple):
    """Cached cast of a leaf, with the value that it was cast from."""

    leaf: TensorCore
    value: Value
    on_tape: bool
    copy: Any


def _low(dtype: DType, dtypes: Sequence[DType]) -> DType:
    return dtype


def _single(dtype: DType, dtypes: Sequence[DType]) -> DType:
    return float32


def _widest(dtype: DType, dtypes: Sequence[DType]) -> DType:
    return dtypes[0] if len(set(dtypes)) == 1 else float32


def _given(dtype: DType, dtypes: Sequence[DType]) -> None:
    return None


def autocast_low_precision(function: F) -> F:
    """Autocast a function, or op, to the block's low-precision dtype."""
    return _declared(function, Policy(_low, _low))


def autocast_low_precision_on_device(function: F) -> F:
    """Autocast to low precision, in a block for the host to the given dtype."""
    return _declared(function, Policy(_low, _given))


def autocast_low_precision_of_parts(function: F) -> F:
    """Autocast to low precision, in a block for the host what the function calls."""
    return _declared(function, Policy(_low, None))


def autocast_float32(function: F) -> F:
    """Autocast a function, or op, to float32 within a block.

    A call with an explicit `dtype=` is not cast.
    """
    return _declared(function, Policy(_single, _single))


def autocast_float32_on_device(function: F) -> F:
    """Autocast to float32, in a block for the host to the given dtype."""
    return _declared(function, Policy(_single, _given))


def autocast_float32_on_host(function: F) -> F:
    """Autocast to float32 in a block for the host, in others to the given dtype."""
    return _declared(function, Policy(_given, _single))


def autocast_promote(function: F) -> F:
    """Autocast the tensors of a function to their widest dtype within a block."""
    return _declared(function, Policy(_widest, _widest))


def autocast_promote_on_device(function: F) -> F:
    """Autocast to the widest dtype, in a block for the host to float32."""
    return _declared(function, Policy(_widest, _single))


def autocast_promote_of_parts(function: F) -> F:
    """Autocast to the widest dtype, in a block for the host what the function calls."""
    return _declared(function, Policy(_widest, None))


def autocast_passthrough(function: F) -> F:
    """Run the function's body with autocast disabled."""
    return _declared(function, Policy(_given, _given))


def _declared(function: F, policy: Policy) -> F:
    if hasattr(function, "policy"):
        # An op: it calls `autocast_arguments` itself.
        function.policy = policy
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not modes.autocast_blocks:
            return function(*args, **kwargs)
        # All that follows is in a hot path, where each call of Python counts.
        outer = autocast_state.top
        state: AutocastState = outer.value
        rule = policy.host if state.host else policy.device
        if rule is None or state.dtype is None:
            return function(*args, **kwargs)
        args, kwargs = _autocast(rule, state, args, kwargs)
        # As within `autocast_disabled`: `finally` restores it wherever an interrupt
        # comes, the outer one if that comes in the inner one.
        disabled = _tuple(AutocastState, (None, state.cast_cache, state.host))
        inner = ScopeFrame(disabled, outer)
        try:
            try:
                autocast_state.top = inner
                return function(*args, **kwargs)
            finally:
                if autocast_state.top is inner:
                    autocast_state.top = outer
        finally:
            if autocast_state.top is not outer:
                remove_frame(autocast_state, inner)

    # What `takes_keywords` calls outside every block, without this call between.
    call.without_autocast = function  # type: ignore[attr-defined]  # set here
    return cast(F, call)


def autocast_arguments(
    policy: Policy, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call, cast by its policy in this thread's block."""
    state: AutocastState = autocast_state.top.value
    rule = policy.host if state.host else policy.device
    return _autocast(rule, state, args, dict(kwargs))


def _autocast(
    rule: Rule | None,
    state: AutocastState,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call, cast by a rule of a block."""
    wanted, cache = state.dtype, state.cast_cache
    if wanted is None or (kwargs and kwargs.get("dtype") is not None):
        return args, kwargs
    if rule is not _low:  # which the given dtypes do not matter to
        changing: list[DType] = []
        for each in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(each, TensorCore):
                kind = each.array.value.dtype
                if kind.kind == "float" and kind is not float64:
                    changing.append(kind)
        chosen = rule(wanted, changing) if rule is not None and changing else None
        if chosen is None or changing.count(chosen) == len(changing):
            return args, kwargs
        wanted = chosen
    changed: list[Any] | None = None
    for at, each in enumerate(args):
        if isinstance(each, TensorCore):
            own = each.array.value.dtype
            if own is not wanted and own.kind == "float" and own is not float64:
                changed = changed or [*args]
                changed[at] = _as(each, wanted, cache)
    for name, each in kwargs.items() if kwargs else ():
        if isinstance(each, TensorCore):
            own = each.array.value.dtype
            if own is not wanted and own.kind == "float" and own is not float64:
                kwargs = {**kwargs, name: _as(each, wanted, cache)}
    return args if changed is None else tuple(changed), kwargs


def _as(value: Any, dtype: DType, cast_cache: dict[Any, Any] | None) -> Any:
    """Return a tensor in another float dtype, parameters from the cast cache."""
    content = value.array.value
    leaf = value.needs_grad and value.grad_node is None and content.dtype is float32
    if cast_cache is None or not leaf:
        return value.to(dtype)
    key = id(value), dtype
    found = cast_cache.get(key)
    on_tape = grad_mode.top.value
    # Values are immutable: an in-place change binds another one.
    if found is not None and found.value is content and found.on_tape == on_tape:
        node = found.copy.grad_node
        # Unless a backward pass has freed its tape entry.
        if node is None or node.saved is not None:
            return found.copy
    copy = value.to(dtype)
    cast_cache[key] = _tuple(_Copy, (value, content, on_tape, copy))
    return copy
