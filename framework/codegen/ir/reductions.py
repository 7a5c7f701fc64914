"""Decompositions of reductions into steps that a fused kernel can compute.

An op whose `reduction` names one of `DECOMPOSITIONS` takes a tensor `x` and `dims`. A
decomposition is a list of steps; each takes named values, "x" or results of earlier
steps, and makes a value per element, or per row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from ...base.dtype import DType, float32, float64, int32, uint32
from ...base.shape import Shape

SMALL = 32768
"""Elements up to which a fused reduction is used, however few rows there are."""

SOFTWARE_ROWS = 32
"""Rows from which a software device uses one invocation per row, the quickest."""

ENOUGH_ROWS = 64
MOST_COLUMNS = 65536
SOFTWARE_COLUMNS = 8192
"""Longest rows within the loop limit of software devices: `ir.kernel_call`."""


class ReductionStep(NamedTuple):
    """Step of a decomposition: an expression over values, or a fold of one.

    Attributes
    ----------
    name : str
    glsl : str
        Expression, or for a fold one of "add", "mul", "max" and "min".
    over : tuple of str
        Operand values, by the names that the expression has for them.
    fold : bool
    per_row : bool
        Whether its value is per row.
    """

    name: str
    glsl: str
    over: tuple[str, ...] = ("x",)
    fold: bool = False
    per_row: bool = False


def _fold(name: str, combine: str, x: str = "x") -> ReductionStep:
    return ReductionStep(name, combine, (x,), fold=True, per_row=True)


def _of_row(name: str, glsl: str, *over: str) -> ReductionStep:
    return ReductionStep(name, glsl, over, per_row=True)


_MAPS = {
    "abs": "x < 0 ? -x : x",
    "square": "x * x",
    "nonzero": "x != 0 ? 1 : 0",
    "number": "x == x ? x : 0",
    "is_number": "x == x ? 1 : 0",
    "zero": "x == 0 ? 1 : 0",
}
_FACTOR = "x == 0 ? 1 : x"

DECOMPOSITIONS: dict[str, tuple[ReductionStep, ...]] = {
    combine: (_fold("out", combine),) for combine in ("add", "mul", "max", "min")
}
DECOMPOSITIONS |= {
    f"add {name}": (ReductionStep("each", glsl), _fold("out", "add", "each"))
    for name, glsl in _MAPS.items()
}
DECOMPOSITIONS["mul factor"] = (
    ReductionStep("each", _FACTOR),
    _fold("out", "mul", "each"),
)
DECOMPOSITIONS["variance"] = (
    _fold("total", "add"),
    _of_row("mean", "total * per_count", "total", "per_count"),
    ReductionStep("square", "(x - mean) * (x - mean)", ("x", "mean")),
    _fold("out", "add", "square"),
)
DECOMPOSITIONS["logsumexp"] = (
    _fold("greatest", "max"),
    # Infinities are not subtracted: the difference would be NaN.
    _of_row("shift", "isinf(greatest) ? 0.0 : greatest", "greatest"),
    ReductionStep("power", "precise_exp(x - shift)", ("x", "shift")),
    _fold("total", "add", "power"),
    _of_row("out", "precise_log(total) + shift", "total", "shift"),
)
"""The steps of each reduction; `per_count` is 1 over the number of columns."""


class Reduction(NamedTuple):
    """A decomposition bound to the arguments of a node.

    Attributes
    ----------
    steps : tuple of ReductionStep
        The last one is "out", which is multiplied with `scale`.
    scale : float
    compute : DType
        Accumulation dtype.
    """

    steps: tuple[ReductionStep, ...]
    scale: float
    compute: DType


def reduction(
    name: str, x: DType, out: DType, params: Mapping[str, object]
) -> Reduction:
    """Return the bound decomposition of a node.

    Parameters
    ----------
    name : str
        The op's `reduction`.
    x, out : DType
        Dtypes of its input and its result.
    params : mapping of str to object
        The node's static arguments.
    """
    mapping = params.get("mapping")
    steps = DECOMPOSITIONS[f"{name} {mapping}" if mapping else name]
    scale = params.get("scale", 1.0)
    if "divisor" in params:
        divisor = params["divisor"]
        assert isinstance(divisor, int | float)
        scale = 1.0 / divisor if divisor else math.inf
    assert isinstance(scale, int | float)
    if x.is_float:
        compute = float64 if out is float64 else float32
    elif out.itemsize < 4:
        compute = int32 if out.kind == "int" else uint32
    else:
        compute = out
    return Reduction(steps, scale, compute)


def split_of(shape: Shape, dims: tuple[int, ...]) -> int | None:
    """Return the leading dimensions that a row reduction keeps.

    None if it does not reduce the last dimensions, or only one element of them.
    Dimensions of size 1 do not count, and the result is the least one possible.
    """
    split = len(shape)
    while split and (split - 1 in dims or shape[split - 1] == 1):
        split -= 1
    columns = math.prod(shape[split:])
    taken = math.prod(shape[dim] for dim in dims)
    return split if columns > 1 and columns == taken else None


def is_row_shape(shape: Shape, whole: Shape, split: int) -> bool:
    """Whether a shape has one element for each row of `whole`."""
    return shape[:split] == whole[:split] and math.prod(shape[split:]) == 1


class RowSpace(NamedTuple):
    """Row space: the shape of elements, and the leading dimensions that are rows."""

    shape: Shape
    split: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return math.prod(self.shape[: self.split])

    @property
    def columns(self) -> int:
        """Elements per row."""
        return math.prod(self.shape[self.split :])


def fits_one_kernel(space: RowSpace, software: bool = False) -> bool:
    """Whether one kernel should reduce these rows; see `row_space`."""
    rows, columns = space.rows, space.columns
    most = SOFTWARE_COLUMNS if software else MOST_COLUMNS
    enough = SOFTWARE_ROWS if software else ENOUGH_ROWS
    return columns <= most and (rows >= enough or rows * columns <= SMALL)
