"""Grouped GEMMs: a product for each group of rows, whose sizes only the device knows.

The grid has room for every division of the rows into groups; workgroups find theirs by
the offsets, and those that have none end. See `matmul/group.glsl`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.index_checks import OFFSETS
from ...base.shape import ceil_div
from ...ir.kernel_call import (
    MAX_GROUPS,
    Argument,
    Dispatch,
    IndexSlot,
    StridedSpec,
    check_rounds,
    fold_grid,
)
from ..reduce import need_countable
from ..shader_types import storage_defines
from .gemv import gathered_gemv
from .select import grouped_gemm
from .small import TiledGemm, small_tile, uses_subgroup_tiles

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

ROW_SITE = f"grouped_mm: {OFFSETS}"
"""Site of the offsets."""

NUMBER_SITE = "gather_mm: weight"
"""Site of numbers of matrices."""


def grouped_rows_dispatches(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str
) -> list[Dispatch]:
    """Return the dispatches of a product of groups of rows with matrices of their own.

    Parameters
    ----------
    gpu : DeviceInfo
    a : StridedSpec, shape (m, k)
    b : StridedSpec, shape (groups, k, n)
    mode : str
        A GEMM mode of `tiles`.
    """
    (m, k), (groups, _, n) = a.shape, b.shape
    told: dict[str, Argument] = {"offsets": "offs", "error": IndexSlot(ROW_SITE, m)}
    large = grouped_gemm(gpu, _batched(a), b, groups, mode, told)
    if large is not None:
        return large
    product = _product(m=ceil_div(m, max(1, groups)), n=n, k=k, a=a, b=b, batch=groups)
    (rows, columns), constants = small_tile(gpu, product)
    tiles = (m // rows + groups + 1) * ceil_div(n, columns)
    push = _arguments(a, b, m, n, k)
    push |= {**told, "groups": groups, "b_group": b.layout.strides[0]}
    return [_dispatch(gpu, "GROUPS_OF_ROWS", a, tiles, 1, push, constants)]


def grouped_depth_dispatches(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, groups: int, mode: str
) -> list[Dispatch]:
    """Return the dispatches of a product for each group of what is summed over.

    Parameters
    ----------
    gpu : DeviceInfo
    a : StridedSpec, shape (m, k)
    b : StridedSpec, shape (k, n)
    groups : int
        Of k.
    mode : str
        A GEMM mode of `tiles`.
    """
    (m, k), n = a.shape, b.shape[1]
    told: dict[str, Argument] = {"offsets": "offs", "error": IndexSlot(ROW_SITE, k)}
    given = _batched(a), _batched(b), groups, mode, told
    large = grouped_gemm(gpu, *given, by_depth=True)
    if large is not None:
        return large
    product = _product(m=m, n=n, k=ceil_div(k, max(1, groups)), a=a, b=b, batch=groups)
    (rows, columns), constants = small_tile(gpu, product)
    tiles = ceil_div(m, rows) * ceil_div(n, columns)
    push = _arguments(a, b, m, n, k)
    push |= {**told, "groups": groups}
    return [
        _dispatch(
            gpu,
            "GROUPS_OF_K",
            a,
            tiles,
            min(MAX_GROUPS, groups - first),
            {**push, "first": first},
            constants,
        )
        for first in range(0, groups, MAX_GROUPS)
    ]


def gathered_dispatches(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, numbers: StridedSpec
) -> list[Dispatch]:
    """Return the dispatches of a product of each row with a matrix by its number.

    Parameters
    ----------
    gpu : DeviceInfo
    a : StridedSpec, shape (m, k)
    b : StridedSpec, shape (groups, k, n)
    numbers : StridedSpec, int32, shape (count,)
        A multiple of m: row i is that of the numbers from i * count / m on.
    """
    found = gathered_gemv(gpu, a, b, numbers, NUMBER_SITE)
    if found is not None:
        return found
    (m, k), (groups, _, n), (count,) = a.shape, b.shape, numbers.shape
    product = _product(m=1, n=n, k=k, a=a, b=b, batch=count)
    (_, columns), constants = small_tile(gpu, product)
    push = _arguments(a, b, m, n, k)
    push |= {"numbers": "numbers", "error": IndexSlot(NUMBER_SITE, groups)}
    push |= {"groups": groups, "b_group": b.layout.strides[0], "share": count // m}
    return [
        _dispatch(
            gpu,
            "NUMBERED_ROWS",
            a,
            ceil_div(n, columns),
            min(MAX_GROUPS, count - first),
            {**push, "first": first},
            constants,
        )
        for first in range(0, count, MAX_GROUPS)
    ]


def _batched(x: StridedSpec) -> StridedSpec:
    """Return a matrix as a batch of one."""
    shape, strides = (1, *x.shape), (0, *x.layout.strides)
    return StridedSpec(shape, x.dtype, x.layout._replace(shape=shape, strides=strides))


def _product(
    *, m: int, n: int, k: int, a: StridedSpec, b: StridedSpec, batch: int
) -> TiledGemm:
    """Return the product that one group has on average."""
    (a_row, a_column), (b_row, b_column) = a.layout.strides, b.layout.strides[-2:]
    return TiledGemm(
        m,
        n,
        k,
        a.dtype,
        a_along_k=a_column == 1 and a_row != 1,
        b_along_k=b_row == 1 and b_column != 1,
        batch=batch,
    )


def _arguments(
    a: StridedSpec, b: StridedSpec, m: int, n: int, k: int
) -> dict[str, Argument]:
    for each in (a, b):
        need_countable("grouped_mm", each)
    (a_row, a_column), (b_row, b_column) = a.layout.strides, b.layout.strides[-2:]
    push: dict[str, Argument] = {"a": "a", "b": "b", "out_": "out"}
    push |= {"m": m, "n": n, "k": k}
    push |= {"a_row": a_row, "a_column": a_column}
    push |= {"b_row": b_row, "b_column": b_column}
    return push | {"b_group": 0, "share": 1, "first": 0}


def _dispatch(
    gpu: DeviceInfo,
    kind: str,
    a: StridedSpec,
    tiles: int,
    batch: int,
    push: dict[str, Argument],
    constants: dict[str, int],
) -> Dispatch:
    check_rounds(gpu, "grouped_mm", a.shape[1])
    subgroup = uses_subgroup_tiles(gpu)
    name = "matmul/grouped_subgroup" if subgroup else "matmul/grouped_tiled"
    defines = {**storage_defines(a.dtype), kind: "1"}
    return Dispatch(name, fold_grid(tiles, batch), push, constants, defines)
