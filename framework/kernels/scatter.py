"""Rows combined by atomics with those that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..base.dtype import DType, encode, float32
from ..base.shape import ceil_div
from ..ir.kernel_call import (
    Argument,
    Dispatch,
    IndexSlot,
    StridedSpec,
    entry_divisors,
)
from .gpu_model import model_of
from .linear import linear_dispatch
from .reduce import need_countable
from .row_copy import first_copy

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

OPERATIONS = ("max", "min", "prod", "sum")
"""In the order of the shader's numbers."""

LEAST_RANGED = 1 << 20
"""Entries from which it pays to read them again for each range of places."""

MOST_RANGES = 4
"""Ranges of places in turn; with more, reading again takes longer than it saves."""


class Range(NamedTuple):
    """Places from `first` on."""

    first: int
    span: int


_KINDS = {"uint": "UNSIGNED", "int": "SIGNED", "float": "FLOAT"}


def identity_of(operation: str, dtype: DType) -> float:
    """Return the number that a combination with changes nothing."""
    if operation in ("prod", "sum"):
        return int(operation == "prod")
    if dtype.is_float:
        return -np.inf if operation == "max" else np.inf
    return dtype.limits[0 if operation == "max" else 1]


def place_ranges(gpu: DeviceInfo, places: int, size: int, entries: int) -> list[Range]:
    """Return the ranges of places that atomics change in turn, which a cache holds.

    Parameters
    ----------
    gpu : DeviceInfo
    places : int
    size : int
        Bytes of each.
    entries : int
        Which name any of them, and are read again for each range.
    """
    cached, ranges = model_of(gpu).cached_scatter_bytes, 1
    if cached is not None and entries >= LEAST_RANGED:
        ranges = max(1, ceil_div(places * size, cached))
    if ranges > MOST_RANGES:
        ranges = 1
    span = max(1, ceil_div(places, ranges))
    starts = range(0, max(1, places), span)
    return [Range(first, min(span, places - first)) for first in starts]


def atomic_reduce_dispatches(
    gpu: DeviceInfo,
    base: StridedSpec,
    index: StridedSpec,
    source: StridedSpec,
    operation: str,
    include_self: bool,
    site: str,
    constants: Mapping[str, int],
) -> list[Dispatch]:
    """Return the dispatches that combine (outer, entries, inner) with rows of `base`.

    Parameters
    ----------
    gpu : DeviceInfo
    base : StridedSpec, shape (outer, rows, inner)
        Of 4 bytes, or of 8.
    index : StridedSpec, shape (entries,) or that of `source`
    source : StridedSpec
        Of the dtype of `base`, or 2-byte floats for one of float32.
    operation : str
        One of `OPERATIONS`.
    include_self : bool
        Whether rows of `base` that are named count.
    site : str
        Of the indices.
    constants : mapping of str to int
        How they are read.
    """
    for each in (base, source):
        need_countable("scatter_reduce", each)
    identity = np.asarray(identity_of(operation, base.dtype), base.dtype.numpy)
    bits = int.from_bytes(encode(identity, base.dtype).tobytes(), "little")
    push: dict[str, Argument] = {"out_": "out", "signed_": "out"}
    defines = {"KIND": f"KIND_{_KINDS[base.dtype.kind]}"}
    if operation == "sum" and base.dtype.is_float:
        # Or the bits of a sum are exchanged until no other came between.
        native = base.dtype is float32 and gpu.float32_atomic_add
        push |= {"floats": "out"} if native else {}
        defines |= {"FLOAT_SUMS": "1"} if native else {}
    push["error"] = IndexSlot(site, base.shape[1])
    push |= {"rows": base.shape[1], "entries": source.shape[1]}
    push |= {"inner": source.shape[2], **entry_divisors(*source.shape[1:])}
    push |= {"identity[0]": bits & 0xFFFFFFFF, "identity[1]": bits >> 32}
    if base.dtype.itemsize == 8:
        defines["WIDE_ATOMICS"] = "1"

    if source.dtype is not base.dtype:
        defines[f"SOURCE_{source.dtype.name.upper()}"] = "1"

    def step(number: int, count: int, places: Range) -> Dispatch:
        # A pass names what it reads, so that the rest may have its memory.
        names = ("source", "source", "index") if number else ("base", "base", "base")
        read = dict(zip(("base", "source", "indices"), names))
        chosen = {"PASS": number, "OPERATION": OPERATIONS.index(operation)}
        chosen |= {"EACH": int(index.ndim == 3), **constants}
        return linear_dispatch(
            "index/atomic_reduce",
            count,
            {**read, **push, "count": count, **places._asdict()},
            chosen,
            defines,
        )

    if base.dtype.is_float and operation in ("max", "min"):
        begun = step(0, base.numel, Range(0, base.numel))
    else:
        begun = first_copy(gpu, "scatter_reduce", base, "base", "out")
    ranges = place_ranges(gpu, base.numel, base.dtype.itemsize, source.numel)
    passes = [2] if include_self else [1, 2]
    return [begun, *(step(n, source.numel, each) for each in ranges for n in passes)]
