"""Launch parameters of reductions of bags of rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..base.dtype import float64
from ..base.index_checks import BAG_OFFSETS, UNCHECKED
from ..base.shape import TensorSpec, ceil_div
from ..ir.kernel_call import Argument, Dispatch, IndexSlot, StridedSpec, divisor
from .linear import MOST_WORDS, linear_dispatch, words_of
from .reduce import QUAD
from .shader_types import storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

SEGMENT = 2048
"""Bytes of a row that are taken for all bags before the next: see `row_copy`."""

AT_ONCE = 4
"""Rows of a bag that an invocation loads at once."""

LONG_BAG, FEW_RESULTS = 64, 1 << 17
"""Rows of a bag, on average, from which an invocation takes longer to go through them
than the kernels that divide them take, and results from which others hide that."""


def has_long_bags(gpu: DeviceInfo, entries: int, bags: int, width: int) -> bool:
    """Return whether bags are so long, and few, that they should be divided."""
    long = entries > LONG_BAG * bags and bags * width < FEW_RESULTS
    return long and gpu.target.hides_latency


def bag_reduce_dispatch(
    gpu: DeviceInfo,
    weight: StridedSpec,
    index: TensorSpec,
    offsets: TensorSpec | None,
    out: TensorSpec,
    mode: str,
    padding: int,
    site: str,
    reading: Mapping[str, int],
    more: Mapping[str, str],
) -> Dispatch:
    """Return the dispatch that reduces bags of rows.

    Parameters
    ----------
    gpu : DeviceInfo
    weight : StridedSpec, shape (rows, width)
    index : TensorSpec, shape (entries,)
    offsets : TensorSpec, shape (bags,) or (bags + 1,), or None
        None if bags have the same length.
    out : TensorSpec, shape (bags, width)
    mode : str
        "sum", "mean" or "max".
    padding : int
        A row that does not count, or -1.
    site : str
        Of the indices.
    reading : mapping of str to int
        The constants by which they are read.
    more : mapping of str to str
        The node's "shares" and "places", where there are any.
    """
    for each in (weight, out):
        words_of("embedding_bag", each)
    bags, width = out.shape
    defines, size = dict(storage_defines(weight.dtype)), weight.dtype.itemsize
    if mode != "sum":
        defines["MEAN" if mode == "mean" else "MAXIMUM"] = "1"
    if _takes_quads(gpu, weight):
        defines["QUADS"] = "1"
        width, size = width // QUAD, size * QUAD
    segments = ceil_div(width * size, SEGMENT)
    segment = ceil_div(width, segments)
    if segments * segment * bags >= MOST_WORDS:
        segments, segment = 1, width
    push: dict[str, Argument] = {"weight": "weight", "indices": "index", "out_": "out"}
    push |= {"offsets": "index" if offsets is None else "offsets"}
    push |= {"shares": "weight", "places": "out", **more}
    checked = offsets is not None and site != UNCHECKED
    wrong = f"{site.partition(':')[0]}: {BAG_OFFSETS}" if checked else UNCHECKED
    push["error"] = IndexSlot(site, weight.shape[0])
    push["offset_error"] = IndexSlot(wrong, 0)
    push |= {"width": width, "count": segments * segment * bags, "bags": bags}
    push |= {"rows": weight.shape[0], "entries": index.numel, "padding": padding}
    push["marks"] = 0 if offsets is None else offsets.numel
    push |= {"each": index.numel // bags, "segment": segment}
    for k, number in enumerate((segment, bags)):
        push[f"magic[{k}]"], push[f"shift[{k}]"] = divisor(number)
    constants = {"HAS_OFFSETS": int(offsets is not None), "ITEMS": AT_ONCE, **reading}
    constants |= {"HAS_SHARES": int("shares" in more), "PLACES": int("places" in more)}
    if offsets is not None:
        constants["OFFSET_WORDS"] = offsets.dtype.itemsize // 4
    count = segments * segment * bags
    return linear_dispatch("index/bag_reduce", count, push, constants, defines)


def _takes_quads(gpu: DeviceInfo, weight: StridedSpec) -> bool:
    """Return whether four neighbours of a row are loaded at once."""
    aligned = weight.shape[1] % QUAD == weight.layout.offset % QUAD == 0
    return aligned and gpu.target.vec4_loads and weight.dtype is not float64
