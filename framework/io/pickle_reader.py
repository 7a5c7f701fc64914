"""Reading of pickles without running them: an interpreter of the opcodes of data.

Pickles are programs that may call anything. Here only the names of `pickle_values` have
a meaning; any other is refused, and nothing is ever imported.
"""

from __future__ import annotations

import io
import pickletools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..base.errors import UnsafeFileError

Global = Callable[..., Any]
"""What a name of a pickle stands for: called with the arguments in the pickle."""

_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": set,
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_LITERALS = frozenset(
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT UNICODE BINUNICODE"
    " SHORT_BINUNICODE BINUNICODE8 STRING BINSTRING SHORT_BINSTRING SHORT_BINBYTES"
    " BINBYTES BINBYTES8".split()
)
_IGNORED = frozenset(["PROTO", "FRAME"])
_SCALARS = (str, int, float, bool, complex, bytes, type(None))

METADATA = "_metadata"


def is_key(value: object) -> bool:
    """Return whether something may be a key: hashing a deep tuple ends the process."""
    if isinstance(value, tuple):
        return all(isinstance(part, _SCALARS) for part in value)
    return isinstance(value, _SCALARS)


class Named:
    """A global of a pickle: what it stands for, out of the pickle's reach.

    Parameters
    ----------
    name : str
        Module and name.
    call : callable
        Called with the arguments in the pickle.
    """

    __slots__ = ("_call", "name")

    def __init__(self, name: str, call: Global) -> None:
        self.name, self._call = name, call

    def __call__(self, *args: Any) -> Any:
        """Return what it makes of the arguments in the pickle."""
        return self._call(*args)


class PickleReader:
    """Interpreter of one pickle.

    Parameters
    ----------
    find : callable
        Returns the value of a global, by module and name; raises where it has none.
    storage : callable
        Returns the storage that a persistent id tells.
    """

    def __init__(
        self, find: Callable[[str, str], Any], storage: Callable[[Any], Any]
    ) -> None:
        self._find, self._storage = find, storage
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def read(self, content: bytes) -> Any:
        """Return what the pickle describes.

        Raises
        ------
        UnsafeFileError
            If it asks for anything but data.
        ArithmeticError, LookupError, TypeError, ValueError
            If it is damaged.
        """
        for opcode, argument, _ in pickletools.genops(io.BytesIO(content)):
            name = opcode.name
            if name == "STOP":
                break
            self._do(name, argument)
        if self._marks:
            raise ValueError("a mark is left")
        (value,) = self._stack
        return value

    def _do(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _LITERALS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self._memo[argument])
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name == "MARK":
            self._marks.append(len(stack))
        elif name in _TUPLES:
            count = _TUPLES[name]
            stack.append(tuple(self._popped(len(stack) - count)))
        elif name not in _IGNORED:
            method = getattr(self, f"_do_{name.lower()}", None)
            if method is None:
                raise UnsafeFileError(
                    f"it uses the opcode {name}, which is not of data"
                )
            method(argument)

    def _popped(self, start: int) -> list[Any]:
        """Return what is on the stack from a place on, and take it off."""
        if start < 0 or (self._marks and start < self._marks[-1]):
            raise ValueError("the stack is too short")
        found = self._stack[start:]
        del self._stack[start:]
        return found

    def _since_mark(self) -> list[Any]:
        return self._popped(self._marks.pop())

    def _pop(self) -> Any:
        return self._popped(len(self._stack) - 1)[0]

    def _do_pop(self, _: Any) -> None:
        self._pop()

    def _do_tuple(self, _: Any) -> None:
        self._stack.append(tuple(self._since_mark()))

    def _do_list(self, _: Any) -> None:
        self._stack.append(self._since_mark())

    def _do_dict(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append({})
        self._set_items(items)

    def _do_append(self, _: Any) -> None:
        value = self._pop()
        self._target(list).append(value)

    def _do_appends(self, _: Any) -> None:
        values = self._since_mark()
        self._target(list).extend(values)

    def _do_additems(self, _: Any) -> None:
        values = self._since_mark()
        self._target(set).update(map(self._key, values))

    def _do_frozenset(self, _: Any) -> None:
        self._stack.append(frozenset(map(self._key, self._since_mark())))

    def _do_setitem(self, _: Any) -> None:
        self._set_items(self._popped(len(self._stack) - 2))

    def _do_setitems(self, _: Any) -> None:
        self._set_items(self._since_mark())

    def _set_items(self, items: list[Any]) -> None:
        target = self._target(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[self._key(key)] = value

    def _target(self, kind: type) -> Any:
        found = self._stack[-1]
        if not isinstance(found, kind):
            raise ValueError(f"a {type(found).__name__} is filled as a {kind.__name__}")
        return found

    def _key(self, value: Any) -> Any:
        if not is_key(value):
            raise ValueError(f"a {type(value).__name__} is a key")
        return value

    def _do_global(self, argument: str) -> None:
        # Neither part holds a space, or this is none of the known names.
        module, _, name = argument.partition(" ")
        self._stack.append(self._find(module, name))

    def _do_stack_global(self, _: Any) -> None:
        module, name = self._popped(len(self._stack) - 2)
        self._stack.append(self._find(str(module), str(name)))

    def _do_reduce(self, _: Any) -> None:
        function, args = self._popped(len(self._stack) - 2)
        if not isinstance(function, Named) or not isinstance(args, tuple):
            raise UnsafeFileError(f"it calls a {type(function).__name__}")
        self._stack.append(function(*args))

    def _do_newobj(self, _: Any) -> None:
        self._do_reduce(None)

    def _do_build(self, _: Any) -> None:
        """Set the one attribute that is known: versions of a state's modules."""
        state = self._pop()
        target = self._stack[-1]
        known = type(target) is OrderedDict and isinstance(state, dict)
        if not known or state.keys() - {METADATA}:
            raise UnsafeFileError(f"it sets attributes of a {type(target).__name__}")
        for value in state.values():
            setattr(target, METADATA, value)

    def _do_binpersid(self, _: Any) -> None:
        self._stack.append(self._storage(self._pop()))
