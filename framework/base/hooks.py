"""Hooks: callables that a user registers, each with a handle that removes it."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

_ids = itertools.count()


class RemovableHandle:
    """Handle of a registered hook, which removes it; also a block that ends with it.

    Parameters
    ----------
    hooks_dict : OrderedDict
        Hooks by handle id, in which the hook is to be put under `id`; held weakly.
    extra_dict : OrderedDict or iterable of OrderedDict, optional
        Others with an entry under the same id, which is removed too.
    on_remove : callable or None
        Called after a hook has been removed, as for a guard that has to see it.

    Attributes
    ----------
    id : int
        Key of the hook; ids grow in the order of registration.

    Examples
    --------
    >>> from collections import OrderedDict
    >>> hooks = OrderedDict()
    >>> handle = RemovableHandle(hooks)
    >>> hooks[handle.id] = print
    >>> handle.remove()
    >>> len(hooks)
    0
    """

    def __init__(
        self,
        hooks_dict: OrderedDict[int, Any],
        *,
        extra_dict: OrderedDict[int, Any] | Iterable[OrderedDict[int, Any]] = (),
        on_remove: Callable[[], object] | None = None,
    ) -> None:
        more = [extra_dict] if isinstance(extra_dict, OrderedDict) else [*extra_dict]
        self.id = next(_ids)
        self._dicts = [weakref.ref(each) for each in (hooks_dict, *more)]
        self._on_remove = on_remove

    def remove(self) -> None:
        """Remove the hook; does nothing where it has been removed before."""
        removed = False
        for reference in self._dicts:
            hooks = reference()
            if hooks is not None and hooks.pop(self.id, None) is not None:
                removed = True
        if removed and self._on_remove is not None:
            self._on_remove()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove()
