"""Symbolic numbers: arguments of a traced function whose value may change in replays.

A trace of `jit` may be given a stand-in for a Python number. Where that enters a kernel
as a number, or is the start of a slice, replays write its current value. Whatever else
reads it (a branch, a size, a dictionary's key) gets the value that it has now, and
leaves a guard: a replay has to find the same answer.

Ints are affine forms over atoms, so that `(pos + 4) - pos` is the plain number 4.
"""

# Longer than most: ints, floats, their guards and their table are one arithmetic.

from __future__ import annotations

import math
import operator
import struct
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from .trace_hooks import Changing, ChangingInt

Key = Hashable
"""Names an expression: equal keys have equal values in every replay."""

live: set[SymbolTable] = set()
"""Tables of the traces that run: a quick test for the common case of none."""

MAX_GUARDS = 256
"""Guards on the numbers of a trace; past it, the numbers themselves are guarded."""

_INT64 = 1 << 63


class SymbolTable:
    """Symbolic numbers of a trace, and what it has read of them.

    Parameters
    ----------
    values : sequence of int or float
        The numbers' values in the call that is traced.

    Attributes
    ----------
    values : list of int or float
        Their values in the current call.
    guards : dict of Key to (callable, object)
        What was read: how to compute it from `values`, and what it was.
    fixed : set of int
        Numbers whose value itself is guarded.
    dynamic : list of Changing or ChangingInt
        Numbers that kernels take, which replays read again.
    indexing : bool
        Whether a number may be the start of a slice, which is a copy then.
    conflict : bool
        Whether such a copy was no substitute of the view that it stands for.
    """

    def __init__(self, values: Sequence[float], *, indexing: bool) -> None:
        self.values = list(values)
        self.guards: dict[Key, tuple[Callable[[], object], object]] = {}
        self.fixed: set[int] = set()
        self.dynamic: list[Changing | ChangingInt] = []
        self.indexing = indexing
        self.conflict = False
        self._copies: list[_SliceCopy] = []
        self._changed = 0
        self._numbers: dict[Key, Changing | ChangingInt] = {}

    def symbols(self) -> list[SymbolicNumber]:
        """Return the stand-ins of all numbers, in order."""
        found: list[SymbolicNumber] = []
        for k, value in enumerate(self.values):
            read = self._reader(k)
            roots = frozenset((k,))
            if isinstance(value, int):
                atom = _Atom(k, read)
                found.append(SymbolicInt(self, value, {atom: 1}, 0, roots))
            else:
                found.append(SymbolicFloat(self, value, ("number", k), read, roots))
        return found

    def _reader(self, k: int) -> Callable[[], float]:
        values = self.values
        return lambda: values[k]

    def fit(self, values: Sequence[float]) -> bool:
        """Set the values of a call; return whether all guards hold for them."""
        self.values[:] = values
        try:
            for read, expected in self.guards.values():
                if read() != expected:
                    return False
        except (ArithmeticError, ValueError):
            return False
        return True

    def guard(self, key: Key, read: Callable[[], object], found: object) -> None:
        """Require that an expression has the value in replays that it has now."""
        self.guards.setdefault(key, (read, found))
        if len(self.guards) > MAX_GUARDS and len(self.fixed) < len(self.values):
            for each in self.symbols():
                each.concrete()

    def number(
        self,
        symbol: SymbolicNumber,
        key: Key,
        made: Callable[[], Changing | ChangingInt],
    ) -> Changing | ChangingInt:
        """Return the dynamic argument of a symbol, one for each key."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = made()
            found.read = symbol.reader()
            self.dynamic.append(found)
        return found

    def copied(self, base: Any, place: Key, copy: Any) -> None:
        """Note that a storage is a copy of a slice of another, which it stands for."""
        self._copies = [each for each in self._copies if each.copy() is not None]
        self._copies.append(_SliceCopy(base, place, weakref.ref(copy)))

    def written_back(self, base: Any, place: Key, source: Any) -> None:
        """Note that a slice is about to be overwritten, maybe by its own copy."""
        for each in self._copies:
            if each.copy() is source and each.base is base and each.place == place:
                self._changed -= each.changed
                each.changed, each.overwritten = False, True

    def on_rebind(self, array: Any) -> None:
        """Note that a storage changes.

        Raises
        ------
        SymbolConflict
            If it has a copy that would have to change too.
        """
        for each in self._copies:
            copy = each.copy()
            if copy is None:
                continue
            if array is copy and not each.changed:
                each.changed = True
                self._changed += 1
            elif array is each.base:
                if not each.overwritten:
                    self.conflicts()
                each.overwritten = False

    def read(self, values: Iterable[Any]) -> None:
        """Note that a kernel reads values; raise as `on_rebind`."""
        if self._changed:
            stale = [each.base.value for each in self._copies if each.changed]
            if any(value is each for value in values for each in stale):
                self.conflicts()

    def finish(self) -> None:
        """Note that the function has returned; raise as `on_rebind`."""
        if self._changed or self.conflict:
            self.conflicts()

    def conflicts(self) -> None:
        """Raise `SymbolConflict`."""
        self.conflict = True
        raise SymbolConflict("a slice with a start that changes is changed in place")


class SymbolConflict(BaseException):
    """A trace cannot go on with symbolic numbers: it is made again without.

    No `Exception`, as the function is not to catch it.
    """


class _SliceCopy:
    """Copy of a slice that stands for a view.

    Attributes
    ----------
    base : Array
        Storage of the slice.
    place : Key
        Which slice it is.
    copy : callable
        Weak reference to the storage of the copy.
    changed : bool
        Whether the copy has changed in place, and not been written to the slice.
    overwritten : bool
        Whether the next change of the base writes the copy to the slice.
    """

    def __init__(self, base: Any, place: Key, copy: Callable[[], Any]) -> None:
        self.base = base
        self.place = place
        self.copy = copy
        self.changed = self.overwritten = False


class _Atom:
    """A number of the table, or an expression over it that is no sum.

    Equal by key; see `SymbolicInt`.
    """

    __slots__ = ("key", "read")

    def __init__(self, key: Key, read: Callable[[], Any]) -> None:
        self.key = key
        self.read = read

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Atom) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _arithmetic(name: str, compute: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """Return the methods of an operator, and of the operator with operands swapped."""

    def method(self: SymbolicNumber, other: Any) -> Any:
        return self._combined(name, compute, self, other)

    def swapped(self: SymbolicNumber, other: Any) -> Any:
        return self._combined(name, compute, other, self)

    return method, swapped


def _comparison(compute: Callable[[Any, Any], Any]) -> Any:
    def method(self: SymbolicNumber, other: Any) -> Any:
        return self._compared(compute, other)

    return method


def _unary(name: str, compute: Callable[[Any], Any]) -> Any:
    def method(self: SymbolicNumber) -> Any:
        return self._applied(name, compute)

    return method


class SymbolicNumber:
    """Stand-in of a Python number; see the module.

    No subclass of `int` or `float`, of which C code would read the value unseen.
    `isinstance` takes it for one.

    Attributes
    ----------
    table : SymbolTable
    value : int or float
        Value in the call that is traced.
    roots : frozenset of int
        Numbers of the table that it depends on.
    """

    __slots__ = ("roots", "table", "value")

    table: SymbolTable
    value: Any
    roots: frozenset[int]

    def key(self) -> Key:
        """Return the name of its expression."""
        raise NotImplementedError

    def reader(self) -> Callable[[], Any]:
        """Return a callable that computes it from the values of a call."""
        raise NotImplementedError

    @property
    def plain(self) -> bool:
        """Whether it is a constant of the trace, or the trace has ended."""
        return self.table not in live or self.roots <= self.table.fixed

    def concrete(self) -> Any:
        """Return its value, which is guarded from then on."""
        if not self.plain:
            read, value = self.reader(), self.value
            self.table.guard((*_VALUE, self.key()), lambda: _bits(read()), _bits(value))
            self._fix()
        return self.value

    def _fix(self) -> None:
        """Note that a number of the table has one value in all replays."""

    def now(self) -> Any:
        """Return its value in the current call."""
        return self.reader()()

    def dynamic(self, is_float: bool) -> Any:
        """Return it as the argument of a kernel, which replays write anew."""
        raise NotImplementedError

    __lt__: Any = _comparison(operator.lt)
    __le__: Any = _comparison(operator.le)
    __gt__: Any = _comparison(operator.gt)
    __ge__: Any = _comparison(operator.ge)
    __eq__: Any = _comparison(operator.eq)
    __ne__: Any = _comparison(operator.ne)
    __abs__: Any = _unary("abs", abs)

    def __bool__(self) -> bool:
        return bool(self._compared(operator.ne, 0))

    def _compared(self, compare: Callable[[Any, Any], Any], other: Any) -> Any:
        """Return the answer of a comparison, which is guarded."""
        if type(other) not in _NUMBERS and not isinstance(other, SymbolicNumber):
            return self._unknown(compare, other)
        one, two = self.value, _value(other)
        found = compare(one, two)
        if not (self.plain and _is_plain(other)):
            read, given = self.reader(), _reader(other)
            key = compare.__name__, self.key(), _key(other)
            self.table.guard(key, lambda: compare(read(), given()), found)
        return found

    def _unknown(self, compute: Callable[[Any, Any], Any], other: Any) -> Any:
        """Return an answer with an operand of another class.

        That of the operand's own method where it is no number of Python's.
        """
        if isinstance(other, complex):
            return compute(self.concrete(), other)
        return NotImplemented

    def _combined(
        self, name: str, compute: Callable[[Any, Any], Any], one: Any, two: Any
    ) -> Any:
        """Return the result of an arithmetic operator on numbers, one of them this."""
        other = two if one is self else one
        if type(other) not in _NUMBERS and not isinstance(other, SymbolicNumber):
            if isinstance(other, complex | str | bytes | list | tuple):
                return compute(_concrete(one), _concrete(two))
            return NotImplemented
        if _is_plain(one) and _is_plain(two):
            return compute(_value(one), _value(two))
        try:
            found = compute(_value(one), _value(two))
        except ArithmeticError:
            # Whether it is raised depends on the values.
            return compute(_concrete(one), _concrete(two))
        if isinstance(found, complex):
            return compute(_concrete(one), _concrete(two))
        first, second = _reader(one), _reader(two)
        key = name, _key(one), _key(two)
        roots = _roots(one) | _roots(two)

        def read() -> Any:
            return compute(first(), second())

        # For other values it may raise, or be of another class.
        kind: Any = type(found)
        self.table.guard(("type", key), lambda: type(read()), kind)
        return _made(self.table, found, key, read, roots)

    def _applied(self, name: str, compute: Callable[[Any], Any]) -> Any:
        """Return the result of a unary operator."""
        if self.plain:
            return compute(self.value)
        read = self.reader()
        key = name, self.key()
        found = compute(self.value)
        return _made(self.table, found, key, lambda: compute(read()), self.roots)

    def __hash__(self) -> int:
        return hash(self.concrete())

    def __repr__(self) -> str:
        return repr(self.concrete())

    def __str__(self) -> str:
        return str(self.concrete())

    def __format__(self, form: str) -> str:
        return format(self.concrete(), form)

    def __int__(self) -> int:
        return int(self.concrete())

    def __float__(self) -> float:
        return float(self.concrete())

    def __complex__(self) -> complex:
        return complex(self.concrete())

    def __trunc__(self) -> int:
        return math.trunc(self.concrete())  # type: ignore[no-any-return]  # an int

    def __floor__(self) -> int:
        return math.floor(self.concrete())  # type: ignore[no-any-return]  # an int

    def __ceil__(self) -> int:
        return math.ceil(self.concrete())  # type: ignore[no-any-return]  # an int

    def __round__(self, *digits: Any) -> Any:
        return round(self.concrete(), *digits)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.concrete(), dtype)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **options: Any
    ) -> Any:
        return getattr(ufunc, method)(*map(_concrete, inputs), **options)

    def __reduce__(self) -> Any:
        value = self.concrete()
        return type(value), (value,)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(type(self.value), name):
            raise AttributeError(
                f"'{type(self.value).__name__}' object has no attribute {name!r}"
            )
        return getattr(self.concrete(), name)


class SymbolicInt(SymbolicNumber):
    """Stand-in of an int: a sum of atoms times integers, and a constant."""

    __slots__ = ("_constant", "_terms")

    def __init__(
        self,
        table: SymbolTable,
        value: int,
        terms: dict[_Atom, int],
        constant: int,
        roots: frozenset[int],
    ) -> None:
        self.table = table
        self.value = value
        self.roots = roots
        self._terms = terms
        self._constant = constant

    @property  # type: ignore[misc]  # read-only, for `isinstance`
    def __class__(self) -> Any:
        return int

    def key(self) -> Key:
        """Return the name of its expression."""
        return frozenset(self._terms.items()), self._constant

    def reader(self) -> Callable[[], Any]:
        """Return a callable that computes it from the values of a call."""
        constant = self._constant
        (atom, factor), *rest = self._terms.items()
        read = atom.read
        if not rest and factor == 1:
            return (lambda: read() + constant) if constant else read
        terms = [(each.read, times) for each, times in self._terms.items()]
        return lambda: constant + sum([times * each() for each, times in terms])

    def _fix(self) -> None:
        if len(self._terms) == 1:
            (atom,) = self._terms
            if isinstance(atom.key, int):
                self.table.fixed.add(atom.key)

    def dynamic(self, is_float: bool) -> Any:
        """Return it as the argument of a kernel, which replays write anew."""
        inside: bool = self >= -_INT64 and self < _INT64
        if self.plain or not inside:
            return float(self.concrete()) if is_float else self.concrete()
        kind: Any = Changing if is_float else ChangingInt
        key = is_float, self.key()
        return self.table.number(self, key, lambda: kind(self.value))

    def _plus(self, other: Any, sign: int, times: int = 1) -> Any:
        """Return `times` this plus `sign` times another int."""
        terms = {atom: times * factor for atom, factor in self._terms.items()}
        constant, roots = times * self._constant, self.roots
        if isinstance(other, SymbolicInt) and type(other) is SymbolicInt:
            for atom, factor in other._terms.items():
                terms[atom] = terms.get(atom, 0) + sign * factor
            constant += sign * other._constant
            roots |= other.roots
        else:
            constant += sign * int(other)
        terms = {atom: factor for atom, factor in terms.items() if factor}
        if not terms:
            return constant
        value = times * self.value + sign * int(_value(other))
        return SymbolicInt(self.table, value, terms, constant, roots)

    def _sums_with(self, other: Any) -> bool:
        return not self.plain and (
            type(other) in (int, bool) or type(other) is SymbolicInt
        )

    def __add__(self, other: Any) -> Any:
        if self._sums_with(other):
            return self._plus(other, 1)
        return self._combined("add", operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        if self._sums_with(other):
            return self._plus(other, 1)
        return self._combined("add", operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        if self._sums_with(other):
            return self._plus(other, -1)
        return self._combined("sub", operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        if self._sums_with(other):
            return self._plus(other, 1, -1)
        return self._combined("sub", operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        if type(other) in (int, bool) and not self.plain:
            return self._plus(0, 1, int(other))
        return self._combined("mul", operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        if type(other) in (int, bool) and not self.plain:
            return self._plus(0, 1, int(other))
        return self._combined("mul", operator.mul, other, self)

    __invert__: Any = _unary("invert", operator.invert)

    def __neg__(self) -> Any:
        return -self.value if self.plain else self._plus(0, 1, -1)

    def __pos__(self) -> Any:
        return self

    def __index__(self) -> int:
        value: int = self.concrete()
        return value


class SymbolicFloat(SymbolicNumber):
    """Stand-in of a float: an expression."""

    __slots__ = ("_key", "_read")

    __neg__: Any = _unary("neg", operator.neg)
    __pos__: Any = _unary("pos", operator.pos)

    def __init__(
        self,
        table: SymbolTable,
        value: float,
        key: Key,
        read: Callable[[], float],
        roots: frozenset[int],
    ) -> None:
        self.table = table
        self.value = value
        self.roots = roots
        self._key = key
        self._read = read

    @property  # type: ignore[misc]  # read-only, for `isinstance`
    def __class__(self) -> Any:
        return float

    def key(self) -> Key:
        """Return the name of its expression."""
        return self._key

    def reader(self) -> Callable[[], Any]:
        """Return a callable that computes it from the values of a call."""
        return self._read

    def _fix(self) -> None:
        if isinstance(self._key, tuple) and self._key[0] == "number":
            self.table.fixed.add(self._key[1])

    def dynamic(self, is_float: bool) -> Any:
        """Return it as the argument of a kernel, which replays write anew."""
        if self.plain or not is_float:
            return self.concrete()
        return self.table.number(self, self._key, lambda: Changing(self.value))


def _define(kind: type, names: Iterable[str]) -> None:
    """Define operators, but for those that a class has of its own."""
    for name in names:
        compute = getattr(operator, f"__{name}__", None) or divmod
        methods = _arithmetic(name, compute)
        for each, method in zip((f"__{name}__", f"__r{name}__"), methods):
            if each not in vars(kind):
                setattr(kind, each, method)


_define(SymbolicInt, ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"))
_define(SymbolicInt, ("lshift", "rshift", "and", "or", "xor"))
_define(SymbolicFloat, ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"))
_NUMBERS = frozenset({int, float, bool})
_VALUE = ("value",)


def is_symbolic(value: object) -> bool:
    """Return whether a value is the stand-in of a number."""
    return issubclass(type(value), SymbolicNumber)


def concrete(value: Any) -> Any:
    """Return a value with symbolic numbers, also in sequences, made plain ones."""
    if is_symbolic(value):
        return value.concrete()
    if type(value) in (tuple, list):
        return type(value)([concrete(each) for each in value])
    if type(value) is slice:
        return slice(*map(concrete, (value.start, value.stop, value.step)))
    return value


def _concrete(value: Any) -> Any:
    return value.concrete() if is_symbolic(value) else value


def _value(value: Any) -> Any:
    return value.value if is_symbolic(value) else value


def _is_plain(value: Any) -> bool:
    return not is_symbolic(value) or value.plain


def _reader(value: Any) -> Callable[[], Any]:
    return value.reader() if is_symbolic(value) else lambda: value


def _key(value: Any) -> Key:
    return value.key() if is_symbolic(value) else (type(value), repr(value))


def _roots(value: Any) -> frozenset[int]:
    return value.roots if is_symbolic(value) else frozenset()


def _bits(value: float) -> object:
    """Return what tells two numbers apart: nan is nan, and -0.0 not 0.0."""
    return struct.pack("d", value) if isinstance(value, float) else (type(value), value)


def _made(
    table: SymbolTable,
    value: Any,
    key: Key,
    read: Callable[[], Any],
    roots: frozenset[int],
) -> Any:
    """Return an expression's stand-in."""
    if isinstance(value, int):
        return SymbolicInt(table, value, {_Atom(key, read): 1}, 0, roots)
    return SymbolicFloat(table, value, key, read, roots)
