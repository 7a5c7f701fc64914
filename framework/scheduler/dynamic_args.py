"""Dynamic arguments of kernels, which change from replay to replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import TraceError
from ..base.trace_hooks import DYNAMIC, Changing, ChangingInt, StreamWord

if TYPE_CHECKING:
    from ..base.philox import Generator

FORMATS = {
    "float": "f",
    "double": "d",
    "int": "i",
    "uint": "I",
    "int64": "q",
    "uint64": "Q",
}
"""Format character of each kind of number, as the module `struct` has them."""

_WORD = 0xFFFFFFFF
_SHIFT = 32


class DynamicArguments:
    """Dynamic arguments of a recording: numbers that change between replays.

    Attributes
    ----------
    any : bool
        Whether there are any.
    marks : tuple
        State saved by `write` for `take_back`; empty if there is nothing to roll back.
    """

    def __init__(self) -> None:
        self._numbers: dict[
            int, tuple[Changing | ChangingInt, list[tuple[str, int]]]
        ] = {}
        self._streams: dict[Generator, list[tuple[int, int, int]]] = {}
        self._steps: list[Callable[[], object]] = []
        self._undoable: list[Any] = []
        self.any = False
        self.marks: tuple[object, ...] = ()
        # In a list, as the steps' closures would otherwise form a reference cycle.
        self._dirty = [False]

    @property
    def changed(self) -> bool:
        """Whether `write` has changed an argument since `sent`."""
        return self._dirty[0]

    def sent(self) -> None:
        """Mark the arguments as uploaded."""
        self._dirty[0] = False

    def add(
        self, name: str, field: tuple[str, int], start: int | None, number: float
    ) -> None:
        """Add an argument if its number is dynamic.

        Parameters
        ----------
        name : str
            The kernel, for error messages.
        field : tuple of (str, int)
            The argument's kind, and its offset among those of its dispatch.
        start : int or None
            Offset of these; None if the arguments are static.
        number : number
            Its value when the function was traced.
        """
        if not isinstance(number, DYNAMIC):
            return
        if start is None:
            raise TraceError(
                f"jit: {name} takes a number that changes, but its arguments are fixed"
                " when it is recorded"
            )
        kind, at = field[0], start + field[1]
        if isinstance(number, StreamWord):
            row = number.part, number.call, at
            self._streams.setdefault(number.generator, []).append(row)
        else:
            entry = self._numbers.setdefault(id(number), (number, []))
            entry[1].append((kind, at))

    def fix(
        self,
        content: bytearray,
        actions: Sequence[Changing | ChangingInt | Callable[[], object]],
        draws: Mapping[Generator, int],
    ) -> None:
        """Fix the steps of `write`: host actions in order, then random streams."""
        self.any = bool(self._numbers or self._streams)
        for action in actions:
            if not isinstance(action, Changing | ChangingInt):
                self._steps.append(action)
                if hasattr(action, "take_back"):
                    self._undoable.append(action)
            elif id(action) in self._numbers:
                _, places = self._numbers[id(action)]
                self._steps.append(_writer(content, action.read, places, self._dirty))
        for generator, count in draws.items():
            rows = self._streams.get(generator, [])
            drawer = _StreamDraw(content, generator, count, rows, self._dirty)
            self._steps.append(drawer)
            self._undoable.append(drawer)

    def write(self) -> None:
        """Run the host actions of a replay, and write the dynamic arguments."""
        self.marks = tuple([each.mark() for each in self._undoable])
        for step in self._steps:
            step()

    def take_back(self) -> None:
        """Undo the last `write` of a replay that was not submitted.

        Idempotent, as an interrupt may have cut it short.
        """
        for each, mark in zip(self._undoable, self.marks):
            each.take_back(mark)


def _view(content: bytearray, kind: str) -> Any:
    if kind not in FORMATS:
        raise TraceError(f"jit: a kernel takes a {kind} that changes from call to call")
    dtype = np.dtype(f"<{FORMATS[kind]}")
    return np.frombuffer(content, dtype, len(content) // dtype.itemsize)


def _writer(
    content: bytearray,
    read: Callable[[], float],
    places: Sequence[tuple[str, int]],
    dirty: list[bool],
) -> Callable[[], object]:
    """Return a function that reads a number and writes it to every argument."""
    targets = []
    last: float | None = None
    for kind in dict.fromkeys(kind for kind, _ in places):
        view = _view(content, kind)
        at = [place // view.itemsize for each, place in places if each == kind]
        targets.append((view, at[0] if len(at) == 1 else np.array(at)))

    def write() -> None:
        nonlocal last
        number = read()
        # Zeros are equal whatever their signs.
        if number != last or not number:
            dirty[0] = True
            # While it is None, an interrupt leaves no number that counts as written.
            last = None
            for view, at in targets:
                view[at] = number
            last = number

    return write


class _StreamDraw:
    """Random stream draw of one call: advances the generator, writes the words."""

    def __init__(
        self,
        content: bytearray,
        generator: Generator,
        count: int,
        rows: Sequence[tuple[int, int, int]],
        dirty: list[bool],
    ) -> None:
        self._generator = generator
        self._count = count
        self._dirty = dirty
        self._view = _view(content, "uint")
        self._parts = []
        for part in range(4 if rows else 0):
            chosen = [row for row in rows if row[0] == part]
            calls = np.array([call for _, call, _ in chosen], np.uint64)
            places = [at // self._view.itemsize for _, _, at in chosen]
            self._parts.append((calls, np.array(places, np.intp)))

    def __call__(self) -> None:
        first = np.uint64(self._generator.reserve(self._count))
        if not self._parts:
            return
        self._dirty[0] = True
        view, parts, seed = self._view, self._parts, self._generator.key
        view[parts[0][1]] = seed & _WORD
        view[parts[1][1]] = seed >> _SHIFT
        view[parts[2][1]] = (parts[2][0] + first) & np.uint64(_WORD)
        view[parts[3][1]] = (parts[3][0] + first) >> np.uint64(_SHIFT)

    def mark(self) -> tuple[int, int]:
        """Return the position of the generator."""
        return self._generator.key, self._generator.calls

    def take_back(self, mark: tuple[int, int]) -> None:
        """Rewind the generator, unless something was drawn since."""
        self._generator.give_back(mark, self._count)
