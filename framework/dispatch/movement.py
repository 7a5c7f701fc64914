"""Movements: ops that only choose elements, as views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from ..autograd.engine import grad_mode, is_grad_enabled, no_grad
from ..autograd.views import UNRECORDED, inherit_mark, register_view
from ..base import modes
from ..base.dtype import DType
from ..base.shape import Layout, interned
from ..base.symbolic_number import concrete, live
from ..eager.base_tensor import TensorCore
from ..ir.lazy_graph import Array, CacheKey, lazy_copy
from . import batching
from .call_cache import CachedView, CallCache, call_key
from .diagnosis import explained_op
from .op import Op, contiguous_copy
from .view_cache import view_of

P = ParamSpec("P")
R = TypeVar("R")
Rule = TypeVar("Rule", bound=Callable[..., Any])


class Movement(Op[P, R]):
    """Movement op: its result is a view, or a copy where no view is possible.

    Attributes
    ----------
    shares : bool
        Whether in-place changes reach from the view to its operand and back.
    """

    layout_rule: Callable[..., Layout | None]

    def __init__(
        self, function: Callable[P, R], dtypes: Sequence[DType], shares: bool
    ) -> None:
        super().__init__(function, dtypes)
        self.shares = shares
        self.call_cache: CallCache[CachedView] = CallCache()

    def forget(self) -> None:
        """Clear the call cache."""
        self.call_cache.clear()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Apply the op, on the fast path if the call is cached."""
        given: tuple[Any, ...] = args
        casts = modes.autocast_blocks and self.policy is not None
        if casts or kwargs or len(args) != len(self.names):
            given = self._given(args, kwargs)
        key, _ = call_key(given)
        cached = self.call_cache[key]
        if cached is None or cached.generation != cached.device.generation:
            return cast(R, self._slow_path(given, key))
        result: R = self._replay(cached, given)  # no `cast`, which is a call
        return result

    def of(self, tensor: Any, *sizes: tuple[int, ...]) -> Any:
        """Apply the op to a tensor and tuples that the caller has checked for ints.

        The same as a call, without looking at each argument for its cache key.
        """
        key = id(tensor.layout), tensor.array.value.dtype, tensor.device, *sizes
        cached = self.call_cache[key]
        if cached is None or cached.generation != cached.device.generation:
            return self(tensor, *sizes)  # type: ignore[call-arg, arg-type]  # its own
        if cached.copied or not self.shares or tensor.needs_grad:
            return self._replay(cached, (tensor, *sizes))
        return view_of(tensor, cached.layout, cached.tape_recorder is not None)

    def _replay(self, cached: CachedView, given: tuple[Any, ...]) -> Any:
        """Apply the op by a cached call."""
        tensor: TensorCore = given[0]
        recorder = cached.tape_recorder
        if cached.copied or not self.shares:
            source = contiguous_copy(tensor.detach()) if cached.copied else tensor
            array = source.array if self.shares else lazy_copy(source.array)
            out: Any = tensor.results.make(array, cached.layout, tensor.device)
        else:
            out = view_of(tensor, cached.layout, recorder is not None)
        if tensor.needs_grad and recorder is not None and grad_mode.top.value:
            recorder.record(given, [tensor], (out,), cached.specs, cached)
        if tensor.grad_index < 0 and out.array is tensor.array:
            inherit_mark(out, tensor)
        return out

    @explained_op
    def _slow_path(self, given: tuple[Any, ...], key: CacheKey) -> TensorCore:
        """Check a call and apply the op; cache the call under `key`."""
        if live:
            given = concrete(given)
        bound = dict(zip(self.names, given))
        if batching.has_rules:
            answer = batching.batched_call(self, bound)
            if answer is not NotImplemented:
                return cast(TensorCore, answer)
        tensors = self._tensors(bound)
        (out,) = self._apply(bound, tensors)
        self._record(bound, tensors, (out,))
        (tensor,) = tensors.values()
        if (
            out.array is tensor.array
            and out.dtype.is_differentiable
            and is_grad_enabled()
        ):
            register_view(tensor, out)
        elif tensor.needs_grad and out.array is tensor.array:
            out.grad_index = UNRECORDED
        if tensor.grad_index < 0 and out.array is tensor.array:
            inherit_mark(out, tensor)
        if key:
            view = CachedView(
                out.device,
                out.device.generation,
                out.layout,
                self.shares and out.array is not tensor.array,
                self.tape_recorder(tuple(tensors))
                if out.dtype.is_differentiable
                else None,
                (tensor.spec,),
                (tensor.layout,),
            )
            self.call_cache.add(key, view)
        return out

    def layout(self, rule: Rule) -> Rule:
        """Declare the layout rule.

        It takes the input's `Layout` in place of the tensor and returns the result's,
        or None when the elements must first be copied into row-major order.
        """
        self.layout_rule = rule
        return rule

    def _apply(
        self, bound: dict[str, Any], tensors: dict[str, Any]
    ) -> tuple[TensorCore, ...]:
        self._check(tensors)
        (name, tensor), *_ = tensors.items()
        arguments = [value for key, value in bound.items() if key != name]
        layout = self.layout_rule(tensor.layout, *arguments)
        if layout is None:
            with no_grad():
                tensor = contiguous_copy(tensor)
            layout = self.layout_rule(tensor.layout, *arguments)
            assert layout is not None, f"{self.name}: no view of a row-major tensor"
        array = tensor.array if self.shares else lazy_copy(tensor.array)
        return (type(tensor).make(array, interned(layout), tensor.device),)


class DerivedView(Movement[P, R]):
    """View op whose result has another dtype than its operand.

    Its storage follows from the operand's, or is what that follows from.
    """

    storage_rule: Callable[..., tuple[Array, Layout]]

    def __init__(self, function: Callable[P, R], dtypes: Sequence[DType]) -> None:
        super().__init__(function, dtypes, shares=True)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Apply the op."""
        bound = dict(zip(self.names, self._given(args, kwargs)))
        if batching.has_rules:
            answer = batching.batched_call(self, bound)
            if answer is not NotImplemented:
                return cast(R, answer)
        tensors = self._tensors(bound)
        (out,) = self._apply(bound, tensors)
        self._record(bound, tensors, (out,))
        if is_grad_enabled():
            (tensor,) = tensors.values()
            register_view(tensor, out)
        return cast(R, out)

    def storage(self, rule: Rule) -> Rule:
        """Declare the storage rule: storage and layout of the result."""
        self.storage_rule = rule
        return rule

    def _apply(
        self, bound: dict[str, Any], tensors: dict[str, Any]
    ) -> tuple[TensorCore, ...]:
        array, layout = self.storage_rule(*bound.values())
        (tensor,) = tensors.values()
        return (type(tensor).make(array, interned(layout), tensor.device),)
