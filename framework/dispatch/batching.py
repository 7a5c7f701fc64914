"""Batching: how `func.vmap` takes the calls of ops on batched tensors.

A batched tensor has a layout of its own, so no call with one is in a call cache: the
slow path asks here. While no `vmap` runs, that is one test.

Tensors that are made of others, as sparse ones are, have such layouts too: once there
is one, the slow path asks what their classes make of a call; see `register_wrappers`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from vkbackend import fork_safety

from ..base.scoped_setting import ScopedSetting, ScopeFrame

if TYPE_CHECKING:
    from .op import Op

depth = 0
"""Batch levels in all threads: a quick test."""

has_rules = False
"""Whether calls may have rules: in batch levels, and ever after the first wrapper."""

levels = ScopedSetting(())
"""Batch levels of a thread, outermost first."""

BatchRule = Callable[["Op[..., Any]", Mapping[str, Any]], Any]


class InPlaceRules(NamedTuple):
    """How tensors are changed in place where one of them is batched.

    Attributes
    ----------
    batched : callable
        Whether any of its arguments is a batched tensor.
    assign, change, set_item : callable
        As those of `tensor.inplace`, with the operands as a tuple.
    """

    batched: Callable[..., bool]
    assign: Callable[..., Any]
    change: Callable[..., Any]
    set_item: Callable[..., None]


_rules: list[BatchRule] = []
_wrappers: list[tuple[BatchRule, Callable[..., InPlaceRules | None]]] = []
_in_place: list[InPlaceRules] = []
# A plain counter would stay wrong after an interrupt beside its update.
_counted: set[ScopeFrame] = set()
_counting = threading.RLock()
fork_safety.renew(sys.modules[__name__], "_counting", threading.RLock)


def register(rule: BatchRule, in_place: InPlaceRules) -> None:
    """Set what calls with batched tensors are handed to; it is above this package.

    It is given the op and its arguments by name, and returns the result, or
    `NotImplemented` for a call without batched tensors.
    """
    _rules[:] = [rule]
    _in_place[:] = [in_place]


def register_wrappers(
    rule: BatchRule, in_place: Callable[..., InPlaceRules | None]
) -> None:
    """Set what calls with tensors that are made of others are handed to, from now on.

    `in_place` is given tensors, and returns how to change them in place if one of them
    is such a tensor, None otherwise.
    """
    global has_rules
    with _counting:
        _wrappers[:] = [(rule, in_place)]
        has_rules = True


def has_wrappers() -> bool:
    """Return whether `register_wrappers` was called."""
    return bool(_wrappers)


def in_place_rules(*tensors: Any) -> InPlaceRules | None:
    """Return how to change tensors in place if any is batched; None otherwise."""
    for _, in_place in _wrappers:
        found = in_place(*tensors)
        if found is not None:
            return found
    if not _counted:
        return None
    rules = _in_place[0]
    return rules if rules.batched(*tensors) else None


def count(scope_frame: ScopeFrame, *, entered: bool) -> None:
    """Count a batch level that was entered or left; may be repeated."""
    global depth, has_rules
    with _counting:
        (_counted.add if entered else _counted.discard)(scope_frame)
        depth = len(_counted)
        has_rules = bool(_counted or _wrappers)


def transforming() -> bool:
    """Return whether this thread runs a function within a transform of `func`."""
    return depth > 0 and levels.top.outer is not None


def batched_call(op: Op[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Return the result of a call on batched tensors; `NotImplemented` without any."""
    for rule, _ in _wrappers:
        answer = rule(op, arguments)
        if answer is not NotImplemented:
            return answer
    return _rules[0](op, arguments) if _rules and _counted else NotImplemented
