"""What datasets and samplers are in one line."""

from __future__ import annotations

from collections.abc import Sized
from typing import ClassVar

from ..base.philox import Generator


class Represented:
    """Class whose instances are represented by what they were made from.

    Attributes
    ----------
    shown : tuple of str
        Names of attributes that are shown, where an instance has them.
    """

    shown: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        there = {name: vars(self)[name] for name in self.shown if name in vars(self)}
        words = [f"{name.lstrip('_')}={_told(each)}" for name, each in there.items()]
        return f"{type(self).__name__}({', '.join(words)})"


def _told(value: object) -> str:
    """Return a short text of a value: of a collection its class and length."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, Represented | Generator):
        return repr(value)
    name = type(value).__name__
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"<{name} of shape {tuple(shape)}>"
    # The length of a class of a program may take long, or not be there yet.
    known = isinstance(value, list | tuple | dict | range)
    return f"<{name} of {len(value)}>" if known and isinstance(value, Sized) else name
