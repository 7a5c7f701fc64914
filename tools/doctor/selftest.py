"""Self-tests of a device with known results: each passes, fails or is skipped.

Every test takes the device's index, returns a remark for the table, and raises
`CaseSkipped` where the device lacks what it needs. They run in a child process; one
that has opened the device keeps it for the tests after.
"""

import functools
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import vkbackend
from vkbackend import Buffer, Device, open_device
from vkbackend.driver import instance

from . import dtype_cases, kernels

WORKGROUP = 64
CORE = ("open", "allocation", "copy", "arithmetic", "atomics", "timeline", "close")
"""Without these the library cannot work; the others are optional features."""

_MEBIBYTE = 1 << 20
_WAIT_SECONDS = 20.0


class CaseSkipped(Exception):
    """The device lacks what the test needs; the message says what."""


class WrongResult(Exception):
    """The device computed something else; the message says what."""


def require(device: Device, *flags: str) -> None:
    """Raise `CaseSkipped` unless the device has all features."""
    info = device.info
    lacking = [
        flag
        for flag in flags
        if flag not in info.supported and not getattr(info, flag, False)
    ]
    if lacking:
        raise CaseSkipped(f"the device lacks {', '.join(lacking)}")


def check(what: str, found: NDArray[Any], expected: NDArray[Any]) -> None:
    """Raise `WrongResult` at the first difference; NaN equals NaN."""
    same = np.isclose(found, expected, rtol=_tolerance(expected.dtype), equal_nan=True)
    if not same.all():
        at = int(np.argmin(same))
        raise WrongResult(
            f"{what}: {np.count_nonzero(~same)} of {same.size} values differ: element"
            f" {at} is {found.flat[at]}; {expected.flat[at]} is right"
        )


def _tolerance(dtype: np.dtype[Any]) -> float:
    """Return the relative error that Vulkan allows a few operations to add up to."""
    return 32 * float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0


def filled(device: Device, values: NDArray[Any]) -> Buffer:
    """Return a new buffer that holds the values."""
    buffer = device.allocate(values.nbytes, name="doctor")
    device.upload(values, buffer)
    return buffer


def content(device: Device, buffer: Buffer, dtype: Any) -> NDArray[Any]:
    """Return what a buffer holds."""
    return np.frombuffer(device.read(buffer), dtype)


def run(
    device: Device,
    name: str,
    source: str,
    groups: int,
    arguments: dict[str, Any],
    **variant: Any,
) -> vkbackend.TimelinePoint:
    """Submit one kernel that may read and write all of its buffers."""
    pipeline = device.pipeline(f"doctor/{name}", source=source, **variant)
    touched = [value for value in arguments.values() if isinstance(value, Buffer)]
    batch = device.batch()
    batch.dispatch(pipeline, (groups, 1, 1), arguments, touched, touched)
    return batch.submit()


def opening(device: int) -> str:
    """Open the device, which makes queues, pools and the pipeline cache."""
    opened = open_device(device)
    queues = opened.queues.all
    left = opened.memory.available(0) / (1 << 30)
    return f"{len(queues)} queue(s); {left:.1f} GiB left in heap 0"


def allocation(device: int) -> str:
    """Allocate sizes around the pool's bounds: distinct, aligned, and given back."""
    opened = open_device(device)
    before = opened.memory_stats()["allocations"]
    sizes = (1, 255, 256, 257, 4096, 65537, _MEBIBYTE, 16 * _MEBIBYTE, 0, 3)
    buffers = [opened.allocate(size) for size in sizes]
    spans = sorted((row.address, row.address + row.size) for row in buffers if row.size)
    for (_, end), (start, _) in itertools.pairwise(spans):
        if start < end:
            raise WrongResult(
                f"two buffers overlap: one ends at {end:#x} after {start:#x}"
            )
    del buffers
    rounds = 200
    start_time = time.perf_counter()
    for _ in range(rounds):
        opened.allocate(_MEBIBYTE)
    microseconds = (time.perf_counter() - start_time) / rounds * 1e6
    after = opened.memory_stats()["allocations"]
    if after != before:
        raise WrongResult(f"{after - before} allocations were not given back")
    return f"{len(sizes)} sizes; 1 MiB in {microseconds:.0f} us when warm"


