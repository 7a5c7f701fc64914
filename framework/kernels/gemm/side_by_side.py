"""GEMM of a batch that shares the left operand, as one: columns side by side.

Of matrices whose columns are no whole tiles each would leave a part of its last tiles
idle, and the number of tiles is one of few. As columns of one GEMM they share tiles.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ...base.dtype import float32
from ...base.shape import Layout
from ...ir.kernel_call import BufferOffset, Dispatch, StridedSpec
from ..gpu_model import model_of
from .cost_model import microseconds, tile_configs
from .select import large_tile_gemm
from .tiles import SIMT, GemmSize, TileConfig, vector_width

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

LEAST_COLUMNS = 32
"""Columns of a matrix, at least: neighbours in memory, of 128 bytes."""

MARGIN = 0.95
"""Share of the modelled time of a batch below which its columns are side by side."""


def merged_config(
    gpu: DeviceInfo, mode: str, sizes: GemmSize
) -> tuple[TileConfig, float] | None:
    """Return the tile configuration with columns side by side, and its modelled time.

    None where a batch of GEMMs is as quick, or the kernel does not take them.

    Parameters
    ----------
    gpu : DeviceInfo
    mode : str
        GEMM mode.
    sizes : GemmSize
        Of the batch.
    """
    m, n, k, batch = sizes
    if mode != SIMT or batch == 1 or n < LEAST_COLUMNS or n % vector_width(mode):
        return None
    model, whole = model_of(gpu), GemmSize(m, n * batch, k)
    merged = next(iter(tile_configs(gpu, mode, whole)), None)
    if merged is None:
        return None
    time = microseconds(model, merged, mode, whole)
    apart = next(iter(tile_configs(gpu, mode, sizes)))
    quicker = time < MARGIN * microseconds(model, apart, mode, sizes)
    return (merged, time) if quicker else None


def merged_gemm(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, config: TileConfig
) -> list[Dispatch] | None:
    """Return the dispatches of a SIMT GEMM with columns side by side, or None.

    Parameters
    ----------
    gpu : DeviceInfo
    a : StridedSpec, shape (batch, m, k), float32
        The same matrix for all.
    b : StridedSpec, shape (batch, k, n)
        Of whole vectors of columns, which are contiguous; it is read in place.
    config : TileConfig
        Of `merged_config`.
    """
    batch, m, k = a.shape
    n, layout = b.shape[2], b.layout
    apart, line, step = layout.strides
    width = vector_width(SIMT)
    if a.dtype is not float32 or a.layout.strides[0] or step != 1 or apart % width:
        return None
    left = StridedSpec((1, m, k), a.dtype, a.layout._replace(shape=(1, m, k)))
    shape = 1, k, batch * n
    columns = Layout(shape, (batch * apart, line, 1), layout.offset)
    found = large_tile_gemm(
        gpu, left, StridedSpec(shape, b.dtype, columns), SIMT, config
    )
    if found is None or any(
        each.push.get("x") == BufferOffset("b", 0) for each in found
    ):
        return None
    if "matmul/gemm_simt" not in [each.kernel for each in found]:
        return None  # unaligned operands have another kernel
    return [
        dataclasses.replace(
            each,
            push={**each.push, "b_batch": apart // width},
            constants={**each.constants, "PLANE": n},
            defines={**each.defines, "SIDE_BY_SIDE": "1"},
        )
        if each.kernel == "matmul/gemm_simt"
        else each
        for each in found
    ]
