"""Which cases of a test the gate runs; the wide tier runs the others too.

On a device, whose compiler takes most of the time, it runs as many as meet each value
of each parameter. They stand for the products of the values. Where another driver only
repeats what one has shown of a kernel, it runs one case of each test.
"""

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from vkbackend.framework.base.dtype import DType

GOLDEN = (5**0.5 - 1) / 2
# How many cases of a test the gate runs where fewer would meet each value.
LEAST = 4
# Arguments that are equal if they are written alike.
WRITTEN = (str, int, float, type(None), tuple, list, type, np.dtype, DType)

Values = frozenset[tuple[str, object]]


class ParametrizedCase(NamedTuple):
    """A case of a parametrized test.

    Parameters
    ----------
    arguments : mapping of str to object
        The argument of each parameter.
    rows : mapping of str to int
        For each parameter, which row of its list the argument is from.
    markers : frozenset of str
        The names of the case's markers.
    """

    arguments: Mapping[str, object]
    rows: Mapping[str, int]
    markers: frozenset[str]


def left_out(cases: Sequence[ParametrizedCase], share: int = 1) -> set[int]:
    """Return the numbers of the cases of a test that the gate leaves out.

    Parameters
    ----------
    cases : sequence of ParametrizedCase
        All of the test, but for those that have the marker `wide` already.
    share : int, default 1
        More than 1 says that cases of one kind are so many that one of `share` does,
        whatever their values.
    """
    tiers: defaultdict[frozenset[str], list[int]] = defaultdict(list)
    for number, case in enumerate(cases):
        tiers[case.markers].append(number)
    values = met_values(cases)
    kept: set[int] = set()
    met: Values = frozenset()
    # Some drivers run no cases but those of `core`, so these meet by themselves what
    # they can. What hardware alone runs stands for nothing elsewhere.
    for markers in sorted(tiers, key=lambda each: ("gpu" in each, "core" not in each)):
        numbers = tiers[markers]
        if share > 1:
            # Of each tier, so that none loses all.
            numbers = [numbers[each] for each in spread(len(numbers), share)]
        elif markers & {"device", "gpu"}:
            before: Values = frozenset() if markers & {"core", "gpu"} else met
            some = [values[number] for number in numbers]
            found = sufficient(some, LEAST - len(kept), before)
            numbers = [numbers[each] for each in found]
        met = met.union(*(values[number] for number in numbers))
        kept.update(numbers)
    return set(range(len(cases))) - kept


def further(cases: Sequence[ParametrizedCase], left: Container[int]) -> set[int]:
    """Return the numbers of all cases of a test but the first, for each set of markers.

    Parameters
    ----------
    cases : sequence of ParametrizedCase
        All of the test.
    left : container of int
        The numbers of the cases that the gate leaves out, none of which is the first.
    """
    met: set[frozenset[str]] = set()
    found = set()
    for number, case in enumerate(cases):
        if number in left or case.markers in met:
            found.add(number)
        else:
            met.add(case.markers)
    return found


def spread(count: int, share: int) -> list[int]:
    """Return one of `share` of the numbers below `count`, 0 always.

    By the golden ratio: whatever the period of a parameter, each of its values is met.
    """
    return [number for number in range(count) if number * GOLDEN % 1 < 1 / share]


def met_values(cases: Sequence[ParametrizedCase]) -> list[Values]:
    """Return the values that each case of a test meets.

    Parameters of one list share its rows: what can be compared of a row counts, and the
    row as such where nothing can.
    """
    lists: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    for name in cases[0].arguments if cases else ():
        lists[tuple(case.rows[name] for case in cases)].append(name)
    found: list[set[tuple[str, object]]] = [set() for _ in cases]
    for rows, names in lists.items():
        for row, case, values in zip(rows, cases, found, strict=True):
            given = {name: case.arguments[name] for name in names}
            written = {
                (name, repr(argument))
                for name, argument in given.items()
                if isinstance(argument, WRITTEN)
            }
            alone = len(names) == 1 or not written
            values.update({(names[0], row)} if alone else written)
    return [frozenset(values) for values in found]


def sufficient(
    cases: Sequence[Values], least: int, met: Values = frozenset()
) -> list[int]:
    """Return the numbers of the cases that together meet all values.

    Parameters
    ----------
    cases : sequence of Values
        What each case meets.
    least : int
        How many to return where fewer would do, if there are as many.
    met : Values, optional
        What other cases meet already.
    """
    kept, rest = [], []
    # Each is far from those before it.
    for number in sorted(range(len(cases)), key=lambda each: each * GOLDEN % 1):
        (rest if cases[number] <= met else kept).append(number)
        met |= cases[number]
    return sorted(kept + rest[: max(0, least - len(kept))])
