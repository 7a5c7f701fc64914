"""Calls of ops and gradient rules in a trace, hidden from the profile function.

`CalleeTracker` observes every call in its thread, and the library makes many for each
op, of which none is a user's. So while a trace runs, ops and rules suspend the profile
function. Those that may call a user's function are left as they are: ops and rules of
users, operands of other classes, hooks.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from vkbackend import fork_safety

from ..autograd.engine import BackwardPass
from ..autograd.saved_tensors_hooks import pack_hooks
from ..autograd.tape import GradNode
from ..dispatch.composite import Composite
from ..dispatch.elementwise import Elementwise
from ..dispatch.movement import Movement
from ..dispatch.op import Op
from ..dispatch.primitive import Primitive
from ..eager.node_recorder import LIBRARY_PREFIX

Call = Callable[..., Any]


class HiddenCalls:
    """Block in which ops and gradient rules hide their calls from profile functions.

    Parameters
    ----------
    observer : type
        Class of the objects whose methods these functions are.
    """

    def __init__(self, observer: type) -> None:
        self._observer = observer

    def __enter__(self) -> HiddenCalls:
        with _entering:
            _entered.add(self)
            for kind, name, call, hides in _calls:
                setattr(kind, name, _hiding(call, hides, self._observer))
        return self

    def __exit__(self, *_: object) -> None:
        with _entering:
            _entered.discard(self)
            if not _entered:
                for kind, name, call, _is_hidden in _calls:
                    setattr(kind, name, call)


def _hiding(call: Call, is_hidden: Callable[..., bool], observer: type) -> Call:
    """Return a method that may hide its calls; right at any time and in any thread."""
    read, write = sys.getprofile, sys.setprofile

    @functools.wraps(call)
    def hiding(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen = read()
        if seen is None:
            return call(self, *args, **kwargs)
        # First, as each call from here on would be observed.
        write(None)
        try:
            known = type(getattr(seen, "__self__", None)) is observer
            if not (known and is_hidden(self, *args, **kwargs)):
                write(seen)
            return call(self, *args, **kwargs)
        finally:
            write(seen)

    return hiding


def _is_hidden_op(op: Any, *args: Any, **kwargs: Any) -> bool:
    """Return whether a call of an op runs nothing of a user's."""
    return (
        pack_hooks.top.value is None
        and op.__module__.startswith(LIBRARY_PREFIX)
        and all(map(_is_known, args))
        and all(map(_is_known, kwargs.values()))
    )


def _is_hidden_rule(_: object, node: GradNode) -> bool:
    """Return whether the rule of a node of the tape runs nothing of a user's."""
    rule = getattr(node.apply, "__module__", None) or ""
    return (
        node.has_rule
        and node.hooks is None
        and type(node.saved) is dict
        and rule.startswith(LIBRARY_PREFIX)
    )


def _is_known(value: Any) -> bool:
    """Return whether nothing of a user's runs when an op reads an operand."""
    kind: Any = type(value)
    if kind in (tuple, list):
        return all(map(_is_known, value))
    return _is_known_class(kind)


@functools.lru_cache(maxsize=1024)
def _is_known_class(kind: type) -> bool:
    return kind in _PLAIN or kind.__module__.startswith(LIBRARY_PREFIX)


_PLAIN = (bool, int, float, complex, str, type(None), slice, range, type(Ellipsis))

_calls: list[tuple[type, str, Call, Callable[..., bool]]] = [
    (kind, "__call__", vars(kind)["__call__"], _is_hidden_op)
    for kind in (Op, Elementwise, Primitive, Movement, Composite)
]
_calls.append((BackwardPass, "visit", BackwardPass.visit, _is_hidden_rule))

_entered: set[HiddenCalls] = set()
_entering = threading.RLock()
fork_safety.renew(sys.modules[__name__], "_entering", threading.RLock)
