"""Second pass of split-K: the sum of slices, into which an epilogue may be fused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.dtype import bfloat16, float16, float32, int32
from ...base.shape import TensorSpec
from ...ir.kernel_call import Argument, BufferOffset, Dispatch, Scratch, linear_grid
from ..reduce import sum_rows
from ..shader_types import storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

MOST_SLICES = 64
"""More slices than these are shared by several invocations; 0 fuses no epilogue."""

DTYPES = (float32, float16, bfloat16, int32)
"""Dtypes whose vectors of four are loaded and stored at once."""

QUAD = 4
"""Results of an invocation, those of one row."""

INVOCATIONS = 128
"""Invocations of a workgroup."""


def sum_slices(
    gpu: DeviceInfo,
    partial: Scratch,
    out: TensorSpec,
    slices: int,
    result: str | BufferOffset = "out",
) -> Dispatch:
    """Return the dispatch that sums the split-K slices of a GEMM.

    Parameters
    ----------
    gpu : DeviceInfo
    partial : Scratch
        Sums of the slices, one after the other.
    out : TensorSpec
        Of the results.
    slices : int
    result : str or BufferOffset
        The output, or an offset in it.
    """
    numel = out.numel
    whole = out.shape[-1] % QUAD == 0 and out.dtype in DTYPES
    few = slices <= MOST_SLICES and gpu.target.hides_latency
    if not few or not whole or not numel:
        return sum_rows(gpu, partial, out, slices, numel, result)
    push: dict[str, Argument] = {"partial": partial, "out_": result}
    push |= {"quads": numel // QUAD, "slices": slices}
    grid = linear_grid(numel // QUAD, INVOCATIONS)
    constants = {"LOCAL_X": INVOCATIONS}
    defines = storage_defines(out.dtype)
    return Dispatch("matmul/sum_slices", grid, push, constants, defines)
