"""Which cases a sweep runs, and in what order: what matters most comes first."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .forms import Call, ShapeClass, forms
from .units import SweptFunction, UnknownArgumentsError

FORWARD, BOTH = "forward", "both"

_EACH = 3
"""Further shape classes of an element-wise op; every other function has all."""


@dataclass(frozen=True)
class SweepCase:
    """A call that is measured.

    Attributes
    ----------
    unit : SweptFunction
    form : ShapeClass
        Its shape class.
    arguments : Call
    dtype : str
    direction : str
        `FORWARD`, or `BOTH` for the call and its gradients.
    """

    unit: SweptFunction
    form: ShapeClass
    arguments: Call
    dtype: str
    direction: str

    @property
    def title(self) -> str:
        """Name in results."""
        return f"{self.unit.name} {self.form.name} {self.direction}"


def cases(
    units: Mapping[str, SweptFunction], size: str, every: bool = False
) -> list[SweepCase]:
    """Return the cases of a sweep, those that tell most first.

    Each function runs forward in its first dtype with every shape class (an
    element-wise op with a few, which differ from op to op), in its other dtypes with
    one class, and both ways with two classes and in float16. With other arguments than
    its first ones it runs in its first two dtypes.

    Parameters
    ----------
    units : mapping of str to SweptFunction
    size : str
        "full" or "small".
    every : bool, default False
        Run every dtype with every class, both ways.
    """
    ranked = [
        (rank, number, case)
        for number, unit in enumerate(units.values())
        for rank, case in _of(unit, forms(size), every, size == "small")
    ]
    ranked.sort(key=lambda each: each[:2])
    return [case for _, _, case in ranked]


def _of(
    unit: SweptFunction, classes: Mapping[str, ShapeClass], every: bool, small: bool
) -> Iterator[tuple[int, SweepCase]]:
    """Yield the cases of one function with their ranks."""
    known = {}
    for name, form in classes.items():
        try:
            arguments = unit.arguments(form)
        except UnknownArgumentsError:
            return
        if arguments is not None:
            known[name] = form, arguments
    dtypes = unit.dtypes()
    if not known or not dtypes:
        return
    names = list(known)
    few = unit.op is not None and unit.op.is_elementwise
    chosen = [names[0], *_rotated(unit.name, names[1:])][: 1 + _EACH if few else None]
    if small:
        chosen = chosen[:1]

    def case(name: str, dtype: str, direction: str) -> SweepCase:
        return SweepCase(unit, *known[name], dtype, direction)

    if every:
        for direction in (FORWARD, BOTH):
            for dtype in dtypes:
                for name in names:
                    yield 0, case(name, dtype, direction)
        return
    for rank, name in enumerate(chosen):
        yield 3 * rank, case(name, dtypes[0], FORWARD)
    most = 1 if small else 2 if unit.of else 6 if few else 4
    for rank, dtype in enumerate(dtypes[1:most]):
        name = chosen[(rank + 1) % len(chosen)] if few else chosen[0]
        yield 2 + 3 * rank, case(name, dtype, FORWARD)
    for rank, name in enumerate(chosen[: 1 if small else 2]):
        yield 1 + 6 * rank, case(name, dtypes[0], BOTH)
    if "float16" in dtypes[1:] and not small:
        yield 4, case(names[0], "float16", BOTH)


def _rotated(name: str, classes: Sequence[str]) -> list[str]:
    """Return shape classes from one on that differs from name to name."""
    if not classes:
        return []
    start = zlib.crc32(name.encode()) % len(classes)
    return [*classes[start:], *classes[:start]]
