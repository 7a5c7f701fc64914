"""Derived storages: the elements of another storage in another dtype, as a view.

The real numbers of a complex storage, and the complex numbers of a real one, are
storages whose content follows from their source's. That of a source in memory is the
same memory, taken for another dtype; of a lazy one, or in a trace, it is computed anew
after each change of the source. Writing to one changes the source, so that neither is
ever stale.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..base import trace_hooks
from ..base.dtype import DType
from ..base.shape import Layout
from .lazy_graph import Array, Failed, PinnedValue, Value, notify

_Known = dict["Derivation", "weakref.ref[DerivedArray]"]

_value: Any = Array.__dict__["value"]


class ReinterpretedValue(PinnedValue):
    """Value whose memory is another one's, taken for a dtype of another size.

    While it lives it refers to the other one, whose memory is then neither donated nor
    overwritten by replays: these give the other one memory of its own, in which this
    one is then, too.

    Parameters
    ----------
    source : Value
        In memory; of real numbers, or of complex ones.
    numel : int
    dtype : DType
        Of the elements that its memory is taken for.
    """

    __slots__ = ("__weakref__", "_source")

    def __init__(self, source: Value, numel: int, dtype: DType) -> None:
        self._source = Array(source)
        self.numel = numel
        self.dtype = dtype
        self.node = None
        self.external_refs = 0
        self.observers = set()

    @property
    def buffer(self) -> Any:  # type: ignore[override]  # the other one's
        """Memory of the other value."""
        return self._source.value.buffer

    def shows(self, source: Value) -> bool:
        """Return whether it is of the memory of a value."""
        return self._source.value is source


def in_device_memory(value: Value) -> bool:
    """Return whether a value lies in memory of a device."""
    buffer = value.buffer
    return not (buffer is None or isinstance(buffer, np.ndarray | Failed))


class Derivation(Protocol):
    """How a derived storage follows from its source, and a change goes back.

    Attributes
    ----------
    part : str
        What of the source it is.
    """

    part: str

    def read(self, source: Value) -> Array:
        """Return a storage of the content that follows from a source's."""

    def reinterpreted(self, source: Value) -> ReinterpretedValue | None:
        """Return the content in the memory of a source on a device, if it is there."""

    def written(self, source: Value, derived: Value) -> Array:
        """Return one of a source's content with another derived one."""

    def numbers(self, layout: Layout) -> Layout:
        """Return which real numbers of the source a layout chooses."""


