"""Hooks of optimizers: functions called around steps, and around states."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ..base.hooks import RemovableHandle

Hook = Callable[..., Any]
Hooks = OrderedDict[int, Hook]

STEP_PRE, STEP_POST = "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"
STATE_PRE = "_optimizer_state_dict_pre_hooks"
STATE_POST = "_optimizer_state_dict_post_hooks"
LOAD_PRE = "_optimizer_load_state_dict_pre_hooks"
LOAD_POST = "_optimizer_load_state_dict_post_hooks"
KINDS = (STEP_PRE, STEP_POST, STATE_PRE, STATE_POST, LOAD_PRE, LOAD_POST)

_global_pre_hooks: Hooks = OrderedDict()
_global_post_hooks: Hooks = OrderedDict()


class HookedOptimizer:
    """Base of optimizers that calls hooks around steps and states.

    The `step` of each subclass calls those of steps, as PyTorch's does: one that calls
    that of its base calls them twice.
    """

    # Of wrappers of other optimizers, which do not call `__init__`.
    _optimizer_step_pre_hooks: Mapping[int, Hook] = MappingProxyType({})
    _optimizer_step_post_hooks: Mapping[int, Hook] = MappingProxyType({})

    def __init__(self) -> None:
        for kind in KINDS:
            setattr(self, kind, OrderedDict())

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        step = vars(cls).get("step")
        if step is not None and not hasattr(step, "hooked"):
            cls.step = _calling_hooks(step)  # type: ignore[attr-defined]  # subclasses have it

    def _patch_step_function(self) -> None:
        """Do nothing: steps call hooks from the definition of their class on."""

    def _put(self, kind: str, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Register a hook, behind or before those that there are."""
        hooks = getattr(self, kind)
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restore a copy; `load_state_dict` gives `state` and `param_groups` alone."""
        names = {"state": "_state"}
        vars(self).update({names.get(name, name): each for name, each in state.items()})

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step.

        `args` begin with the optimizer. What it returns, unless None, takes the place
        of both.

        Returns
        -------
        RemovableHandle
        """
        return self._put(STEP_PRE, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step.

        Returns
        -------
        RemovableHandle
        """
        return self._put(STEP_POST, hook)

    def register_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return self._put(STATE_PRE, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`.

        What it returns, unless None, takes the state's place.
        """
        return self._put(STATE_POST, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`.

        It gets a shallow copy; what it returns, unless None, takes its place.
        """
        return self._put(LOAD_PRE, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return self._put(LOAD_POST, hook, prepend)

    def _call_hooks(self, kind: str) -> None:
        """Call hooks that take the optimizer alone."""
        for hook in [*getattr(self, kind).values()]:
            hook(self)

    def _changed_by_hooks(self, kind: str, state: Mapping[str, Any]) -> Any:
        """Return a state, or what hooks have put in its place."""
        for hook in [*getattr(self, kind).values()]:
            changed = hook(self, state)
            state = state if changed is None else changed
        return state

    @property
    def _has_step_hooks(self) -> bool:
        own = self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks
        return bool(own or _global_pre_hooks or _global_post_hooks)


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call a hook before each step of all optimizers, before their own hooks."""
    handle = RemovableHandle(_global_pre_hooks)
    _global_pre_hooks[handle.id] = hook
    return handle


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call a hook after each step of all optimizers, after their own hooks."""
    handle = RemovableHandle(_global_post_hooks)
    _global_post_hooks[handle.id] = hook
    return handle


def _calling_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `step` with the hooks around it."""

    @functools.wraps(step)
    def hooked(self: HookedOptimizer, *args: Any, **kwargs: Any) -> Any:
        if not self._has_step_hooks:
            return step(self, *args, **kwargs)
        given: tuple[Any, ...] = (self, *args)
        before = self._optimizer_step_pre_hooks
        for hook in [*_global_pre_hooks.values(), *before.values()]:
            changed = hook(self, given, kwargs)
            if changed is None:
                continue
            if not isinstance(changed, tuple) or len(changed) != 2:
                raise RuntimeError(
                    f"step: a hook returned {changed!r}; it must return None, or"
                    " arguments and keywords"
                )
            given, kwargs = changed
        result = step(*given, **kwargs)
        after = self._optimizer_step_post_hooks
        for hook in [*after.values(), *_global_post_hooks.values()]:
            hook(self, given, kwargs)
        return result

    hooked.hooked = True  # type: ignore[attr-defined]  # a mark
    return hooked
