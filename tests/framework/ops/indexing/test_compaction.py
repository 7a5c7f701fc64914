"""Elements where a mask is true: counted once, and moved without places."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.agree import need
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.kernels import counting
from vkbackend.framework.ops.indexing import compaction

SHAPES = [(5, 7), (2, 1, 3, 2), (1,), (), (20_011,), (2,) * 9, (7, 800)]


@pytest.mark.parametrize("share", [0, 0.3, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_coordinates(shape: tuple[int, ...], share: float, place: Device) -> None:
    mask = np.random.default_rng(0).random(shape) < share
    x, y = fw.tensor(mask, device=place), torch.tensor(mask)
    found, wanted = ops.nonzero(x), y.nonzero()
    assert found.shape == wanted.shape
    assert np.array_equal(found.numpy(), wanted.numpy())
    columns = zip(ops.nonzero(x, as_tuple=True), y.nonzero(as_tuple=True), strict=True)
    assert all(np.array_equal(one.numpy(), other) for one, other in columns)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int64", "complex64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_elements_and_their_gradients(
    shape: tuple[int, ...], dtype: str, place: Device
) -> None:
    need(dtype, place)
    rng = np.random.default_rng(0)
    mask = rng.random(shape) < 0.4
    data = rng.integers(0, 9, shape).astype(dtype)
    few = rng.integers(0, 9, int(mask.sum()) + 3).astype(dtype)
    x, m, s = (fw.tensor(each, device=place) for each in (data, mask, few))
    y, n, t = (torch.tensor(each) for each in (data, mask, few))
    tracked = data.dtype.kind in "fc"
    for each in (x, s, y, t) if tracked else ():
        each.requires_grad_()
    pairs = [
        (ops.masked_select(x, m), torch.masked_select(y, n)),
        (x[m], y[n]),
        (ops.masked_scatter(x, m, s), y.masked_scatter(n, t)),
    ]
    for found, wanted in pairs:
        assert np.array_equal(found.detach().numpy(), wanted.detach().numpy())
        if tracked:
            seed = rng.integers(0, 5, wanted.shape).astype(dtype)
            found.backward(fw.tensor(seed, device=place))
            wanted.backward(torch.tensor(seed))
    for each, other in ((x, y), (s, t)) if tracked else ():
        assert each.grad is not None
        assert other.grad is not None
        assert np.array_equal(each.grad.numpy(), other.grad.numpy())


def test_masks_of_a_batch(place: Device) -> None:
    """Each element of a batch takes its source from the front."""
    rng = np.random.default_rng(0)
    data, mask = rng.standard_normal((6, 8)).astype("f4"), rng.random((6, 8)) < 0.5
    x, m, s = (fw.tensor(each, device=place) for each in (data, mask, data[0]))
    found = fw.func.vmap(lambda a, b: ops.masked_scatter(a, b, s))(x, m)
    for row, one, its in zip(found.numpy(), data, mask, strict=True):
        wanted = one.copy()
        wanted[its] = data[0][: its.sum()]
        assert np.array_equal(row, wanted)


def test_few_elements_are_there_with_their_number(device: vkbackend.Device) -> None:
    """Results have room for all, so that nothing is left to compute after the read."""
    x = fw.tensor(np.arange(-8.0, 8.0, dtype="f4"), device=fw.device(device.name))
    mask = x > 0
    fw.eval(x, mask)
    for call in (lambda: x[mask], lambda: ops.nonzero(mask), lambda: ops.unique(x)):
        reads = device.counters.host_reads
        found = call()
        assert device.counters.host_reads == reads + 1
        before = device.counters.snapshot()
        fw.eval(found)
        assert (device.counters.snapshot() - before).submits == 0
        assert found.is_contiguous()


@pytest.mark.parametrize(("numel", "launches"), [(16, 1), (20_011, 2)])
def test_launches(numel: int, launches: int, device: vkbackend.Device) -> None:
    """One that counts, unless there is but one tile; one with the result; a copy."""
    data = np.arange(numel, dtype="f4") - numel // 2
    x = fw.tensor(data, device=fw.device(device.name))
    mask = x > 0
    fw.eval(x, mask)
    chosen = data[data > 0]
    calls: dict[str, tuple[Callable[[], fw.Tensor], int, np.ndarray]] = {
        "nonzero": (lambda: ops.nonzero(mask), 0, np.flatnonzero(data > 0)),
        "masked_select": (lambda: ops.masked_select(x, mask), 0, chosen),
        "getitem": (lambda: x[mask], 0, chosen),
        "masked_scatter": (
            lambda: ops.masked_scatter(x, mask, x),
            1,
            np.concatenate([data[data <= 0], data[: len(chosen)]]),
        ),
    }
    for name, (call, copies, right) in calls.items():
        before = device.counters.snapshot()
        found = call()
        fw.eval(found)
        made = (device.counters.snapshot() - before).dispatches
        assert made == launches + copies, name
        assert found.reshape(-1).tolist() == right.tolist(), name


def test_many_elements_are_there_with_their_number(device: vkbackend.Device) -> None:
    """What fills little of its room is copied, so that the rest is free again."""
    data = np.random.default_rng(0).random(20_011).astype("f4")
    x = fw.tensor(data, device=fw.device(device.name))
    for share, copies in ((0.5, 0), (0.01, 1)):
        mask = x < share
        fw.eval(x, mask)
        for call in (ops.masked_select, lambda _, mask: ops.nonzero(mask)):
            reads = device.counters.host_reads
            found = call(x, mask)
            assert device.counters.host_reads == reads + 1
            before = device.counters.snapshot()
            fw.eval(found)
            assert (device.counters.snapshot() - before).submits == copies
            assert found.array.value.numel <= 4 * found.numel()
        assert np.array_equal(x[mask].numpy(), data[data < share])
    # Its gradient would be as large as the room.
    x.requires_grad_()
    found = x[mask]
    assert found.array.value.numel == found.numel()


def test_room_is_bounded(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "ROOM_SHARE", 1 << 40)
    data = np.random.default_rng(0).random(20_011).astype("f4")
    x = fw.tensor(data, device=fw.device(device.name))
    found, wanted = ops.masked_select(x, x < 0.5), data[data < 0.5]
    assert found.array.value.numel == found.numel()
    assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("most", [0, 1 << 20])
def test_tiles_are_added_up_apart_or_by_each(
    most: int, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ADDED_TILES", "SOFTWARE_ADDED_TILES"):
        monkeypatch.setattr(counting, name, most)
    data = np.random.default_rng(0).random((3, 100_003)).astype("f4")
    with gpu.fresh_plan_cache():
        x = fw.tensor(data, device=gpu)
        for share in (0.0, 0.3, 2.0):
            mask, wanted = x < share, data < share
            assert np.array_equal(ops.masked_select(x, mask).numpy(), data[wanted])
            places = np.argwhere(wanted)
            assert np.array_equal(ops.nonzero(mask).numpy(), places)
            moved = data.copy()
            moved[wanted] = data.ravel()[: len(places)]
            assert np.array_equal(ops.masked_scatter(x, mask, x).numpy(), moved)