class DerivedArray(Array):
    """Storage that follows from another one.

    The content is kept until the source changes. A trace has one of its own, which is
    dropped with what the trace derives.

    Attributes
    ----------
    source : Array
        What it is a view of; never a derived storage itself.
    derivation : Derivation
        How it follows.
    trace : TraceHooks or None
        The trace that made it.
    """

    __slots__ = (
        "_count",
        "_reinterpreted",
        "_taken",
        "_twin",
        "derivation",
        "source",
        "trace",
    )

    def __init__(self, source: Array, derivation: Derivation) -> None:
        self.source = source
        self.derivation = derivation
        self.former = None
        self.trace = trace_hooks.listener() if trace_hooks.running else None
        self._twin: DerivedArray | None = None
        self._taken: Value | None = None
        self._count = -1
        self._reinterpreted: weakref.ref[ReinterpretedValue] | None = None
        _value.__set__(self, None)

    @property
    def value(self) -> Value:
        """Content, derived anew if the source has changed."""
        twin = self._twin_of_trace()
        if twin is not None:
            return twin.value
        source = self.source
        count, taken = source.version, source.value
        found: Value | None = _value.__get__(self)
        if (
            found is None
            or taken is not self._taken
            or count != self._count
            or type(found.buffer) is Failed
        ):
            if taken.node is None and not trace_hooks.running:
                reinterpreted = self._in_memory_of(taken)
                if source.value is not taken:
                    return self.value  # Another thread has changed it meanwhile.
                if reinterpreted is not None:
                    return reinterpreted
            # Held, or another thread's flush could drop it.
            made = self.derivation.read(taken)
            found = made.value
            self._keep(found, taken, count)
        return found

    @value.setter
    def value(self, value: Value) -> None:
        self.replace(value)

    def _in_memory_of(self, source: Value) -> ReinterpretedValue | None:
        """Return the content in the memory of a source, if that is possible.

        It is not kept: a source that another value refers to would not be the only one
        of its memory, which replays ask for of what they change.
        """
        reference = self._reinterpreted
        found = None if reference is None else reference()
        if found is None or not found.shows(source):
            found = self.derivation.reinterpreted(source)
            self._reinterpreted = None if found is None else weakref.ref(found)
        return found

    @property
    def version(self) -> int:
        """Number of in-place changes of the source."""
        return self.source.version

    @version.setter
    def version(self, count: int) -> None:
        # After `replace`: what has been kept is the content of this version.
        if self._count == self.source.version:
            self._count = count
        self.source.version = count

    def rebind(self, value: Value) -> None:
        """Change the source, and count an in-place change of it."""
        self._write(value, self.source.rebind)

    def replace(self, value: Value) -> None:
        """Replace the content, and the source's, without an in-place change."""
        self._write(value, self.source.replace)

    def _write(self, value: Value, bind: Callable[[Value], None]) -> None:
        target = self._twin_of_trace() or self
        source = self.source
        made = self.derivation.written(source.value, value)
        bind(made.value)
        target._keep(value, source.value, source.version)

    def _twin_of_trace(self) -> DerivedArray | None:
        """Return the storage of a running trace that did not make this one."""
        trace = trace_hooks.listener()
        if trace is self.trace:
            self._twin = None
            return None
        if trace is None:
            # The trace has ended, and with it what it derived.
            self.trace = self._taken = self._twin = None
            return None
        if self._twin is None or self._twin.trace is not trace:
            self._twin = derived_array(self.source, self.derivation)
        return self._twin

    def _keep(self, value: Value, taken: Value, count: int) -> None:
        """Keep the content that follows from one of the source's."""
        value.external_refs += 1
        old = _value.__get__(self)
        _value.__set__(self, value)
        self._taken, self._count = taken, count
        notify(value, grew=True)
        if old is not None:
            old.external_refs -= 1
            notify(old, grew=False)

    def __del__(self) -> None:
        value = _value.__get__(self)
        if value is not None:
            value.external_refs -= 1
            notify(value, grew=False)


_derived: dict[int, tuple[weakref.ref[Array], _Known]] = {}
"""Storages that follow from others, by the others' `id` while these live."""


def derived_array(source: Array, derivation: Derivation) -> DerivedArray:
    """Return the storage that follows from another one; the same one while it lives."""
    entry = _derived.get(id(source))
    known = _known_of(source) if entry is None else entry[1]
    reference = known.get(derivation)
    found = None if reference is None else reference()
    trace = trace_hooks.listener() if trace_hooks.running else None
    if found is None or found.trace is not trace:
        found = DerivedArray(source, derivation)
        known[derivation] = weakref.ref(found)
    return found


def _known_of(source: Array) -> _Known:
    """Return where the storages that follow from another one are noted."""
    place = id(source)

    def forget(_: weakref.ref[Array]) -> None:
        _derived.pop(place, None)

    # Another thread may be as far.
    return _derived.setdefault(place, (weakref.ref(source, forget), {}))[1]


def source_of(array: Array) -> Array:
    """Return the storage that an array is a view of: itself, or a derived one's."""
    return array.source if type(array) is DerivedArray else array


def layout_in_source(array: Array, layout: Layout) -> Layout:
    """Return the layout of a view in the storage that it is a view of.

    Real or imaginary parts lie among both, also where they are computed for themselves.
    """
    if type(array) is DerivedArray and array.derivation.part in ("real", "imag"):
        return array.derivation.numbers(layout)
    return layout
