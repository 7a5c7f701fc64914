"""Rows combined by atomics with those that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..base.dtype import DType, encode, float32
from ..ir.kernel_call import Argument, Dispatch, IndexSlot, StridedSpec
from .linear import linear_dispatch
from .reduce import need_countable
from .row_copy import first_copy

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

OPERATIONS = ("max", "min", "prod", "sum")
"""In the order of the shader's numbers."""

_KINDS = {"uint": "UNSIGNED", "int": "SIGNED", "float": "FLOAT"}


def identity_of(operation: str, dtype: DType) -> float:
    """Return the number that a combination with changes nothing."""
    if operation in ("prod", "sum"):
        return int(operation == "prod")
    if dtype.is_float:
        return -np.inf if operation == "max" else np.inf
    return dtype.limits[0 if operation == "max" else 1]


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
    push |= {"inner": source.shape[2]}
    push |= {"identity[0]": bits & 0xFFFFFFFF, "identity[1]": bits >> 32}
    if base.dtype.itemsize == 8:
        defines["WIDE_ATOMICS"] = "1"

    def step(number: int, count: int) -> Dispatch:
        # A pass names what it reads, so that the rest may have its memory.
        names = ("source", "source", "index") if number else ("base", "base", "base")
        read = dict(zip(("base", "source", "indices"), names))
        chosen = {"PASS": number, "OPERATION": OPERATIONS.index(operation)}
        chosen |= {"EACH": int(index.ndim == 3), **constants}
        return linear_dispatch(
            "index/atomic_reduce",
            count,
            {**read, **push, "count": count},
            chosen,
            defines,
        )

    if base.dtype.is_float and operation in ("max", "min"):
        begun = step(0, base.numel)
    else:
        begun = first_copy(gpu, "scatter_reduce", base, "base", "out")
    marked = [] if include_self else [step(1, source.numel)]
    return [begun, *marked, step(2, source.numel)]
