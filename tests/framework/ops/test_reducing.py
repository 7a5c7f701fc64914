"""How reductions are cut into workgroups: nothing left out, nothing twice."""

import dataclasses
import math
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.device import GpuDevice
from vkbackend.framework.dispatch import MAX_GROUPS, Dispatch, Placed
from vkbackend.framework.dtype import DTYPES, float32
from vkbackend.framework.errors import ShapeError
from vkbackend.framework.ops import element, reduce, reducing
from vkbackend.framework.ops.reducing import (
    MIN_CHUNK,
    OPERATIONS,
    WHOLE_WAYS,
    Reduction,
    group_tile,
    group_tiles,
    need_countable,
    reduce_candidates,
    reduce_dispatches,
    stateful,
    sum_like,
)
from vkbackend.framework.shape import Layout

SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)
KINDS = ["software", "discrete"]


def placed(shape: tuple[int, ...]) -> Placed:
    return Placed(shape, float32, Layout.contiguous(shape))


def sums() -> Reduction:
    return sum_like("SUM", float32, float32)


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
@given(SHAPES, st.data())
def test_every_output_has_its_invocations(
    device: vkbackend.Device, kind: str, shape: tuple[int, ...], data: st.DataObject
) -> None:
    info = dataclasses.replace(device.info, kind=kind)
    dims = tuple(k for k in range(len(shape)) if data.draw(st.booleans()))
    (only,) = reduce_dispatches(info, sums(), placed(shape), dims)
    outputs, count = only.push["outputs"], only.push["count"]
    assert isinstance(outputs, int)
    assert isinstance(count, int)
    assert outputs * count == placed(shape).numel
    per_workgroup = int(only.constants["LOCAL_X"]) // int(only.constants["GROUP"])
    assert only.grid[0] * only.grid[1] * per_workgroup >= outputs
    assert only.grid[2] == 1


@pytest.mark.core
def test_sums_of_few_columns_are_cut_too(device: vkbackend.Device) -> None:
    """A workgroup of them has the elements of many columns."""
    info = dataclasses.replace(device.info, kind="discrete")
    first, second = reduce_dispatches(info, sums(), placed((2048, 128)), (0,))
    assert (first.push["outputs"], second.push["outputs"]) == (128, 128)
    assert first.grid[2] == second.push["count"] == 2048 * 32 // MIN_CHUNK
    (only,) = reduce_dispatches(info, sums(), placed((128, 512)), (0,))
    assert only.grid[2] == 1


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
def test_long_reductions_are_cut_and_combined(
    device: vkbackend.Device, kind: str
) -> None:
    info = dataclasses.replace(device.info, kind=kind)
    first, second = reduce_dispatches(info, sums(), placed((1 << 22,)), (0,))
    chunks = first.grid[2]
    assert 1 < chunks <= MAX_GROUPS
    assert first.push["out_"] == second.push["x"]
    assert (second.push["count"], second.push["outputs"]) == (chunks, 1)
    # Hardware reads the tensor itself four elements at a time.
    shuffles = element.shuffle_defines(info, {}, 256)
    hardware = {"QUADS": "1"} | shuffles
    assert first.defines == ({} if kind == "software" else hardware)
    assert second.defines == shuffles


