"""Transfer workloads between the host and the device: time per call.

Their GB/s are those of the link; its limit is no part of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .workload import Bench, Case, workload

_MANY = 64 << 20
_FEW = 4096
_WORD = 4


def _values(bench: Bench, size: int) -> tuple[Any, Any, np.ndarray[Any, Any]]:
    """Return the same random numbers here, in the peer, and on the host."""
    x, px = bench.uniform(size // _WORD)
    return x, px, x.numpy()


def _case(
    size: int, ours: Callable[[], object], theirs: Callable[[], Sequence[Any]] | None
) -> Case:
    """Return a case with nothing to compare: its results are on the host already."""

    def run() -> Sequence[Any]:
        ours()
        return ()

    return Case(run, theirs, moved=size, tolerance=None, wall=True)


@workload("read_{}_bytes", full=(_MANY,), small=(_MANY,))
def read(bench: Bench, size: int) -> Case:
    """Read a tensor, whose elements the caller drops."""
    x, px, values = _values(bench, size)
    return _case(
        size,
        x.numpy,
        bench.choose(lambda torch: [px.cpu()], lambda: [values.copy()]),
    )


@workload("read_few_{}_bytes", full=(_FEW,), small=(_FEW,))
def read_few(bench: Bench, size: int) -> Case:
    """Read a small tensor: the latency of a read."""
    return read(bench, size)


@workload("read_into_{}_bytes", full=(_MANY,), small=(_MANY,))
def read_into(bench: Bench, size: int) -> Case:
    """Read into an array of the caller's."""
    x, px, values = _values(bench, size)
    gpu = x.device.gpu
    buffer = gpu.allocate(size)
    gpu.upload(values, buffer)
    out = np.empty_like(values)

    def into(torch: Any) -> Sequence[Any]:
        return [torch.from_numpy(out).copy_(px)]

    def copied() -> Sequence[Any]:
        np.copyto(out, values)
        return [out]

    return _case(
        size,
        lambda: gpu.read(buffer, out=out),
        bench.choose(into, copied),
    )


@workload("upload_{}_bytes", full=(_MANY,), small=(_MANY,))
def upload(bench: Bench, size: int) -> Case:
    """Write an array of the caller's to the device."""
    x, px, values = _values(bench, size)
    gpu = x.device.gpu
    buffer = gpu.allocate(size)

    def from_host(torch: Any) -> Sequence[Any]:
        return [px.copy_(torch.from_numpy(values))]

    return _case(
        size,
        lambda: gpu.upload(values, buffer),
        bench.choose(from_host, lambda: [values.copy()]),
    )


@workload("upload_few_{}_bytes", full=(_FEW,), small=(_FEW,))
def upload_few(bench: Bench, size: int) -> Case:
    """Write a small array: the latency of an upload."""
    return upload(bench, size)
