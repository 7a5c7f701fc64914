"""Support for GEMM tiles as workgroup-scope cooperative matrices.

VK_NV_cooperative_matrix2 defines them, and `matmul/gemm_coopmat2` uses them. The
driver lists the workgroup sizes that may have them and the granularity of their sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.dtype import DType, bfloat16, float16
from .tiles import WORKGROUP_TILES, Tile

if TYPE_CHECKING:
    from vkbackend import DeviceInfo


def offers_workgroups(gpu: DeviceInfo, dtype: DType) -> bool:
    """Return whether workgroup-scope matrices support every tile, and its stores.

    Parameters
    ----------
    gpu : DeviceInfo
        A device with 16-bit floats and cooperative matrices.
    dtype : DType
        float16 or bfloat16.
    """
    flags = {"matrix_workgroup_scope", "matrix_flexible_dimensions"}
    flags |= {"matrix_tensor_addressing"}
    # float16 results are stored as matrices, bfloat16 ones element by element.
    sums = ("float32", "float16") if dtype is float16 else ("float32",)
    if dtype is bfloat16:
        flags |= {"matrix_per_element"}
    return flags <= gpu.supported and all(
        holds(gpu, tile, dtype.name, each) for tile in WORKGROUP_TILES for each in sums
    )


def holds(gpu: DeviceInfo, tile: Tile, factors: str, sums: str) -> bool:
    """Return whether a device lists workgroup-scope matrices that hold a tile.

    Parameters
    ----------
    gpu : DeviceInfo
    tile : Tile
    factors, sums : str
        Names of the operand dtype and the accumulator dtype.
    """
    threads = (tile.m // tile.sub_m) * (tile.n // tile.sub_n) * gpu.subgroup_size
    return any(
        (row.a, row.b, row.c, row.result) == (factors, factors, sums, sums)
        and (row.scope, row.invocations) == ("workgroup", threads)
        and not (row.saturating or tile.m % row.m or tile.n % row.n or tile.k % row.k)
        and max(tile.m, tile.n, tile.k) <= row.largest
        for row in gpu.flexible_matrix
    )
