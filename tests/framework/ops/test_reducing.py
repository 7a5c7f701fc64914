"""How reductions are cut into workgroups: nothing left out, nothing twice."""

import dataclasses
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.device import GpuDevice
from vkbackend.framework.dispatch import MAX_GROUPS, Placed
from vkbackend.framework.dtype import DTYPES, float32
from vkbackend.framework.errors import ShapeError
from vkbackend.framework.ops.reducing import (
    OPERATIONS,
    Reduction,
    need_countable,
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
    # One pipeline does for both, where they read and write the same.
    assert first.defines == second.defines


@pytest.mark.core
def test_states_are_passed_on(device: vkbackend.Device) -> None:
    found = stateful("reduce/extreme", float32, 2, {"values": "out"}, {})
    first, second = reduce_dispatches(device.info, found, placed((1 << 22,)), (0,))
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