def copy(device: int) -> str:
    """Upload, copy on the device and read back; every byte must come through."""
    opened = open_device(device)
    data = np.random.default_rng(0).integers(0, 1 << 32, 4 * _MEBIBYTE, np.uint32)
    source, target = opened.allocate(data.nbytes), opened.allocate(data.nbytes)
    opened.upload(data, source)
    upload = _rate(data.nbytes, lambda: opened.upload(data, source))
    device_copy = _rate(data.nbytes, lambda: _copy(opened, source, target))
    check("copy", content(opened, target, np.uint32), data)
    read = _rate(data.nbytes, lambda: opened.read(target))
    return f"GB/s of 16 MiB: up {upload:.1f}, on it {device_copy:.1f}, down {read:.1f}"


def _copy(device: Device, source: Buffer, target: Buffer) -> None:
    batch = device.batch()
    batch.copy(source, target)
    _finish(batch.submit())


def _finish(point: vkbackend.TimelinePoint) -> None:
    if not point.wait(_WAIT_SECONDS):
        raise WrongResult(f"the device did not finish in {_WAIT_SECONDS:g} s")


def _rate(size: int, job: Callable[[], object]) -> float:
    """Return the best of three in GB/s."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - start)
    return size / min(seconds) / 1e9


def arithmetic(device: int) -> str:
    """Compare float32 and 32-bit integers with NumPy, at an awkward size."""
    opened = open_device(device)
    count = 100_003
    x = np.random.default_rng(1).standard_normal(count).astype(np.float32) * 4
    y, z = opened.allocate(count * 4), opened.allocate(count * 4)
    arguments = {"x": filled(opened, x), "y": y, "z": z, "count": count}
    run(opened, "arithmetic", kernels.ARITHMETIC, _groups(count), arguments)
    # In float64, so that NumPy's own rounding is not tested.
    v = x.astype(np.float64)
    expected = np.sqrt(v * v + 1) / (2 + abs(v)) + np.exp(-abs(v)) * np.maximum(v, 0.5)
    check("float32", content(opened, y, np.float32), expected.astype(np.float32))
    i = np.arange(count, dtype=np.uint32)
    words = (i * np.uint32(2654435761)) ^ (i // 7) ^ (i << np.uint32(3))
    check("uint32", content(opened, z, np.uint32), words)
    return f"{count} values of float32 and uint32 agree with NumPy"


def _groups(count: int) -> int:
    return -(-count // WORKGROUP)


def atomics(device: int) -> str:
    """Count in memory with 65,536 invocations at once."""
    opened = open_device(device)
    i = np.arange(1 << 16, dtype=np.uint32)
    names = {"total": 1, "greatest": 1, "bins": 64}
    buffers = {k: filled(opened, np.zeros(n, np.uint32)) for k, n in names.items()}
    run(opened, "atomics", kernels.ATOMICS, len(i) // WORKGROUP, buffers)
    expected = {
        "total": np.array([(i & 15).sum()]),
        "greatest": np.array([(i ^ 21).max()]),
        "bins": np.bincount(i % 61, minlength=64),
    }
    for name, values in expected.items():
        check(name, content(opened, buffers[name], np.uint32), values.astype(np.uint32))
    return "sum, maximum and histogram of 65536 invocations"


def float_atomics(device: int) -> str:
    """Add float32 ones atomically; the sum is exact."""
    opened = open_device(device)
    require(opened, "float32_atomic_add")
    total = filled(opened, np.zeros(1, np.float32))
    run(opened, "float atomics", kernels.FLOAT_ATOMICS, 1000, {"total": total})
    expected = np.array([1000 * WORKGROUP], np.float32)
    check("sum", content(opened, total, np.float32), expected)
    return "64000 sums of float32"


def timeline(device: int) -> str:
    """Submit a chain; its points come in order and its work is done in order."""
    opened = open_device(device)
    count, rounds = 1000, 50
    x = filled(opened, np.zeros(count, np.uint32))
    arguments = {"x": x, "count": count}
    step = functools.partial(
        run, opened, "increment", kernels.INCREMENT, _groups(count), arguments
    )
    points = [step() for _ in range(rounds)]
    _finish(points[-1])
    if not all(point.done() for point in points):
        raise WrongResult("a point is not done, but one after it is")
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        _finish(step())
        seconds.append(time.perf_counter() - start)
    check("chain", content(opened, x, np.uint32), np.full(count, 2 * rounds, np.uint32))
    wait = sorted(seconds)[rounds // 2] * 1e6
    return f"{2 * rounds} submissions in order; submit and wait {wait:.0f} us"


def subgroup_arithmetic(device: int) -> str:
    """Sum over each subgroup."""
    opened = open_device(device)
    require(opened, "subgroup_arithmetic")
    group, _, y = _subgroup(opened, "subgroupAdd(value)")
    value = np.arange(len(y), dtype=np.uint32) * 3 + 1
    sums = np.bincount(group, weights=value).astype(np.uint32)
    check("subgroupAdd", y, sums[group])
    return f"sums within subgroups of {_sizes(group)}"


def subgroup_shuffle(device: int) -> str:
    """Exchange values with the neighbour."""
    opened = open_device(device)
    require(opened, "subgroup_shuffle")
    group, lane, y = _subgroup(opened, "subgroupShuffleXor(value, 1)")
    at = {key: i for i, key in enumerate(zip(group, lane, strict=True))}
    pairs = [(i, at.get((g, one ^ 1))) for (g, one), i in at.items()]
    # A subgroup of one has no neighbour.
    whole = [(i, j) for i, j in pairs if j is not None]
    rows = np.array(whole, np.uint32).reshape(-1, 2)
    check("subgroupShuffleXor", y[rows[:, 0]], rows[:, 1] * np.uint32(3) + np.uint32(1))
    return f"exchange within subgroups of {_sizes(group)}"


def _subgroup(device: Device, operation: str) -> tuple[NDArray[np.uint32], ...]:
    """Return the subgroup, the lane and the result of each invocation."""
    count = 32 * WORKGROUP
    names = ("group", "lane", "y")
    buffers = {name: device.allocate(count * 4) for name in names}
    defines = {"OPERATION": operation}
    run(device, "subgroup", kernels.SUBGROUP, 32, buffers, defines=defines)
    found = [content(device, buffers[name], np.uint32) for name in names]
    if found[0].max() >= count:
        raise WrongResult(f"gl_SubgroupID: a subgroup has the number {found[0].max()}")
    return tuple(found)


def _sizes(group: NDArray[np.uint32]) -> str:
    sizes = np.unique(np.bincount(group))
    return " and ".join(str(size) for size in sizes if size)


def width(device: int, name: str) -> str:
    """Read, compute and write one type."""
    opened = open_device(device)
    row = dtype_cases.STORAGE_CASES[name]
    require(opened, *row.needs)
    count = 1009
    x, expected = row.values(count)
    y = opened.allocate(x.nbytes)
    arguments = {"x": filled(opened, x), "y": y, "count": count}
    defines = {"T": row.stored, "C": row.computed}
    run(opened, name, kernels.WIDTH, _groups(count), arguments, defines=defines)
    check(row.stored, content(opened, y, x.dtype), expected.reshape(-1))
    return f"{count} values of {row.stored}, computed in {row.computed}"


def matrix(device: int, shape: dict[str, Any]) -> str:
    """Multiply two cooperative matrices by one subgroup."""
    opened = open_device(device)
    unknown = dtype_cases.unknown_matrix(shape)
    if unknown:
        raise CaseSkipped(unknown)
    a, b, c, expected = dtype_cases.matrix_values(shape)
    y = opened.allocate(c.nbytes)
    arguments = {"a": filled(opened, a), "b": filled(opened, b)}
    arguments |= {"c": filled(opened, c), "y": y}
    variant = {
        "defines": dtype_cases.matrix_defines(shape),
        "constants": {"LOCAL_X": opened.info.subgroup_size},
    }
    run(opened, "matrix", kernels.MATRIX, 1, arguments, **variant)
    check("product", content(opened, y, c.dtype), expected.reshape(-1))
    return "agrees with NumPy"


def no_matrix(device: int) -> str:
    """Say why there is no matrix to be tried."""
    require(open_device(device), "cooperative_matrices")
    raise CaseSkipped("the device has cooperative matrices but names no shape")


def closing(device: int) -> str:
    """Close the device; nothing may be left, and nothing was said against us."""
    opened = open_device(device)
    opened.synchronize()
    opened.close()
    left = opened.live_objects()
    if left:
        raise WrongResult(f"Vulkan objects are left: {left}")
    said = instance.messages()
    if said:
        raise WrongResult(f"the validation layer had {len(said)} messages: {said[0]}")
    return "nothing is left"


PLAIN: dict[str, Callable[..., str]] = {
    "open": opening,
    "allocation": allocation,
    "copy": copy,
    "arithmetic": arithmetic,
    "atomics": atomics,
    "float atomics": float_atomics,
    "timeline": timeline,
    "subgroup arithmetic": subgroup_arithmetic,
    "subgroup shuffle": subgroup_shuffle,
}
"""Tests that take the device alone."""

TESTS: dict[str, Callable[..., str]] = {
    **PLAIN,
    "width": width,
    "matrix": matrix,
    "no matrix": no_matrix,
    "close": closing,
}
