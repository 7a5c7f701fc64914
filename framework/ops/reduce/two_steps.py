"""Reductions over all of a tensor in two steps: of its rows, and of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.device import GpuDevice
from ...codegen.ir.reductions import SMALL, RowSpace, fits_one_kernel

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


def in_two_steps(
    x: Tensor, dims: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the dimensions that a reduction over all takes first, and then; or None.

    One workgroup of a row kernel cannot reduce a large tensor alone, but many can
    reduce its rows, and compute them on the way: what an element-wise op is about to
    make is never in memory.
    """
    layout, device = x.layout, x.device
    if not isinstance(device, GpuDevice) or len(dims) != len(layout.shape):
        return None
    value = x.array.value
    if value.node is None or not value.node.op.is_elementwise or value.numel <= SMALL:
        return None
    whole = layout.is_contiguous and value.numel == layout.numel
    if not whole or not _shares_rows(device.gpu.info):
        return None
    for split in range(1, len(dims)):
        space = RowSpace(layout.shape, split)
        if space.columns > 1 and fits_one_kernel(space):
            return dims[split:], dims[:split]
    return None


def _shares_rows(gpu: DeviceInfo) -> bool:
    """Return whether a device has idle workgroups while one reduces a row."""
    return gpu.target.hides_latency and gpu.target.compiles_row_kernels
