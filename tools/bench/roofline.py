"""Roofline of the machine, measured: copy bandwidth and multiply-add rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import vkbackend

_HEADER = """#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 256) in;
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer
    QuadsIn { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly buffer
    Quads { vec4 at[]; };
"""
_COPY = (
    _HEADER
    + """
layout(push_constant, std430) uniform Push { QuadsIn x; Quads y; uint count; } args;
void main() {
    QuadsIn x = args.x;
    Quads y = args.y;
    uint i = gl_GlobalInvocationID.x;
    if (i < args.count) y.at[i] = x.at[i];
}
"""
)
_CHAINS = 8
# Enough chains to hide the latency of an addition, and a result that is needed.
_MULTIPLY_ADD = (
    _HEADER
    + f"""
layout(push_constant, std430) uniform Push {{ Quads y; uint rounds; float a; }} args;
void main() {{
    Quads y = args.y;
    uint rounds = args.rounds;
    vec4 a = vec4(args.a), sums[{_CHAINS}];
    for (uint k = 0; k < {_CHAINS}; ++k) sums[k] = vec4(k, gl_LocalInvocationID);
    for (uint i = 0; i < rounds; ++i)
        for (uint k = 0; k < {_CHAINS}; ++k) sums[k] = fma(sums[k], a, a);
    vec4 total = vec4(0);
    for (uint k = 0; k < {_CHAINS}; ++k) total += sums[k];
    y.at[gl_GlobalInvocationID.x] = total;
}}
"""
)
_WORKGROUP = 256
_QUAD = 16
_MEASURED = 5


class Ceiling(NamedTuple):
    """Peak bandwidth and arithmetic rate of the machine.

    Attributes
    ----------
    bytes_per_second : float
        Read and written, of a copy between buffers larger than the caches.
    operations_per_second : float
        Multiplications and additions of float32, two for each `fma`.
    """

    bytes_per_second: float
    operations_per_second: float

    def seconds(self, moved: int, operations: int) -> float:
        """Return the least time for so many bytes and operations."""
        return max(
            moved / self.bytes_per_second, operations / self.operations_per_second
        )


def measure(gpu: vkbackend.Device) -> Ceiling:
    """Measure both; takes some 0.2 s on a GPU, more on a software device."""
    software = gpu.info.kind == "software"
    size = (64 << 20) if software else (256 << 20)
    groups, rounds = (64, 1000) if software else (1 << 14, 4096)
    copied = 2 * size / _copy_seconds(gpu, size)
    operations = groups * _WORKGROUP * rounds * _CHAINS * 4 * 2
    return Ceiling(copied, operations / _multiply_seconds(gpu, groups, rounds))


def _copy_seconds(gpu: vkbackend.Device, size: int) -> float:
    source, target = gpu.allocate(size), gpu.allocate(size)
    if gpu.info.kind == "software":
        # Its shaders move words, the host's own copy is what the memory allows.
        return _best(gpu, lambda batch: batch.copy(source, target))
    pipeline = gpu.pipeline("ceiling/copy", source=_COPY)
    count = size // _QUAD
    # More workgroups than fit in x are never needed: 256 MiB are 65,536 of them.
    x = min(count // _WORKGROUP, 65535)
    values = {"x": source, "y": target, "count": x * _WORKGROUP}

    # What is copied does not matter; memory that was only filled may be compressed.
    def record(batch: vkbackend.Batch) -> None:
        batch.dispatch(pipeline, (x, 1, 1), values, [source], [target])

    return _best(gpu, record)


def _multiply_seconds(gpu: vkbackend.Device, groups: int, rounds: int) -> float:
    target = gpu.allocate(groups * _WORKGROUP * _QUAD)
    pipeline = gpu.pipeline("ceiling/multiply_add", source=_MULTIPLY_ADD)
    values = {"y": target, "rounds": rounds, "a": 0.5}

    def record(batch: vkbackend.Batch) -> None:
        batch.dispatch(pipeline, (groups, 1, 1), values, [], [target])

    return _best(gpu, record)


def _best(gpu: vkbackend.Device, record: Callable[[vkbackend.Batch], None]) -> float:
    """Return the shortest time of the batch that `record` fills."""
    repeat = 2 if gpu.info.kind == "software" else 100
    times = []
    # The first ones wake the device up: its clocks rise with work.
    for _ in range(_MEASURED):
        batch = gpu.batch()
        record(batch)
        with gpu.profile(repeat=repeat, each=False) as profile:
            batch.submit()
        times.append(profile.spans[0].seconds / repeat)
    return min(times)
