"""Launch parameters of gathers of rows, or of elements, by index."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..base.dtype import encode
from ..base.errors import ShapeError
from ..base.shape import Collapsed, Layout, TensorSpec, collapse
from ..ir.kernel_call import (
    Argument,
    Dispatch,
    IndexSlot,
    StridedSpec,
    divisor,
    entry_divisors,
)
from .linear import MOST_WORDS, copy_dispatch, words_of
from .row_copy import (
    VECTOR,
    WORD,
    Rows,
    copies_rows,
    gathered_row_dispatch,
    gathered_vector_dispatch,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vkbackend import DeviceInfo

MOST_DIGITS = 2
"""Dimensions of a gather's source, beyond one for each of its parts, that a kernel
takes places apart into."""


class GatherLayout(NamedTuple):
    """Layout of a gather's source: the dimensions around those that are indexed.

    Attributes
    ----------
    outer, rows, inner : Collapsed
        Each of one operand, with as few dimensions as its strides allow.
    """

    outer: Collapsed
    rows: Collapsed
    inner: Collapsed

    @classmethod
    def of(cls, layout: Layout, dims: tuple[int, int]) -> GatherLayout:
        """Return the parts of a layout of which a range of dimensions is indexed."""
        bounds = (0, *dims, len(layout.shape))
        return cls(
            *(
                collapse(layout.shape[first:last], [layout.strides[first:last]])
                for first, last in itertools.pairwise(bounds)
            )
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sizes of the parts: (outer, rows, inner)."""
        outer, rows, inner = (math.prod(part.shape) for part in self)
        return outer, rows, inner

    @property
    def digits(self) -> int:
        """Dimensions beyond one for each part."""
        return sum(len(part.shape) - 1 for part in self)

    def arguments(self) -> tuple[dict[str, Argument], dict[str, int]]:
        """Return the arguments and constants by which a kernel finds elements."""
        names = "OUTER_DIGITS", "ROW_DIGITS", "INNER_DIGITS"
        constants = {name: len(part.shape) - 1 for name, part in zip(names, self)}
        push: dict[str, Argument] = {}
        digits: list[int] = []
        for number, (sizes, (strides,)) in enumerate(self):
            push[f"stride[{number}]"] = strides[0]
            for size, stride in zip(sizes[:0:-1], strides[:0:-1]):
                digits += [*divisor(size), size, stride]
        digits += [0] * (4 * MOST_DIGITS - len(digits))
        return push | {f"digit[{k}]": each for k, each in enumerate(digits)}, constants


def gather_dispatch(
    gpu: DeviceInfo,
    x: TensorSpec,
    index: TensorSpec,
    out: TensorSpec,
    push: dict[str, Argument],
    site: str,
    reading: Mapping[str, int],
    dims: tuple[int, int] = (1, 2),
) -> Dispatch:
    """Return the dispatch that takes rows, or `base` if `push` names one.

    `reading` are the constants by which indices are read. Of the dimensions of `x` the
    range `dims` are the rows.
    """
    layout = x.layout if isinstance(x, StridedSpec) else Layout.contiguous(x.shape)
    parts = GatherLayout.of(layout, dims)
    _, rows, _ = parts.shape
    missing = np.asarray(math.nan if x.dtype.is_differentiable else 0, x.dtype.numpy)
    bits = int.from_bytes(encode(missing, x.dtype).tobytes(), "little")
    has_base = "base" in push
    sizes = {"count": out.numel, "rows": rows}
    sizes |= {"entries": out.shape[1], "inner": out.shape[2]}
    sizes |= entry_divisors(*out.shape[1:])
    strides, digits = parts.arguments()
    fill = {"fill[0]": bits & 0xFFFFFFFF, "fill[1]": bits >> 32}
    push = {"x": "x", "indices": "index", "base": "x", "out_": "out", **push}
    push["error"] = IndexSlot(site, rows)
    words_of("take", x)
    if rows >= 1 << 31:
        raise ShapeError(f"take: {rows} rows are more than an int32 counts")
    constants = {"EACH": int(index.ndim == 3), "HAS_BASE": int(has_base)}
    constants |= {**reading, **digits}
    push, items = push | sizes | strides | fill, words_of("take", out)
    constants["SIZE"] = out.dtype.itemsize
    return copy_dispatch(gpu, "index/gather", items, push, constants)


def row_gather_dispatch(
    gpu: DeviceInfo,
    x: StridedSpec,
    index: TensorSpec,
    out: TensorSpec,
    site: str,
    reading: Mapping[str, int],
) -> Dispatch | None:
    """Return the dispatch that takes rows by vectors, where that is quickest.

    `reading` are the constants by which indices are read. Vectors are uniform loads on
    software devices, and loads of 16 bytes on others.
    """
    outer, count, inner = x.shape
    size, start = inner * x.dtype.itemsize, x.layout.offset * x.dtype.itemsize
    if index.ndim != 1 or size % WORD or not x.numel or not index.numel:
        return None
    width = size // WORD
    rows = Rows(width, outer, count, (count * width, width), (width, width))
    missing = np.asarray(math.nan if x.dtype.is_differentiable else 0, x.dtype.numpy)
    fill = encode(missing, x.dtype).tobytes() * (2 * WORD // x.dtype.itemsize)
    push: dict[str, Argument] = {"x": "x", "indices": "index", "out_": "out"}
    push |= {"error": IndexSlot(site, count), "rows": count, "entries": index.numel}
    push |= {
        f"fill[{k}]": int(word) for k, word in enumerate(np.frombuffer(fill, "<u4"))
    }
    constants = dict(reading)
    if gpu.target.vec4_loads and not size % VECTOR and not start % VECTOR:
        words_of("take", x)
        words_of("take", out)
        return gathered_vector_dispatch(rows, index.numel, push, constants)
    if not copies_rows(gpu, rows):
        return None
    taken = rows._replace(inner=index.numel)
    return gathered_row_dispatch(gpu, taken, push, constants)


FEW = 4
"""Fraction of a tensor, as its inverse, up to which it costs less to take elements in
place than to copy it: each may be a memory transaction of its own."""


def gathers_in_place(
    x: TensorSpec, layout: Layout, dims: tuple[int, int], index: TensorSpec
) -> bool:
    """Return whether rows of a strided tensor are taken without copying it first.

    So they are where elements repeat, as those of a broadcast tensor, and where few are
    taken. With an index for each element they are as far apart as in a copy if those
    beside each other, or in one column, are neighbours in memory.
    """
    parts = GatherLayout.of(layout, dims)
    outer, _, inner = parts.shape
    reach = sum((size - 1) * step for size, step in zip(layout.shape, layout.strides))
    if (reach + 1) * max(4, x.dtype.itemsize) >= 4 * MOST_WORDS:
        return False
    if parts.digits > MOST_DIGITS:
        return False
    repeats = any(n > 1 and not s for n, s in zip(layout.shape, layout.strides))
    each = index.ndim == 3
    taken = index.numel if each else outer * inner * index.numel
    row, column = (part.strides[0][-1] for part in parts[1:])
    beside = column == 1 if inner > 1 else row == 1
    near = each and (beside or row == 1)
    return repeats or near or FEW * taken <= x.numel
