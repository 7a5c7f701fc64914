"""Batching: how `func.vmap` takes the calls of ops on batched tensors.

A batched tensor has a layout of its own, so no call with one is in a call cache: the
slow path asks here. While no `vmap` runs, that is one test.
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
"""Batch levels in all threads: a quick test for the common case of none."""

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


def in_place_rules(*tensors: Any) -> InPlaceRules | None:
    """Return how to change tensors in place if any is batched; None otherwise."""
    rules = _in_place[0]
    return rules if rules.batched(*tensors) else None


def count(scope_frame: ScopeFrame, *, entered: bool) -> None:
    """Count a batch level that was entered or left; may be repeated."""
    global depth
    with _counting:
        (_counted.add if entered else _counted.discard)(scope_frame)
        depth = len(_counted)


def transforming() -> bool:
    """Return whether this thread runs a function within a transform of `func`."""
    return depth > 0 and levels.top.outer is not None


def batched_call(op: Op[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Return the result of a call on batched tensors; `NotImplemented` without any."""
    return _rules[0](op, arguments) if _rules else NotImplemented
