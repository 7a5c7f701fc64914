"""What code looks up: variables, and attributes of them in a row."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

GLOBAL, CLOSURE, LOCAL, RESULT = range(4)
"""Where a row of attributes starts; `RESULT` is what code has computed."""

_STARTS = {
    "LOAD_GLOBAL": GLOBAL,
    "LOAD_NAME": GLOBAL,
    "LOAD_DEREF": CLOSURE,
    "LOAD_CLASSDEREF": CLOSURE,
    "LOAD_FROM_DICT_OR_DEREF": CLOSURE,
}
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})

_BETWEEN = frozenset({"PUSH_NULL", "CACHE", "NOP", "EXTENDED_ARG", "COPY", "DUP_TOP"})
"""What may stand between a variable and its attribute."""


class Use(NamedTuple):
    """A variable that is looked up, and attributes: `rate` of `inner` of `options`.

    Attributes
    ----------
    start : int
        One of `GLOBAL`, `CLOSURE`, `LOCAL` and `RESULT`.
    name : str
        Of the variable; empty for a result.
    attributes : tuple of str
        In order.
    """

    start: int
    name: str
    attributes: tuple[str, ...]


def uses(code: CodeType) -> Iterator[Use]:
    """Yield what code, and the functions that are defined in it, look up."""
    start, name, attributes = RESULT, "", list[str]()
    for each in dis.get_instructions(code):
        kind = each.opname
        if kind in _BETWEEN:
            continue
        if kind in _ATTRIBUTES:
            attributes.append(each.argval)
            continue
        if name or attributes:
            yield Use(start, name, tuple(attributes))
        start, name, attributes = RESULT, "", []
        if kind in _STARTS:
            start, name = _STARTS[kind], each.argval
        elif kind.endswith("LOAD_FAST") or kind.startswith("LOAD_FAST"):
            # Some are of two variables, of which the second is asked next.
            names = each.argval
            start, name = LOCAL, names if isinstance(names, str) else names[-1]
        elif kind.startswith("LOAD_SUPER"):
            attributes.append(each.argval)
    if name or attributes:
        yield Use(start, name, tuple(attributes))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from uses(constant)
