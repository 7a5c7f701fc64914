"""Pickles of any object, with tensors as PyTorch's files have them.

Python's own pickle makes and reads them, so reading one runs what it names: it is for
files of one's own, as PyTorch's `weights_only=False` is.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

from ..base.device import Device
from ..base.dtype import DType
from ..base.shape import Size
from .structure import TENSORS

PROTOCOL = 2
"""Of PyTorch's files."""


def pickled(value: object, plain: Callable[[Any], bytes]) -> bytes:
    """Return the pickle of an object.

    Parameters
    ----------
    value : object
        Tensors, classes and functions by their names, and whatever pickles.
    plain : callable
        Returns the opcodes for a tensor, dtype, device or size.

    Raises
    ------
    PicklingError, AttributeError, TypeError
        If a part has no name, or no pickle.
    """
    content = io.BytesIO()
    _ObjectPickler(content, plain).dump(value)
    return content.getvalue()


# Its methods are no part of typeshed.
_Pickler: Any = pickle._Pickler


class _ObjectPickler(_Pickler):  # type: ignore[misc]  # untyped there
    """Python's pickler, which leaves what PyTorch has to other opcodes."""

    def __init__(self, content: io.BytesIO, plain: Callable[[Any], bytes]) -> None:
        super().__init__(content, PROTOCOL)
        self._plain = plain

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        kind = type(obj)
        plain = kind in TENSORS or kind in (DType, Size) or isinstance(obj, Device)
        if not plain:
            super().save(obj, save_persistent_id)
            return
        if id(obj) in self.memo:
            self.write(self.get(self.memo[id(obj)][0]))
            return
        self.write(self._plain(obj))
        self.memoize(obj)


class ObjectUnpickler(pickle.Unpickler):
    """Python's unpickler, for which PyTorch's names mean what they are here.

    Parameters
    ----------
    content : bytes
        The pickle.
    find : callable
        Returns the value of a name, by module and name; raises `UnsafeFileError` where
        it is none of data.
    storage : callable
        Returns the storage that a persistent id tells.
    named : callable
        Returns what any other name stands for, or raises.
    """

    def __init__(
        self,
        content: bytes,
        find: Callable[[str, str], Any],
        storage: Callable[[Any], Any],
        named: Callable[[str, str, Callable[[str, str], Any]], Any],
    ) -> None:
        super().__init__(io.BytesIO(content))
        self._find, self._storage, self._named = find, storage, named

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name stands for."""
        if module.partition(".")[0] == "torch":
            return self._find(module, name)
        return self._named(module, name, super().find_class)

    def persistent_load(self, pid: Any) -> Any:
        """Return a storage."""
        return self._storage(pid)
