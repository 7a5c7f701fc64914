"""Ops written with other ops: their calls are watched once, then asked for again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from ..autograd.engine import is_grad_enabled, no_grad
from ..base import modes, trace_hooks
from ..base.device import GpuDevice
from ..base.dtype import DType
from ..base.modes import as_they_come
from ..eager.base_tensor import TensorCore
from ..eager.node_recorder import OWN, Watcher, recipe_of
from ..ir.lazy_graph import Key
from .call_cache import MOST_KNOWN, KnownCall, key_of
from .op import Op

P = ParamSpec("P")
R = TypeVar("R")

_UNSEEN: Any = object()


class Composite(Op[P, R]):
    """An op written with other ops, with a gradient rule of its own."""

    def __init__(
        self,
        function: Callable[P, R],
        dtypes: Sequence[DType] | Mapping[str, Sequence[DType]],
        outputs: Sequence[str],
    ) -> None:
        super().__init__(function, dtypes, outputs)
        self.known: dict[Key, KnownCall] = {}
        # What others write may depend on more than its arguments.
        self.own = function.__module__.startswith(OWN)

    def forget(self) -> None:
        """Forget what calls came to."""
        self.known.clear()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Apply the op, unchecked when a call with arguments like these came before."""
        given: tuple[Any, ...] = args
        if kwargs or modes.entered or len(args) != len(self.names):
            given = self._given(args, kwargs)
        key, tensors = key_of(given)
        known = self.known.get(key)
        if known is None:
            return cast(R, self._at_length(given, key))
        wants = tuple([each.requires_grad for each in tensors])
        answer = self._answer(known, wants, given, tensors)
        if True in wants and known.keeping is not None and is_grad_enabled():
            outputs = answer if isinstance(answer, tuple) else (answer,)
            known.keeping.leave(given, tensors, outputs, known.specs, known)
        return cast(R, answer)

    def _answer(
        self,
        known: KnownCall,
        wants: tuple[bool, ...],
        given: tuple[Any, ...],
        tensors: Sequence[TensorCore],
    ) -> Any:
        """Return what a call that is in order answers, in short if it was watched."""
        device = tensors[0].device
        if self.own and not trace_hooks.running and isinstance(device, GpuDevice):
            recipe = known.recipes.get(wants, _UNSEEN)
            if recipe is _UNSEEN or (recipe is not None and not recipe.holds()):
                watcher = Watcher(device)
                with trace_hooks.listening(watcher):
                    answer = self._plain(given)
                known.recipes[wants] = recipe_of(watcher, device, tensors, answer)
                return answer
            if recipe is not None:
                return recipe.again(tensors)
        return self._plain(given)

    def _plain(self, given: tuple[Any, ...]) -> Any:
        with no_grad(), as_they_come():
            return self.function(*given)  # type: ignore[call-arg]  # the parameters P

    def _at_length(self, given: tuple[Any, ...], key: Key) -> Any:
        """Check a call and apply the op; remember for `key` that it passed."""
        bound = dict(zip(self.names, given))
        tensors = self._tensors(bound)
        self._check(tensors)
        answer = self._plain(given)
        outputs = answer if isinstance(answer, tuple) else (answer,)
        self._record(bound, tensors, outputs)
        if key:
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            self.known[key] = KnownCall(
                self.keeping(tuple(tensors)) if outputs[0].dtype.is_float else None,
                tuple(each.spec for each in tensors.values()),
                tuple(each.layout for each in tensors.values()),
                {},
            )
        return answer
