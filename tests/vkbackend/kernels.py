"""Small kernels that the tests of the device layer run."""

import numpy as np
from numpy.typing import NDArray

from vkbackend import Batch, Buffer, Device, Pipeline, TimelinePoint

HEAD = """#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x_id = 0) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words {
    uint at[];
};
"""

# y[i] = a * x[i] + b
AFFINE = (
    HEAD
    + """
layout(push_constant) uniform Push { Words x; Words y; uint count; uint a; uint b; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) y.at[i] = a * x.at[i] + b;
}
"""
)

# Works for a while, then writes `value` to every word of y.
SLOW = (
    HEAD
    + """
layout(push_constant) uniform Push { Words y; uint count; uint value; uint rounds; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    uint state = value + i | 1;
    for (uint round = 0; round < rounds; ++round) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
    }
    // A state is never zero, but the compiler cannot know.
    if (i < count) y.at[i] = state == 0 ? 0 : value;
}
"""
)

# y[i] = sum of 30 arguments, which are too many to push.
INDIRECT = (
    HEAD
    + """
layout(buffer_reference, std430) readonly buffer Arguments {
    Words y;
    uint count;
    uint terms[30];
};
layout(push_constant) uniform Push { Arguments args; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    uint total = 0;
    for (uint t = 0; t < 30; ++t) total += args.terms[t];
    if (i < args.count) args.y.at[i] = total;
}
"""
)

# y[i] = b + c for each row, with one workgroup for each.
ROWS = (
    HEAD
    + """
struct Row { Words y; uint b; uint c; };
layout(buffer_reference, std430) readonly buffer Arguments { uint count; Row rows[]; };
layout(push_constant) uniform Push { Arguments args; };
void main() {
    uint row = gl_WorkGroupID.x;
    uint i = gl_LocalInvocationID.x;
    if (i < args.count) args.rows[row].y.at[i] = args.rows[row].b + args.rows[row].c;
}
"""
)

SLOW_WORDS = 1 << 21
"""Words of a buffer that keep a device busy for some tens of milliseconds or more."""

# lavapipe ends a loop after 65,535 rounds; there, far fewer take long enough.
_ROUNDS = {"software": 60}
_ROUNDS_OF_DRIVERS = {"SwiftShader driver": 20}
_MOST_ROUNDS = 60_000


def affine(device: Device) -> Pipeline:
    """Return the pipeline of AFFINE with 64 invocations."""
    return device.pipeline("affine", source=AFFINE, constants={"LOCAL_X": 64})


def add_affine(
    batch: Batch, pipeline: Pipeline, x: Buffer, y: Buffer, a: int = 1, b: int = 0
) -> None:
    """Add y = a * x + b to a batch, over as many words as both buffers have."""
    count = min(x.size, y.size) // 4
    batch.dispatch(
        pipeline,
        (-(-count // 64), 1, 1),
        {"x": x, "y": y, "count": count, "a": a, "b": b},
        [x],
        [y],
    )


def add_indirect(device: Device, batch: Batch, y: Buffer, term: int = 0) -> int:
    """Add y = 30 terms to a batch; return the byte of the fifth among its arguments."""
    pipeline = device.pipeline("indirect", source=INDIRECT, constants={"LOCAL_X": 64})
    terms = {f"terms[{k}]": term for k in range(30)}
    arguments = {"y": y, "count": y.size // 4, **terms}
    batch.dispatch(pipeline, (-(-y.size // 256), 1, 1), arguments, [], [y])
    offsets = {field.name: field.offset for field in pipeline.arguments.fields}
    return offsets["terms[4]"]


def run_slow(device: Device, y: Buffer, value: int) -> TimelinePoint:
    """Submit work that takes a while and then fills a buffer with a value."""
    pipeline = device.pipeline("slow", source=SLOW, constants={"LOCAL_X": 256})
    count = y.size // 4
    rounds = _ROUNDS.get(device.info.kind, _MOST_ROUNDS)
    rounds = _ROUNDS_OF_DRIVERS.get(device.info.driver_name, rounds)
    batch = device.batch()
    arguments = {"y": y, "count": count, "value": value, "rounds": rounds}
    batch.dispatch(pipeline, (-(-count // 256), 1, 1), arguments, [], [y])
    return batch.submit()


def fill(device: Device, y: Buffer, value: int) -> TimelinePoint:
    """Submit a fill of a whole buffer with a value."""
    batch = device.batch()
    batch.fill(y, value)
    return batch.submit()


def words(device: Device, buffer: Buffer) -> NDArray[np.uint32]:
    """Return a buffer's content."""
    return np.frombuffer(device.read(buffer), np.uint32)


def filled(device: Device, values: NDArray[np.uint32]) -> Buffer:
    """Return a new buffer with the given content."""
    buffer = device.allocate(values.nbytes)
    device.upload(values, buffer)
    return buffer
