"""Elements of tensors as bytes that are sent, and tensors of those that have come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.device import CPU
from ..base.shape import Layout
from ..tensor.tensor import Tensor
from .reductions import Reduction
from .transport import Bytes, Consume, Fill, as_bytes


def shown(x: Tensor) -> str:
    """Return dtype and shape, for messages."""
    return f"{x.dtype.name} {tuple(x.shape)}"


def elements_of(x: Tensor) -> np.ndarray:
    """Return the elements in row-major order, as they are in memory."""
    return x.stored().reshape(-1)


def tensor_of(flat: np.ndarray, shape: Sequence[int], like: Tensor) -> Tensor:
    """Return a tensor of elements on the device of another one."""
    layout = Layout.contiguous(tuple(shape))
    device = like.device if like.is_gpu else CPU
    return Tensor.from_stored(flat, layout, device, like.dtype)


def contiguous(x: Tensor) -> Tensor:
    """Return a tensor itself if its elements are in row-major order, or else a copy."""
    return x if x.layout.is_contiguous else x.contiguous()


def filler(parts: Sequence[np.ndarray]) -> Fill:
    """Return what writes the bytes of contiguous arrays, one for each rank."""
    views = [as_bytes(each) for each in parts]

    def fill(place: int, start: int, out: Bytes) -> None:
        out[:] = views[place][start : start + out.size]

    return fill


def writer(goals: Sequence[np.ndarray | None]) -> Consume:
    """Return what writes the bytes of each rank to an array, or drops them."""
    views = [None if each is None else as_bytes(each) for each in goals]

    def consume(rank: int, start: int, chunk: Bytes) -> None:
        goal = views[rank]
        if goal is not None:
            goal[start : start + chunk.size] = chunk

    return consume


def adder(reduction: Reduction, out: np.ndarray) -> Consume:
    """Return what reduces the pieces of all ranks, and writes each once it is done."""

    def consume(rank: int, start: int, chunk: Bytes) -> None:
        found = reduction.add(chunk.view(out.dtype))
        if found is not None:
            first = start // out.itemsize
            out[first : first + found.size] = found

    return consume
