"""Kernels that pool and reduce, and shader libraries, against NumPy."""

from typing import Any

import numpy as np
import pytest

from tests.kernel_run import (
    Array,
    close,
    division,
    geometry,
    linear,
    random,
    run,
    windows,
)
from vkbackend import Device

pytestmark = pytest.mark.core

NAN = np.float32(np.nan)
INF = np.float32(np.inf)

# planes, (height, width), kernel, stride, padding, dilation
POOLS = [
    (3, (8, 8), (2, 2), (2, 2), (0, 0), (1, 1)),
    (2, (11, 7), (3, 2), (1, 1), (1, 1), (1, 1)),
    (5, (13, 17), (3, 3), (2, 1), (1, 1), (2, 3)),
    (1, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
]


def pooled(x: Array, case: Any) -> tuple[Array, Array]:
    """Return the greatest of each window, and where it is in its plane."""
    _, size, kernel, stride, padding, dilation = case
    where = np.arange(1, np.prod(size) + 1).reshape(1, 1, *size)
    where = windows(where, kernel, stride, padding, dilation)[0, 0] - 1
    values = np.where(where < 0, -INF, x.reshape(len(x), -1)[:, where])
    taps = values.reshape(len(x), -1, *where.shape[2:])
    places = np.broadcast_to(where.reshape(-1, *where.shape[2:]), taps.shape)
    # Padding never wins, not even over -inf.
    order = np.where(places < 0, -1.0, np.where(np.isnan(taps), 2.0, 0.0))
    best = np.lexsort((taps, order), axis=1)[:, -1:]
    greatest = np.take_along_axis(taps, best, 1)
    first = np.argmax((taps == greatest) & (places >= 0), axis=1)[:, None]
    first = np.where(np.isnan(greatest), best, first)
    return greatest[:, 0], np.take_along_axis(places, first, 1)[:, 0].astype(np.int32)


@pytest.mark.parametrize("case", POOLS)
@pytest.mark.parametrize("special", [False, True])
def test_max_pool2d(device: Device, case: Any, special: bool) -> None:
    planes, size, *shape = case
    x = np.round(random(planes, *size) * 2)
    if special:
        x[0, 0, 0] = NAN
        x[-1] = -INF
    expected, places = pooled(x, case)
    _, height, width = expected.shape
    names = ("planes", "in_height", "in_width", "out_height", "out_width")
    sizes = dict(zip(names, (planes, *size, height, width), strict=True))
    constants = {**geometry(*shape), "LOCAL_X": 64}
    out, indices = run(
        device,
        "pool/max_pool2d",
        linear(-(-expected.size // 64)),
        {
            "out_": (expected.shape, np.float32),
            "indices": (expected.shape, np.int32),
        },
        constants,
        {"x": x, **sizes},
    )
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(indices, places)

    grad = random(*expected.shape)
    (grad_x,) = run(
        device,
        "pool/max_pool2d_vjp",
        linear(-(-x.size // 64)),
        {"out_": (x.shape, np.float32)},
        constants,
        {"grad": grad, "indices": indices, **sizes},
    )
    sums = np.zeros((planes, x[0].size))
    plane = np.arange(planes)[:, None, None]
    np.add.at(sums, (np.broadcast_to(plane, places.shape), places), grad)
    close(grad_x, sums.reshape(x.shape), 9)


OPERATIONS = ("sum", "prod", "max", "min", "argmax", "argmin")
DTYPES = {name: np.dtype(f"{name}32") for name in ("float", "int", "uint")}


def reduction(
    device: Device,
    operation: str,
    x: Array,
    dims: tuple[int, ...],
    *,
    group: int,
    outputs_fast: int = 0,
    chunks: int = 1,
    scale: float = 1,
    kind: str = "float",
) -> Array:
    """Reduce some dimensions of a view; chunks stay as the first dimension."""
    kept = [dim for dim in range(x.ndim) if dim not in dims]
    strides = [stride // x.itemsize for stride in x.strides]
    shape = tuple(x.shape[dim] for dim in kept)
    outputs = int(np.prod(shape))
    arguments: dict[str, Any] = {
        "outputs": outputs,
        "count": x.size // outputs,
    }
    for name, order in (("kept", kept), ("reduced", dims)):
        inner = [(x.shape[dim], strides[dim]) for dim in reversed(order)]
        for i, (size, stride) in enumerate([*inner, *[(1, 0)] * (4 - len(inner))]):
            arguments[f"{name}_stride[{i}]"] = stride
            if i < 3:
                arguments[f"{name}_size[{i}]"] = size
            if i < 3 and name == "reduced":
                for key, value in division("reduced", size).items():
                    arguments[f"{key}[{i}]"] = value
    base = x if x.base is None else x.base
    local = 64
    constants = {
        "LOCAL_X": local,
        "GROUP": group,
        "OUTPUTS_FAST": outputs_fast,
        "KEPT_DIMS": max(1, len(kept)),
        "REDUCED_DIMS": len(dims),
    }
    grid = linear(-(-outputs // (local // group)), chunks)
    inputs = {"x": base, **arguments}
    defines = {"DTYPE": f"DTYPE_{kind.upper()}32"}
    values = ((chunks, *shape), DTYPES[kind])
    if operation.startswith("arg"):
        constants["GREATEST"] = int(operation == "argmax")
        results = {"values": values, "indices": ((chunks, *shape), np.int32)}
        return run(
            device,
            "reduce/argminmax",
            grid,
            results,
            constants,
            inputs,
            defines=defines,
        )[1]
    constants["OPERATION"] = OPERATIONS.index(operation)
    inputs["scale"] = scale
    return run(
        device,
        "reduce/reduce",
        grid,
        {"out_": values},
        constants,
        inputs,
        defines=defines,
    )[0]


SHAPES = [
    ((1,), (0,)),
    ((113,), (0,)),
    ((7, 29), (1,)),
    ((29, 7), (0,)),
    ((3, 5, 7), (1,)),
    ((3, 5, 7, 2), (0, 2)),
    ((2, 3, 2, 5, 3), (0, 2, 4)),
    ((2, 3, 2, 3, 2, 3, 2, 3), (0, 2, 4, 6)),
]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("shape", "dims"), SHAPES)
@pytest.mark.parametrize(("group", "fast"), [(1, 0), (8, 0), (8, 1), (64, 0)])
def test_reduce(
    device: Device,
    operation: str,
    shape: tuple[int, ...],
    dims: tuple[int, ...],
    group: int,
    fast: int,
) -> None:
    x = np.round(random(*shape) * 4) / 4 + np.float32(0.125)
    (out,) = reduction(device, operation, x, dims, group=group, outputs_fast=fast)
    kept = [dim for dim in range(x.ndim) if dim not in dims]
    rows = x.transpose(*kept, *dims).reshape(*out.shape, -1)
    expected = getattr(np, operation)(rows, axis=-1)
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_reduce_of_a_view(device: Device) -> None:
    x = random(9, 10, 11).transpose(2, 0, 1)
    (out,) = reduction(device, "sum", x, (1,), group=1)
    close(out, x.sum(axis=1, dtype=np.float64), 9)


@pytest.mark.parametrize("operation", ["sum", "max"])
def test_reduce_in_chunks(device: Device, operation: str) -> None:
    x = random(100_003)
    parts = reduction(device, operation, x, (0,), group=64, chunks=13)
    (out,) = reduction(device, operation, parts, (0,), group=1, scale=0.5)
    expected = getattr(np, operation)(x.astype(np.float64)) * 0.5
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-3)


def test_reduce_sums_a_million_accurately(device: Device) -> None:
    x = np.full(1_000_003, 0.1, np.float32)
    parts = reduction(device, "sum", x, (0,), group=64, chunks=64)
    (out,) = reduction(device, "sum", parts, (0,), group=64)
    np.testing.assert_allclose(out, x.sum(dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize("operation", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("group", [1, 8])
def test_reduce_special_values(device: Device, operation: str, group: int) -> None:
    x = np.array(
        [
            [1, NAN, 3, NAN, 2, 2, 2],
            [INF, INF, -INF, -INF, 0, 0, 0],
            [-INF] * 7,
            [INF] * 7,
            [5, 5, 4, 4, 5, 4, 5],
            [-0.0, 0.0, 0, 0, 0, 0, 0],
        ],
        np.float32,
    )
    (out,) = reduction(device, operation, x, (1,), group=group)
    np.testing.assert_array_equal(out, getattr(np, operation)(x, axis=1))


@pytest.mark.parametrize("kind", ["int", "uint"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_reduce_integers(device: Device, kind: str, operation: str) -> None:
    info = np.iinfo(DTYPES[kind])
    x = np.array([[3, 1, 4], [info.max, 0, info.min], [7, 7, 7]], DTYPES[kind])
    (out,) = reduction(device, operation, x, (1,), group=1, kind=kind)
    options = {} if operation.startswith("arg") else {"dtype": x.dtype}
    if operation in ("max", "min"):
        options = {}
    np.testing.assert_array_equal(out, getattr(np, operation)(x, axis=1, **options))


def test_reduce_over_more_outputs_than_one_grid_row(device: Device) -> None:
    x = np.arange(64 * 70_000 * 2, dtype=np.float32).reshape(-1, 2) % 1000
    (out,) = reduction(device, "max", x, (1,), group=1)
    np.testing.assert_array_equal(out, x.max(axis=1))


HEAD = """#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/philox.glsl"
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words {
    uint at[];
};
"""


def test_philox_gives_the_known_answers(device: Device) -> None:
    source = (
        HEAD
        + """
layout(push_constant) uniform Push { Words cases; Words out_; uint count; } push;
void main() {
    uint i = linear_invocation();
    if (i >= push.count) return;
    Words c = push.cases;
    uvec4 counter = uvec4(c.at[6*i], c.at[6*i + 1], c.at[6*i + 2], c.at[6*i + 3]);
    uvec4 words = philox(counter, uvec2(c.at[6*i + 4], c.at[6*i + 5]));
    vec4 numbers = unit_interval(words);
    for (uint j = 0; j < 4; ++j) {
        push.out_.at[8*i + j] = words[j];
        push.out_.at[8*i + 4 + j] = floatBitsToUint(numbers[j]);
    }
}
"""
    )
    pi = "243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0"
    inputs = [[0] * 6, [0xFFFFFFFF] * 6, [int(word, 16) for word in pi.split()]]
    answers = """6627e8d5 e169c58d bc57ac4c 9b00dbd8
                 408f276d 41c83b0e a20bc7c6 6d5451fd
                 d16cfe09 94fdcceb 5001e420 24126ea1"""
    (out,) = run(
        device,
        "philox",
        (1, 1, 1),
        {"out_": ((3, 8), np.uint32)},
        {"LOCAL_X": 8},
        {"cases": np.array(inputs, np.uint32), "count": 3},
        source=source,
    )
    expected = np.array([int(word, 16) for word in answers.split()], np.uint32)
    np.testing.assert_array_equal(out[:, :4].ravel(), expected)
    numbers = (expected >> 8) / np.float32(1 << 24)
    np.testing.assert_array_equal(out[:, 4:].copy().view(np.float32).ravel(), numbers)


def test_division_is_exact(device: Device) -> None:
    source = (
        HEAD
        + """
layout(push_constant) uniform Push {
    Words n; Words out_; uint count; uint by_magic; uint by_shift;
} push;
void main() {
    uint i = linear_invocation();
    if (i < push.count)
        push.out_.at[i] = divide(push.n.at[i], push.by_magic, push.by_shift);
}
"""
    )
    top = (1 << 32) - 1
    for divisor in (1, 2, 3, 7, 10, 641, 65535, 65537, 1 << 31, (1 << 31) + 1, top):
        edges = {0, 1, divisor - 1, divisor, top // divisor * divisor - 1, top - 1, top}
        near = [top // divisor * divisor, top // 2, top // 2 + 1, 3 * divisor - 1]
        n = np.array(sorted(edges | {value for value in near if value <= top}))
        (out,) = run(
            device,
            "divide",
            (1, 1, 1),
            {"out_": (n.shape, np.uint32)},
            {"LOCAL_X": 32},
            {
                "n": n.astype(np.uint32),
                "count": n.size,
                **division("by", divisor),
            },
            source=source,
        )
        np.testing.assert_array_equal(out, n // divisor)
