"""Storages of copies that are views in PyTorch: they refuse changes in place."""

from __future__ import annotations

import weakref

from .lazy_graph import Array, Value


class CopiedPart(Array):
    """Storage that refuses changes in place while what it was copied from is alive.

    In PyTorch the change would reach the source; here it would be lost to it. Once
    nobody has the source, nobody can tell.
    """

    __slots__ = ("_source",)

    _source: weakref.ref[Array]

    @classmethod
    def made(cls, array: Array, source: Array) -> CopiedPart:
        """Return a storage with the content of a copy, which knows its source."""
        part = cls.sharing(array)
        assert isinstance(part, CopiedPart)
        part._source = weakref.ref(source)
        return part

    def rebind(self, value: Value) -> None:
        """Replace the content and count an in-place change.

        Raises
        ------
        NotImplementedError
            If the source is alive.
        """
        self.check()
        super().rebind(value)

    def check(self) -> None:
        """Raise `NotImplementedError` if the source of the copy is alive."""
        if self._source() is not None:
            raise NotImplementedError(
                "in place: the tensor is a copy, by view_as_real, view_as_complex, real"
                " or imag, of one that is still there and would not be changed; write"
                " z.real = x or z.imag = x, or change a clone()"
            )
