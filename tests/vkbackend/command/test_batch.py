"""Batches: order, barriers, argument checks, copies and fills."""

from typing import Any

import numpy as np
import pytest

from tests.vkbackend.kernels import INDIRECT, ROWS, add_affine, affine, filled, words
from vkbackend import ArgumentError, Device


@pytest.mark.core
def test_dependent_dispatches(device: Device) -> None:
    pipeline = affine(device)
    x = filled(device, np.ones(1000, np.uint32))
    y, z = device.allocate(x.size), device.allocate(x.size)
    before = device.counters.snapshot()
    batch = device.batch()
    for _ in range(10):
        add_affine(batch, pipeline, x, y, 2, 1)
        add_affine(batch, pipeline, y, z, 1, 5)
        add_affine(batch, pipeline, z, x, 1, 0)
    assert len(batch) == 30
    batch.submit()
    assert len(batch) == 0
    expected = 1
    for _ in range(10):
        expected = (expected * 2 + 6) % 2**32
    assert (words(device, x) == expected).all()
    assert (device.counters - before).barriers == 29
    assert (device.counters - before).submits <= 2


@pytest.mark.core
def test_independent_dispatches_share_a_wave(device: Device) -> None:
    pipeline = affine(device)
    x = filled(device, np.arange(1000, dtype=np.uint32))
    outs = [device.allocate(x.size) for _ in range(20)]
    before = device.counters.snapshot()
    batch = device.batch()
    for index, out in enumerate(outs):
        add_affine(batch, pipeline, x, out, index)
    batch.submit()
    assert (device.counters - before).barriers == 0
    for index, out in enumerate(outs):
        assert (words(device, out) == np.arange(1000) * index).all()


@pytest.mark.device
def test_parts_of_a_buffer_are_independent(device: Device) -> None:
    pipeline = affine(device)
    x = filled(device, np.arange(128, dtype=np.uint32))
    y = device.allocate(256)
    before = device.counters.snapshot()
    batch = device.batch()
    for half in (0, 128):
        arguments = {"x": x, "y": y.address + half, "count": 32, "a": 1, "b": half}
        batch.dispatch(pipeline, (1, 1, 1), arguments, [(x, 0, 128)], [(y, half, 128)])
    batch.submit()
    assert (device.counters - before).barriers == 0
    both = np.concatenate([np.arange(32), np.arange(32) + 128])
    assert (words(device, y) == both).all()


@pytest.mark.core
def test_later_batches_see_earlier_ones(device: Device) -> None:
    pipeline = affine(device)
    x = filled(device, np.ones(5000, np.uint32))
    y = device.allocate(x.size)
    for _ in range(20):
        batch = device.batch()
        add_affine(batch, pipeline, x, y, 3)
        batch.submit()
        add_affine(batch, pipeline, y, x, 1, 1)
        batch.submit()
    expected = 1
    for _ in range(20):
        expected = (expected * 3 + 1) % 2**32
    assert (words(device, x) == expected).all()


@pytest.mark.core
def test_indirect_arguments(device: Device) -> None:
    pipeline = device.pipeline("sum", source=INDIRECT, constants={"LOCAL_X": 64})
    assert pipeline.indirect
    outs = [device.allocate(400) for _ in range(50)]
    batch = device.batch()
    for index, out in enumerate(outs):
        terms = {f"terms[{t}]": t * index for t in range(30)}
        batch.dispatch(
            pipeline, (2, 1, 1), {"y": out, "count": 100, **terms}, [], [out]
        )
    batch.submit()
    for index, out in enumerate(outs):
        assert (words(device, out) == 435 * index).all()


