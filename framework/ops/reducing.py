"""How reductions are cut into workgroups and launched."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..dispatch import (
    SOFTWARE_ROUNDS,
    Argument,
    Dispatch,
    Placed,
    Scratch,
    check_rounds,
    divisor,
    fold_grid,
)
from ..errors import ShapeError
from ..shape import Collapsed, Layout, TensorSpec, ceil_div, collapse
from .elementwise import copy

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor import Tensor

OPERATIONS = ("SUM", "PROD", "MAX", "MIN", "ARGMAX", "ARGMIN")
"""In the order of the shader's numbers."""

MAX_DIMS = 4
"""Kept, and reduced, dimensions that the shader walks."""

WORKGROUP = 256
SOFTWARE_WORKGROUP = 64

# A reduction with fewer workgroups than this is cut into chunks that are combined by a
# second dispatch, as long as a chunk keeps enough elements to be worth a workgroup.
WANTED_GROUPS = 512
SOFTWARE_WANTED_GROUPS = 8
MIN_CHUNK = 4096


def _split(layout: Layout, dims: tuple[int, ...]) -> tuple[Collapsed, Collapsed]:
    """Return the kept and the reduced dimensions, each collapsed."""
    sides = []
    for wanted in (False, True):
        chosen = [dim for dim in range(len(layout.shape)) if (dim in dims) == wanted]
        part = layout.permute(chosen)
        sides.append(collapse(part.shape, [part.strides]))
    return sides[0], sides[1]


def readable(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return `x`, copied if it has more separate dimensions than the shader walks.

    Raises
    ------
    ShapeError
        If kept and reduced dimensions alternate too often even then.
    """
    if not x.is_gpu or _fits(x.layout, dims):
        return x
    x = copy(x)
    if not _fits(x.layout, dims):
        raise ShapeError(
            f"reduce: kept and reduced dimensions of shape {x.shape} alternate more"
            f" than {MAX_DIMS} times; reduce over fewer dimensions at once"
        )
    return x


def _fits(layout: Layout, dims: tuple[int, ...]) -> bool:
    return all(len(side.shape) <= MAX_DIMS for side in _split(layout, dims))


def reduce_dispatches(
    gpu: DeviceInfo, operation: str, x: Placed, dims: tuple[int, ...], scale: float = 1
) -> list[Dispatch]:
    """Return the dispatches that reduce `x` over `dims` into "out".

    Parameters
    ----------
    gpu : DeviceInfo
        Where they run.
    operation : str
        One of `OPERATIONS`.
    x : Placed
        At least one element along the reduced dimensions.
    dims : tuple of int
        Reduced dimensions.
    scale : float, default 1
        Factor of the result.
    """
    kept, reduced = _split(x.layout, dims)
    outputs, count = math.prod(kept.shape), math.prod(reduced.shape)
    chunks = 1
    if not operation.startswith("ARG"):
        groups = ceil_div(outputs, _tile(gpu, kept, reduced)[1])
        wanted = SOFTWARE_WANTED_GROUPS if gpu.kind == "software" else WANTED_GROUPS
        chunks = max(1, min(ceil_div(wanted, groups), count // MIN_CHUNK))
        if gpu.kind == "software":
            chunks = max(chunks, ceil_div(count, SOFTWARE_ROUNDS))
    if chunks == 1:
        return [_dispatch(gpu, operation, x, "x", "out", kept, reduced, scale=scale)]
    partial = Scratch("partial", outputs * chunks * x.dtype.itemsize)
    first = _dispatch(gpu, operation, x, "x", partial, kept, reduced, chunks=chunks)
    rows = Collapsed((outputs,), ((1,),)), Collapsed((chunks,), ((outputs,),))
    return [first, _dispatch(gpu, operation, x, partial, "out", *rows, scale=scale)]


def sum_rows(
    gpu: DeviceInfo, rows: Scratch, x: TensorSpec, count: int, numel: int
) -> Dispatch:
    """Return the dispatch that sums `count` rows of `numel` elements into "out"."""
    kept, reduced = Collapsed((numel,), ((1,),)), Collapsed((count,), ((numel,),))
    return _dispatch(gpu, "SUM", x, rows, "out", kept, reduced)


def _tile(gpu: DeviceInfo, kept: Collapsed, reduced: Collapsed) -> tuple[int, int, int]:
    """Return invocations per output, outputs per workgroup, 1 if those are adjacent.

    The invocations of an output share its elements; neighbours take what lies side by
    side in memory, so that loads are coalesced.
    """
    size = SOFTWARE_WORKGROUP if gpu.kind == "software" else WORKGROUP
    outputs, count = math.prod(kept.shape), math.prod(reduced.shape)
    side_by_side = kept.strides[0][-1] == 1 and outputs > 1
    most = size // min(32, _power_of_two(outputs)) if side_by_side else size
    group = min(_power_of_two(max(1, count // 4)), most)
    return group, size // group, int(side_by_side)


def _power_of_two(value: int) -> int:
    """Return the largest power of two that is at most `value`."""
    return 1 << (value.bit_length() - 1)


def _dispatch(
    gpu: DeviceInfo,
    operation: str,
    x: TensorSpec,
    source: str | Scratch,
    target: str | Scratch,
    kept: Collapsed,
    reduced: Collapsed,
    chunks: int = 1,
    scale: float = 1,
) -> Dispatch:
    outputs = math.prod(kept.shape)
    group, per_workgroup, side_by_side = _tile(gpu, kept, reduced)
    count = math.prod(reduced.shape)
    check_rounds(gpu, operation.lower(), ceil_div(count, group * chunks))
    push: dict[str, Argument] = {"x": source, "out_": target}
    push |= {"outputs": outputs, "count": count, "scale": scale}
    for name, side in (("kept", kept), ("reduced", reduced)):
        # Innermost first; the size of the outermost is not needed.
        sizes = side.shape[::-1] + (1,) * MAX_DIMS
        strides = side.strides[0][::-1] + (0,) * MAX_DIMS
        for dim in range(MAX_DIMS):
            push[f"{name}_stride[{dim}]"] = strides[dim]
        for dim in range(MAX_DIMS - 1):
            push[f"{name}_size[{dim}]"] = sizes[dim]
            if name == "reduced":
                magic, shift = divisor(sizes[dim])
                push[f"reduced_magic[{dim}]"] = magic
                push[f"reduced_shift[{dim}]"] = shift
    defines = {"T": x.dtype.glsl}
    if operation.startswith("ARG"):
        defines["RESULT"] = "int"
    return Dispatch(
        "reduce/reduce",
        fold_grid(ceil_div(outputs, per_workgroup), chunks),
        push,
        {
            "LOCAL_X": group * per_workgroup,
            "OPERATION": OPERATIONS.index(operation),
            "GROUP": group,
            "OUTPUTS_FAST": side_by_side,
            "KEPT_DIMS": len(kept.shape),
            "REDUCED_DIMS": len(reduced.shape),
        },
        defines,
    )
