"""Reductions over all of a tensor in two steps: of its rows, and of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.device import GpuDevice
from ...codegen.ir.reductions import SMALL, RowSpace, fits_one_kernel
from ..view import permute

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


def in_two_steps(
    x: Tensor, dims: tuple[int, ...]
) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]] | None:
    """Return the dimensions that a reduction over all takes first, and then; or None.

    They are those of the tensor that is returned before them: `x` in memory order.

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
    order = layout.memory_order
    if order is None or value.numel != layout.numel:
        return None
    if not _shares_rows(device.gpu.info):
        return None
    if not layout.is_contiguous:
        x = permute(x, order)
        layout = x.layout
    for split in range(1, len(dims)):
        space = RowSpace(layout.shape, split)
        if space.columns > 1 and fits_one_kernel(space):
            return x, dims[split:], dims[:split]
    return None


def _shares_rows(gpu: DeviceInfo) -> bool:
    """Return whether a device has idle workgroups while one reduces a row."""
    return gpu.target.hides_latency and gpu.target.compiles_row_kernels
