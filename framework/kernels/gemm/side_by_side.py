"""GEMMs of batches as one: columns side by side, or a sum along the K of all.

Of matrices whose columns are no whole tiles each would leave a part of its last tiles
idle, and the number of tiles is one of few. As columns of one GEMM they share tiles, if
they share the left operand. The sum of a batch of products is a GEMM whose K is that of
all. Neither needs a copy: vectors of matrices are found by a division.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
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

MAX_SPLITS = 128
"""Largest split-K count of sums: K is large, and results are few."""

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
    right = StridedSpec(shape, b.dtype, columns)
    found = large_tile_gemm(gpu, left, right, SIMT, config)
    return _of_matrices(found, "SIDE_BY_SIDE", n, {"b_batch": apart // width})


def summed_config(
    gpu: DeviceInfo, mode: str, sizes: GemmSize
) -> tuple[TileConfig, float] | None:
    """Return the tile configuration of a sum of products, and its modelled time.

    Parameters as those of `merged_config`; None where the kernel does not take them.
    """
    m, n, k, batch = sizes
    if mode != SIMT or k % vector_width(mode):
        return None
    model, whole = model_of(gpu), GemmSize(m, n, k * batch)
    config = next(iter(tile_configs(gpu, mode, whole, MAX_SPLITS)), None)
    return (
        None if config is None else (config, microseconds(model, config, mode, whole))
    )


def summed_gemm(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, config: TileConfig
) -> list[Dispatch] | None:
    """Return the dispatches of a SIMT GEMM that sums up the products of a batch.

    Parameters
    ----------
    gpu : DeviceInfo
    a : StridedSpec, shape (batch, m, k), float32
    b : StridedSpec, shape (batch, k, n)
        Both are contiguous along K, in whole vectors, and read in place.
    config : TileConfig
        Of `summed_config`.
    """
    (batch, m, k), n, width = a.shape, b.shape[2], vector_width(SIMT)
    apart = a.layout.strides[0], b.layout.strides[0]
    along = a.layout.strides[2], b.layout.strides[1]
    if a.dtype is not float32 or along != (1, 1) or any(step % width for step in apart):
        return None
    shapes = (1, m, batch * k), (1, batch * k, n)
    left, right = (
        StridedSpec(shape, each.dtype, each.layout._replace(shape=shape))
        for shape, each in zip(shapes, (a, b))
    )
    found = large_tile_gemm(gpu, left, right, SIMT, config)
    steps = {"a_batch": apart[0] // width, "b_batch": apart[1] // width}
    return _of_matrices(found, "SUMMED", k, steps)


def _of_matrices(
    found: list[Dispatch] | None, macro: str, plane: int, steps: Mapping[str, int]
) -> list[Dispatch] | None:
    """Return a GEMM's dispatches as of several matrices, batch strides of which differ.

    None where one of these would be packed, or operands are unaligned, for which there
    is another kernel.
    """
    if found is None or "matmul/gemm_simt" not in [each.kernel for each in found]:
        return None
    in_place = [BufferOffset(name[0], 0) for name in steps]
    if any(each.push.get("x") in in_place for each in found):
        return None
    return [
        dataclasses.replace(
            each,
            push={**each.push, **steps},
            constants={**each.constants, "PLANE": plane},
            defines={**each.defines, macro: "1"},
        )
        if each.kernel == "matmul/gemm_simt"
        else each
        for each in found
    ]