@pytest.mark.core
def test_rows_of_arguments(device: Device) -> None:
    pipeline = device.pipeline("rows", source=ROWS, constants={"LOCAL_X": 64})
    outs = [device.allocate(4 * 60) for _ in range(70)]
    rows = [(out, 100 * k, k) for k, out in enumerate(outs)]
    table = pipeline.table_packer(len(outs))(
        60, *(each for row in rows for each in row)
    )
    batch = device.batch()
    batch.dispatch(pipeline, (len(outs), 1, 1), table, [], outs)
    with pytest.raises(ArgumentError, match="wrong size"):
        batch.dispatch(pipeline, (1, 1, 1), table[:-4], [], outs)
    batch.submit()
    for k, out in enumerate(outs):
        assert (words(device, out) == 101 * k).all()


@pytest.mark.core
def test_barriers_placed_by_the_caller(device: Device) -> None:
    pipeline = affine(device)
    x = filled(device, np.full(100, 3, np.uint32))
    y, z = device.allocate(x.size), device.allocate(x.size)
    pack = pipeline.packer(("x", "y", "count", "a", "b"))
    before = device.counters.snapshot()
    batch = device.batch()
    add_affine(batch, pipeline, x, y, 2)
    batch.extend(
        [
            (pipeline, pack(y, z, 100, 1, 1), 2, 1, 1),
            None,
            (pipeline, pack(z, x, 100, 1, 1), 2, 1, 1),
        ],
        [y, z],
        [z, x],
    )
    add_affine(batch, pipeline, x, y, 1, 1)
    assert len(batch) == 4
    batch.submit()
    assert (words(device, y) == 9).all()
    counted = device.counters - before
    assert (counted.dispatches, counted.barriers) == (4, 3)
    assert all(each.last_write is not None for each in (x, y, z))


@pytest.mark.device
def test_many_indirect_arguments(device: Device) -> None:
    """More argument blocks than one chunk holds, over several submissions."""
    pipeline = device.pipeline("sum", source=INDIRECT, constants={"LOCAL_X": 64})
    pack = pipeline.packer(("y", "count", *(f"terms[{t}]" for t in range(30))))
    out = device.allocate(256)
    for round_number in range(3):
        batch = device.batch()
        for index in range(4000):
            values = [index + round_number] + [0] * 29
            batch.dispatch(pipeline, (1, 1, 1), pack(out, 64, *values), [], [out])
        batch.submit()
    assert (words(device, out) == 4001).all()


@pytest.mark.core
def test_copy_and_fill(device: Device) -> None:
    x = filled(device, np.arange(100, dtype=np.uint32))
    y = device.allocate(400)
    batch = device.batch()
    batch.fill(y, 0xDEADBEEF)
    batch.copy(x, y, 40, 80, 120)
    batch.submit()
    expected = np.full(100, 0xDEADBEEF, np.uint32)
    expected[20:50] = np.arange(10, 40)
    assert (words(device, y) == expected).all()
    batch.copy(y, x)
    batch.copy(x, y, 0, 200, 200)
    batch.submit()
    assert (words(device, x) == expected).all()
    assert (words(device, y)[50:] == expected[:50]).all()


@pytest.mark.device
@pytest.mark.parametrize("size", [0, 1, 6, 257])
def test_awkward_sizes(device: Device, size: int) -> None:
    source = device.allocate(size)
    target = device.allocate(size)
    neighbour = filled(device, np.arange(64, dtype=np.uint32))
    batch = device.batch()
    batch.fill(source, 0x01010101)
    batch.copy(source, target)
    batch.submit()
    assert bytes(device.read(target)) == b"\x01" * size
    assert (words(device, neighbour) == np.arange(64)).all()


@pytest.mark.device
def test_empty_batch(device: Device) -> None:
    before = device.counters.snapshot()
    point = device.batch().submit()
    assert point.wait()
    assert (device.counters - before).submits == 0


@pytest.mark.device
def test_zero_groups_run_nothing(device: Device) -> None:
    x = filled(device, np.ones(64, np.uint32))
    batch = device.batch()
    batch.dispatch(
        affine(device),
        (0, 1, 1),
        {"x": x, "y": x, "count": 64, "a": 9, "b": 9},
        [x],
        [x],
    )
    assert len(batch) == 0
    batch.submit()
    assert (words(device, x) == 1).all()


