"""Fork safety: locks that are recreated in a forked child.

A child inherits the locks that other threads of its parent held, which are never
released there. So every long-lived lock is registered here with its attribute, and a
forked child replaces it by a new one. Acquiring it costs nothing extra.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable

_makers: weakref.WeakKeyDictionary[object, dict[str, Callable[[], object]]] = (
    weakref.WeakKeyDictionary()
)


def renew(owner: object, name: str, make: Callable[[], object]) -> None:
    """Replace an attribute in a forked child, before anything else runs there.

    Parameters
    ----------
    owner : object
        A module, or an object, that has the attribute; it is not kept alive.
    name : str
        Where it keeps the lock: nobody may keep it elsewhere too.
    make : callable
        Returns a new one.
    """
    _makers.setdefault(owner, {})[name] = make


def _renew_all() -> None:
    for owner, makers in list(_makers.items()):
        for name, make in makers.items():
            setattr(owner, name, make())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
