"""Elements and flags of tensors that the host reads, which waits for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.device import GpuDevice
from ..base.trace_hooks import reads_are_refused
from ..eager.base_tensor import evaluate
from .reduce.minmax import amax

if TYPE_CHECKING:
    import numpy as np

    from ..tensor.tensor import Tensor


def read(x: Tensor) -> np.ndarray:
    """Return the elements of a tensor on the host."""
    return x.host_copy()


FEW = 1 << 14
"""Numbers that the host reads; of more a kernel finds whether one is not 0."""

FEW_FAR = 64
"""The same of discrete devices: of more than 256 bytes they make a copy for the host,
which takes longer than the kernel."""


def is_any(places: Tensor, beside: Tensor | None = None) -> bool:
    """Return whether a place is not 0; while a function is traced none is.

    The result `beside` is computed in the submission that finds out. Under `vmap` it is
    asked of all elements of the batch.
    """
    if reads_are_refused():
        return False
    few = _few(places)
    if beside is not None:
        evaluate(few, getattr(beside, "whole", beside))
    return bool(read(few).any())


def largest_flag(flags: Tensor, *beside: Tensor) -> int:
    """Return the largest of flags from 0 on; 0 while a function is traced.

    Results `beside` are computed in the submission that finds out; `vmap` as `is_any`.
    """
    if reads_are_refused():
        return 0
    few = _few(flags)
    if beside:
        evaluate(few, *(getattr(each, "whole", each) for each in beside))
    return int(read(few).max(initial=0))


def _few(places: Tensor) -> Tensor:
    """Return places that the host reads, or the largest of many."""
    places = getattr(places, "whole", places)
    device = places.device
    far = isinstance(device, GpuDevice) and device.gpu.info.kind == "discrete"
    return places if places.numel() <= (FEW_FAR if far else FEW) else amax(places)