@pytest.mark.device
def test_bad_arguments_never_reach_the_device(device: Device) -> None:
    pipeline = affine(device)
    x = device.allocate(64)
    good = {"x": x, "y": x, "count": 16, "a": 1, "b": 0}
    most = device.info.max_workgroup_count
    batch = device.batch()
    rows: tuple[tuple[tuple[Any, ...], str], ...] = (
        (((most[0] + 1, 1, 1), good), "the grid does not fit"),
        (((1, -1, 1), good), "the grid does not fit"),
        (((1.5, 1, 1), good), "is no grid"),
        (((1, 1), good), "is no grid"),
        ((1, good), "is no grid"),
        (((1, 1, 1), None), "bytes or a mapping of names to values, not NoneType"),
        (((1, 1, 1), {**good, 1: 2}), "unknown 1; the kernel takes"),
        (
            ((1, 1, 1), {**good, "d": 1}),
            "unknown d; the kernel takes x, y, count, a, b",
        ),
        (((1, 1, 1), {"x": x}), "missing y, count, a, b"),
        (((1, 1, 1), {**good, "a": 2**32}), "cannot be packed"),
        (((1, 1, 1), {**good, "a": 1.5}), "cannot be packed"),
        (((1, 1, 1), {**good, "x": "x"}), "cannot be packed"),
        (((1, 1, 1), b"abcd"), "wrong size: 4; the kernel takes 28"),
        (((1, 1, 1), good, [(x, 60, 8)]), "leaves the buffer: offset 60, size 8"),
        (((1, 1, 1), good, [], [(x, -4, 8)]), "leaves the buffer: offset -4"),
    )
    for arguments, message in rows:
        with pytest.raises(ArgumentError, match=message):
            batch.dispatch(pipeline, *arguments)
    with pytest.raises(ArgumentError, match="source and destination overlap"):
        batch.copy(x, x, 0, 16, 32)
    with pytest.raises(ArgumentError, match="leaves the buffer"):
        batch.copy(x, device.allocate(32))
    with pytest.raises(ArgumentError, match="must be in"):
        batch.fill(x, -1)
    assert len(batch) == 0


@pytest.mark.device
def test_three_dimensions(device: Device) -> None:
    source = """#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(buffer_reference, std430) buffer Words { uint at[]; };
layout(push_constant) uniform Push { Words y; };
void main() {
    uvec3 size = gl_NumWorkGroups * gl_WorkGroupSize;
    uvec3 id = gl_GlobalInvocationID;
    y.at[(id.z * size.y + id.y) * size.x + id.x] = id.x + 100 * id.y + 10000 * id.z;
}
"""
    constants = {"LOCAL_X": 4, "LOCAL_Y": 2, "LOCAL_Z": 3}
    pipeline = device.pipeline("three", source=source, constants=constants)
    assert pipeline.workgroup_size == (4, 2, 3)
    y = device.allocate(12 * 14 * 6 * 4)
    batch = device.batch()
    batch.dispatch(pipeline, (3, 7, 2), {"y": y}, [], [y])
    batch.submit()
    z, row, x = np.meshgrid(np.arange(6), np.arange(14), np.arange(12), indexing="ij")
    assert (words(device, y).reshape(6, 14, 12) == x + 100 * row + 10000 * z).all()


@pytest.mark.device
def test_a_failed_recording_leaves_the_device_usable(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = filled(device, np.ones(64, np.uint32))
    y = device.allocate(256)
    batch = device.batch()
    add_affine(batch, affine(device), x, y, 3)
    with monkeypatch.context() as patch:
        patch.setattr(batch, "encode", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            batch.submit()
    assert y.last_write is None
    batch.submit()
    assert (words(device, y) == 3).all()