@pytest.fixture
def quads(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return the Vulkan device with kernels chosen as for hardware."""
    info = dataclasses.replace(gpu.gpu.info, kind="discrete")
    monkeypatch.setattr(gpu.gpu, "info", info)
    monkeypatch.setattr(gpu, "plans", OrderedDict())
    return gpu


@pytest.mark.parametrize("shape", [(7, 4), (3, 1000), (2, 40_004), (5, 30), (33, 256)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_four_elements_at_a_time(
    shape: tuple[int, int], dtype: str, quads: GpuDevice
) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(-40, 40, shape).astype(dtype)
    x = fw.tensor(data, device=quads)
    np.testing.assert_array_equal(x.argmax(1).numpy(), data.argmax(1))
    np.testing.assert_array_equal(x.amin(1).numpy(), data.min(1))
    np.testing.assert_array_equal(x.argmin().numpy(), data.argmin())
    np.testing.assert_array_equal(x.amax((0, 1)).numpy(), data.max())
    wide = data.astype(np.float64)
    for dims in (1, (0, 1)):
        total = x.sum(dims).numpy().astype(np.float64)
        np.testing.assert_allclose(total, wide.sum(dims), rtol=1e-3, atol=0.5)
    if dtype == "float32":
        found = ops.var(x, 1).numpy()
        np.testing.assert_allclose(found, wide.var(1, ddof=1), rtol=1e-5)


@pytest.mark.parametrize("way", range(len(WHOLE_WAYS)))
def test_ways_to_reduce_everything(
    way: int, quads: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = quads.gpu.info
    size, groups, at_once = WHOLE_WAYS[way]
    if size > info.max_workgroup_invocations:
        pytest.skip("the device has smaller workgroups")
    monkeypatch.setattr(reducing, "LEAST_WHOLE", 1 << 14)
    used = []

    def chosen(*args: Any) -> list[Dispatch]:
        name = f"{groups} workgroups of {size}, {at_once} quads at once"
        used.append(reduce_candidates(*args)[name]())
        return used[-1]

    monkeypatch.setattr(reduce, "reduce_dispatches", chosen)
    for count in (1 << 16, 70_004):
        data = np.random.default_rng(0).integers(-40, 40, count).astype(np.float32)
        x = fw.tensor(data, device=quads)
        assert x.sum().item() == data.sum()
        assert x[4:].sum().item() == data[4:].sum()
    first, second = used[0]
    assert (first.constants["LOCAL_X"], first.defines["IN_FLIGHT"]) == (
        size,
        str(at_once),
    )
    assert "IN_FLIGHT" not in second.defines


def test_what_is_small_or_has_many_results_has_fewer_ways(quads: GpuDevice) -> None:
    info = quads.gpu.info
    for shape in ((1 << 20,), (64, 1 << 20), ((1 << 23) + 1,)):
        ways = reduce_candidates(info, sums(), placed(shape), (len(shape) - 1,))
        assert not [name for name in ways if "quads" in name]
    whole = reduce_candidates(info, sums(), placed((8, 1 << 20)), (0, 1))
    assert [name for name in whole if "quads" in name]


def test_views_that_begin_within_four(quads: GpuDevice) -> None:
    data = np.arange(1, 8 * 16 + 1, dtype=np.float32).reshape(8, 16)
    x = fw.tensor(data, device=quads)
    for view in (np.s_[:, 1:13], np.s_[1:, 4:12], np.s_[::2, :], np.s_[:, 3:]):
        np.testing.assert_array_equal(x[view].sum(1).numpy(), data[view].sum(1))


@pytest.mark.core
def test_states_are_passed_on(device: vkbackend.Device) -> None:
    found = stateful("reduce/extreme", float32, 2, {"values": "out"}, {})
    info = dataclasses.replace(device.info, kind="software")
    first, second = reduce_dispatches(info, found, placed((1 << 22,)), (0,))
    assert first.push["states"] == second.push["x"]
    assert (first.defines, second.defines) == ({"PARTIAL": "1"}, {"MERGE": "1"})


def test_operations_have_a_number() -> None:
    assert len(set(OPERATIONS)) == len(OPERATIONS)


def test_what_32_bits_do_not_reach_is_refused() -> None:
    wide = Layout((2, 2), (1 << 32, 1))
    with pytest.raises(ShapeError) as raised:
        need_countable("sum", Placed((2, 2), float32, wide))
    assert str(raised.value) == (
        "sum: shape (2, 2) has 4 elements, which reach 4294967298 places far;"
        " devices take at most 4294967296 of each"
    )


@pytest.mark.parametrize("name", ["float16", "bfloat16", "int8", "uint16", "bool"])
def test_without_storage_of_small_elements(
    name: str, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "plans", OrderedDict())
    for feature in ("storage_8bit", "storage_16bit"):
        monkeypatch.setattr(type(gpu.gpu.info), feature, False)
    data = np.arange(12).reshape(3, 4) % 5
    x = fw.tensor(data, dtype=DTYPES[name], device=gpu)
    host = x.cpu()
    for call in (ops.sum, ops.amax, ops.any, ops.argmin, ops.cumsum, ops.sort):
        found, wanted = call(x, 1), call(host, 1)
        pairs = zip(found, wanted) if isinstance(found, tuple) else [(found, wanted)]
        for one, other in pairs:
            assert one.dtype is other.dtype
            assert_close(one, other.numpy())


def test_without_64_bit_integers(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "plans", OrderedDict())
    monkeypatch.setattr(type(gpu.gpu.info), "shader_int64", False)
    x = fw.tensor(np.arange(-5, 5, dtype=np.int8), device=gpu)
    counts = ops.bincount(x.int() * x.int())
    for found, wanted in (
        (x.sum(), -5),
        (ops.prod(x[:3]), -60),
        (ops.count_nonzero(x), 9),
        (ops.cumsum(x, 0)[-1], -5),
        (counts.sum(), 10),
    ):
        assert found.dtype is fw.int32
        assert found.item() == wanted


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
def test_chunks_to_choose_from(device: vkbackend.Device, kind: str) -> None:
    info = dataclasses.replace(device.info, kind=kind)
    x = placed((1 << 18 if kind == "software" else 1 << 24,))
    ways = reduce_candidates(info, sums(), x, (0,))
    parts = [math.prod(way()[0].grid) for name, way in ways.items() if "chunks" in name]
    usual = math.prod(reduce_dispatches(info, sums(), x, (0,))[0].grid)
    # Once, so that a verdict can name it.
    assert parts.count(usual) == 1
    assert min(parts) < usual < max(parts)
    # Long turns of one invocation are less exact; short ones save a dispatch.
    assert "chunks for 1 workgroups" not in ways
    few = reduce_candidates(info, sums(), placed((1000,)), (0,))
    assert len(few["chunks for 1 workgroups"]()) == 1


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [3, 1000])
@pytest.mark.parametrize("count", [20, 100, 4096])
def test_groups_to_choose_from(
    device: vkbackend.Device, kind: str, rows: int, count: int
) -> None:
    info = dataclasses.replace(device.info, kind=kind)
    found = group_tiles(info, rows, count)
    usual = group_tile(info, rows, count, False)
    assert usual in found.values()
    assert len(found) == len(set(found.values()))
    # Nobody sums much longer alone than is usual, which is less exact.
    assert min(group for group, _, _ in found.values()) >= min(usual[0], count / 32)
