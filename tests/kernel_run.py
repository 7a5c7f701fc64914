"""Kernel runs for tests: arrays in, arrays out, no framework."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from vkbackend import Device

Array: TypeAlias = np.ndarray[Any, Any]
Pair: TypeAlias = tuple[int, int]
Outputs: TypeAlias = Mapping[str, tuple[tuple[int, ...], DTypeLike]]

MOST_GROUPS = 65535


def random(*shape: int, seed: int = 0) -> Array:
    values = np.random.default_rng(seed + sum(shape)).standard_normal(shape)
    return values.astype(np.float32)


def linear(groups: int, z: int = 1) -> tuple[int, int, int]:
    """Return a grid that counts along x, then y."""
    x = min(groups, MOST_GROUPS)
    return x, -(-groups // x), z


def division(name: str, divisor: int) -> dict[str, int]:
    """Return the arguments by which a kernel divides by `divisor`."""
    shift = (divisor - 1).bit_length()
    magic = ((1 << 32) * ((1 << shift) - divisor)) // divisor + 1
    return {f"{name}_magic": magic, f"{name}_shift": shift}


def run(
    device: Device,
    kernel: str,
    grid: tuple[int, int, int],
    outputs: Outputs,
    constants: Mapping[str, int],
    arguments: Mapping[str, Any],
    **options: Any,
) -> list[Array]:
    """Run a kernel once; arrays among the arguments become buffers."""
    pipeline = device.pipeline(kernel, constants=constants, **options)
    values = dict(arguments)
    reads = []
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            values[name] = device.allocate(value.nbytes)
            device.upload(np.ascontiguousarray(value), values[name])
            reads.append(values[name])
    results = {}
    batch = device.batch()
    for name, (shape, dtype) in outputs.items():
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        values[name] = results[name] = device.allocate(size)
        batch.fill(results[name], 0x7FC0_0000)
    batch.dispatch(pipeline, grid, values, reads, list(results.values()))
    batch.submit()
    return [
        np.frombuffer(device.read(results[name]), dtype).reshape(shape)
        for name, (shape, dtype) in outputs.items()
    ]


def close(actual: Array, expected: Array, terms: int = 1) -> None:
    """Compare float32 sums of that many products of numbers near 1."""
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-6 * terms**0.5)


def windows(
    x: Array, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Array:
    """Return (batch, channels, *kernel, out height, out width): each window of x."""
    around = [(0, 0), (0, 0), *((p, p) for p in padding)]
    padded = np.pad(x, around)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    views = views[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    return views.transpose(0, 1, 4, 5, 2, 3)


def geometry(
    kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> dict[str, int]:
    pairs = {
        "KERNEL": kernel,
        "STRIDE": stride,
        "PADDING": padding,
        "DILATION": dilation,
    }
    return {
        f"{name}_{side}": value
        for name, pair in pairs.items()
        for side, value in zip("HW", pair, strict=True)
    }
