"""Promotion of numbers: which numbers of a call are symbolic in its trace.

A number among the arguments is part of a call's signature. Where two traces differ in
nothing but numbers, the next one is made with symbols for those that have changed
(`base.symbolic_number`), and serves calls with other values, too. A number that the
function reads as a value, such as a size, is not tried again.
"""

from __future__ import annotations

import dis
import functools
from collections import OrderedDict
from collections.abc import Sequence
from types import CodeType
from typing import Any, NamedTuple

from ..base.symbolic_number import SymbolTable
from .callees import CalleeTracker
from .signature import MODES, CallSignature

MIN_VALUES = 2
"""Traces that differ only in numbers, before one is made with symbols."""

MAX_FAILURES = 3
"""Traces with symbols in a row without a replay, after which no more are made."""

MAX_FORMS = 64
"""Forms of calls with statistics, at most."""

_NUMBERS = (int, float)


class Promoted(NamedTuple):
    """Symbolic numbers of a call.

    Attributes
    ----------
    form : _Form
        Statistics of calls of this form.
    at : tuple of int
        Their places in the signature's key.
    places : list of int or str
        The arguments, by position or name.
    table : SymbolTable
    call : CallSignature
        With a key that leaves their values open.
    """

    form: _Form
    at: tuple[int, ...]
    places: list[int | str]
    table: SymbolTable
    call: CallSignature


class _Form:
    """Statistics of calls that differ only in numbers.

    Attributes
    ----------
    earlier : list of tuple
        Numbers of the traces without symbols.
    fixed : set of int
        Places of numbers that are read as values.
    failures : dict of key to int
        Traces with symbols since the last replay of one, by their open key.
    disabled : bool
        Whether no trace with symbols is made.
    indexing : bool
        Whether a trace can be made again if a symbolic slice is no view.
    variants : list of (tuple of int, key, key)
        Traces with symbols: the places of these, the signature's key with their values
        left open, and the key in the trace cache.
    """

    def __init__(self) -> None:
        self.earlier: list[tuple[float, ...]] = []
        self.fixed: set[int] = set()
        self.failures: dict[object, int] = {}
        self.disabled = False
        self.indexing = True
        self.variants: list[tuple[tuple[int, ...], object, object]] = []


class NumberPromotion:
    """Promotion of numbers among the arguments of one function."""

    def __init__(self) -> None:
        self._forms: OrderedDict[object, _Form] = OrderedDict()
        self._made = 0

    def clear(self) -> None:
        """Forget all calls."""
        self._forms.clear()

    def _form(self, call: CallSignature) -> tuple[_Form | None, tuple[float, ...]]:
        at = _number_places(call.key)
        if not at:
            return None, ()
        form = self._forms.get(_open_key(call.key, at))
        return form, _values(call.key, at)

    def variants(self, call: CallSignature) -> list[tuple[list[float], object]]:
        """Return traces with symbols that a call may fit: its numbers, and the key."""
        form = self._form(call)[0] if self._forms else None
        if form is None:
            return []
        return [
            (list(_values(call.key, at)), key)
            for at, open_key, key in form.variants
            if _open_key(call.key, at) == open_key
        ]

    def replayed(self, call: CallSignature) -> None:
        """Note a replay of a trace with symbols."""
        form, _ = self._form(call)
        if form is not None and form.failures:
            form.failures.clear()

    def promoted(self, call: CallSignature, positional: int) -> Promoted | None:
        """Return the symbolic numbers of a call that is about to be traced.

        Parameters
        ----------
        call : CallSignature
        positional : int
            Number of its positional arguments.
        """
        form, _ = self._form(call)
        if form is None or form.disabled or len(form.earlier) < MIN_VALUES:
            return None
        at = _number_places(call.key)
        rows = [*form.earlier, _values(call.key, at)]
        changed = tuple(
            place
            for k, place in enumerate(at)
            if place not in form.fixed and len({repr(row[k]) for row in rows}) > 1
        )
        open_key = _open_key(call.key, changed)
        if not changed or form.failures.get(open_key, 0) >= MAX_FAILURES:
            return None
        table = SymbolTable(_values(call.key, changed), indexing=form.indexing)
        open_call = call._replace(key=("symbolic", *open_key))
        places = [_argument(call.key, place, positional) for place in changed]
        return Promoted(form, changed, places, table, open_call)

    def kept(
        self, call: CallSignature, callees: CalleeTracker, repeatable: bool
    ) -> None:
        """Note a trace without symbols that is cached."""
        at = _number_places(call.key)
        if not at:
            return
        key = _open_key(call.key, at)
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = _Form()
            if len(self._forms) > MAX_FORMS:
                self._forms.popitem(last=False)
        values = _values(call.key, at)
        if values not in form.earlier:
            form.earlier = [*form.earlier[-MIN_VALUES:], values]
        form.indexing = form.indexing and repeatable
        if any(map(_reads_classes, callees.codes)):
            # A stand-in's class is another one.
            form.disabled = True

    def keep(self, promoted: Promoted, call: CallSignature) -> object:
        """Note a trace with symbols that is cached; return its key in the cache."""
        form, table = promoted.form, promoted.table
        form.fixed.update(promoted.at[k] for k in table.fixed)
        if len(table.fixed) == len(promoted.at):
            return call.key
        open_key = _open_key(call.key, promoted.at)
        form.failures[open_key] = form.failures.get(open_key, 0) + 1
        self._made += 1
        key = "symbolic", self._made
        form.variants.insert(0, (promoted.at, open_key, key))
        return key

    def failed(self, promoted: Promoted) -> None:
        """Note that a trace with symbols could not be made: none is tried again."""
        promoted.form.disabled = True

    def evicted(self, key: object) -> None:
        """Note that a trace is no longer cached."""
        for form in self._forms.values():
            form.variants = [each for each in form.variants if each[2] != key]


@functools.lru_cache(maxsize=1024)
def _reads_classes(code: CodeType) -> bool:
    """Return whether code reads the global `type`."""
    return "type" in code.co_names and any(
        each.opname in ("LOAD_GLOBAL", "LOAD_NAME") and each.argval == "type"
        for each in dis.get_instructions(code)
    )


def _number_places(key: Any) -> tuple[int, ...]:
    """Return the places of numbers in a signature's key, those of modes left out."""
    return tuple(
        k
        for k in range(MODES, len(key))
        if type(key[k]) is tuple and len(key[k]) == 2 and key[k][0] in _NUMBERS
    )


def _values(key: Any, at: Sequence[int]) -> tuple[float, ...]:
    """Return the numbers at places of a key, where floats stand as text."""
    return tuple([key[k][0](key[k][1]) for k in at])


def _open_key(key: Any, at: Sequence[int]) -> tuple[object, ...]:
    """Return a key with the classes of the numbers at places, in place of these."""
    made = list(key)
    for k in at:
        made[k] = key[k][0]
    return tuple(made)


def _argument(key: Any, at: int, positional: int) -> int | str:
    """Return the argument at a place of a key, by position or name."""
    at -= MODES
    return at if at < positional else str(key[MODES + at - 1])
