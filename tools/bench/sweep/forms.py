"""Shape classes of the sweep, and descriptions of the tensors that calls are given."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ShapeClass:
    """Shape class: the shape and layout of what an op is given.

    Attributes
    ----------
    name : str
        What is said of the shape: contiguous, transposed, broadcast, tiny, rows,
        columns, long, batched, odd.
    shape : tuple of int
        Of the first tensor.
    full : bool
        Whether the sizes are those for a GPU.
    """

    name: str
    shape: Shape
    full: bool

    @property
    def count(self) -> int:
        """Elements of the first tensor."""
        return math.prod(self.shape)

    def pick(self, full: Any, small: Any) -> Any:
        """Return the first for a GPU, the second for a software device."""
        return full if self.full else small


_FULL: dict[str, Shape] = {
    "contiguous": (4096, 4096),
    "tiny": (16, 16),
    "rows": (1 << 20, 16),
    "columns": (16, 1 << 20),
    "odd": (2039, 8191),
    "transposed": (4096, 4096),
    "broadcast": (4096, 4096),
    "long": (1 << 24,),
    "batched": (64, 8, 128, 256),
}
_SMALL: dict[str, Shape] = {
    "contiguous": (256, 512),
    "tiny": (4, 8),
    "rows": (8192, 16),
    "columns": (16, 8192),
    "odd": (127, 1021),
    "transposed": (256, 512),
    "broadcast": (256, 512),
    "long": (1 << 17,),
    "batched": (4, 8, 32, 128),
}
NAMES = tuple(_FULL)


def forms(size: str) -> dict[str, ShapeClass]:
    """Return the shape classes of a size, "full" or "small", by name."""
    table = _FULL if size == "full" else _SMALL
    return {
        name: ShapeClass(name, shape, size == "full") for name, shape in table.items()
    }


@dataclass(frozen=True)
class Given:
    """Description of a tensor that a call is given, without its elements.

    Attributes
    ----------
    shape : tuple of int
    low, high : float or None
        Range of the elements; None means the usual one of the dtype.
    dtype : str or None
        None is the dtype under test; a tensor of another one takes no gradient.
    layout : str
        "plain", "transposed" (of the last two dimensions) or "expanded" (one column,
        repeated).
    kind : str
        "uniform", "sorted", "distinct" (no equal ones along the last dimension, up to
        4097 also as float16), "distinct columns" (the same along the one before it),
        "permutation" (of whole numbers), "definite" (symmetric positive matrices),
        "separate" (those whose eigenvalues are evenly spaced), "regular" (matrices far
        from singular), "unit" (those whose determinants are neither large nor small) or
        "lower" and "upper" (triangles of those). Of whole
        numbers: "starts" and "ends" (of as many parts up to `high`), "places" (in each
        image, one of `high` neighbours for each element) and "labels" (some different
        ones below `high`, then -1).
    seed : int
        Tensors of one description differ by it.
    """

    shape: Shape
    low: float | None = None
    high: float | None = None
    dtype: str | None = None
    layout: str = "plain"
    kind: str = "uniform"
    seed: int = 0


@dataclass(frozen=True)
class Call:
    """Arguments of a call, with `Given` in place of tensors."""

    args: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)


Make = Callable[[ShapeClass], Call | None]
"""How a function's arguments follow from a shape class; None if it says nothing."""


def call(*args: Any, **keywords: Any) -> Call:
    """Return the arguments of a call."""
    return Call(args, keywords)


def first(
    form: ShapeClass, low: float | None = None, high: float | None = None
) -> Given:
    """Return the first tensor of a shape class."""
    layout = {"transposed": "transposed", "broadcast": "expanded"}
    return Given(form.shape, low, high, None, layout.get(form.name, "plain"))


def other(form: ShapeClass, seed: int, several: bool = True) -> Given:
    """Return a further tensor: of the same shape, or a row where rows broadcast."""
    if form.name == "broadcast" and several:
        return Given(form.shape[-1:], seed=seed)
    return Given(form.shape, seed=seed)


def operand(
    form: ShapeClass, seed: int, low: float | None, high: float | None
) -> Given:
    """Return operand number `seed` of an element-wise op of several tensors."""
    if form.name == "transposed" and seed == 0:
        return Given(form.shape, low, high, None, "transposed")
    if form.name == "broadcast" and seed:
        shape = form.shape[-1:] if seed % 2 else (*form.shape[:-1], 1)
        return Given(shape, low, high, seed=seed)
    return Given(form.shape, low, high, seed=seed)


def whole(*shape: int, below: int, seed: int = 0, dtype: str = "int64") -> Given:
    """Return whole numbers from 0."""
    return Given(shape, 0, below, dtype, seed=seed)


def mask(*shape: int) -> Given:
    """Return random truth values."""
    return Given(shape, dtype="bool")


def flatten(found: Any) -> list[Given]:
    """Return the tensors of a call's arguments, in order."""
    if isinstance(found, Given):
        return [found]
    if isinstance(found, Call):
        return flatten(found.args) + flatten(found.keywords)
    if isinstance(found, dict):
        return [each for value in found.values() for each in flatten(value)]
    if isinstance(found, tuple | list):
        return [each for value in found for each in flatten(value)]
    return []


def filled(found: Any, tensors: dict[int, Any]) -> Any:
    """Return arguments with tensors, by the `id` of their description, in place."""
    if isinstance(found, Given):
        return tensors[id(found)]
    if isinstance(found, dict):
        return {key: filled(value, tensors) for key, value in found.items()}
    if isinstance(found, tuple | list):
        return type(found)([filled(value, tensors) for value in found])
    return found
