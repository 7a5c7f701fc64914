"""Storage, transfers between host and device, and reading values."""

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DTYPES, STORED
from vkbackend.framework.base.errors import GradError, ShapeError
from vkbackend.framework.eager import base_tensor
from vkbackend.framework.ir.lazy_graph import Value

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("dtype", [each.name for each in STORED])
def test_elements_come_back(dtype: str, place: Device) -> None:
    # Storage needs no shader, so every device holds every other dtype.
    if dtype == "complex128" and place.is_gpu:
        pytest.skip("devices refuse it")
    data = np.arange(24).reshape(2, 3, 4).astype(DTYPES[dtype].numpy)
    tensor = fw.tensor(data, dtype, place)
    assert_close(tensor, data)
    assert tensor.dtype is DTYPES[dtype]
    assert (tensor.shape, tensor.ndim, tensor.numel()) == ((2, 3, 4), 3, 24)
    assert tensor.device is place
    assert tensor.is_gpu == place.is_gpu


@pytest.mark.parametrize("view", ["T", "stepped", "reversed"])
def test_any_array_is_taken(view: str, place: Device) -> None:
    data = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    array = {"T": data.T, "stepped": data[:, ::2], "reversed": data[::-1]}[view]
    assert_close(fw.tensor(array, device=place), array)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
def test_scalars_and_empty(shape: tuple[int, ...], place: Device) -> None:
    data = np.full(shape, 2.5, np.float32)
    assert_close(fw.tensor(data, device=place), data)
    assert fw.tensor(data, device=place).tolist() == data.tolist()


def test_byte_order_is_not_the_dtype(place: Device) -> None:
    data = np.array([1, 2, 3], ">i4")
    assert fw.tensor(data, device=place).tolist() == [1, 2, 3]
    assert fw.tensor(data, device=place).numpy().dtype == np.dtype("int32")


def test_memory_is_not_shared(place: Device) -> None:
    data = np.zeros(3, np.float32)
    tensor = fw.tensor(data, device=place)
    data[0] = 1
    tensor.numpy()[1] = 2
    assert tensor.tolist() == [0, 0, 0]


@pytest.mark.core
def test_views_read_only_their_range(gpu: GpuDevice) -> None:
    tensor = fw.tensor(np.arange(1000, dtype=np.int32), device=gpu)
    before = gpu.gpu.counters.snapshot()
    assert tensor[100:140:10].tolist() == [100, 110, 120, 130]
    read = gpu.gpu.counters - before
    assert (read.host_reads, read.host_read_bytes) == (1, 31 * 4)
    assert read.dispatches == 0


def test_item(make: Make) -> None:
    assert make([[2.5]]).item() == 2.5
    assert make(np.array([True])).item() is True
    assert type(make(np.int8(3)).item()) is int
    with pytest.raises(ShapeError) as raised:
        make([1.0, 2.0]).item()
    assert str(raised.value) == (
        "item: the tensor has shape (2,); it must have one element"
    )


def test_detached_shares_and_alias_does_not(make: Make) -> None:
    x = make([1.0, 2.0], grad=True)
    detached, alias = x.detach(), x.alias()
    assert (detached.requires_grad, alias.requires_grad) == (False, True)
    detached.mul_(3)
    assert x.tolist() == [3, 6]
    assert alias.tolist() == [1, 2]


@pytest.mark.parametrize(
    "way", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_are_apart(way: Callable[[fw.Tensor], fw.Tensor], make: Make) -> None:
    x = make(np.arange(6, dtype=np.float32).reshape(2, 3))
    twin = way(x.mT.requires_grad_())
    x.zero_()
    assert_close(twin, np.arange(6, dtype=np.float32).reshape(2, 3).T)
    assert twin.requires_grad
    assert twin.device is x.device
    assert twin.dtype is x.dtype
    (twin * 2).sum().backward()
    assert way(twin).requires_grad
    assert copy.deepcopy(twin).grad.tolist() == [[2, 2], [2, 2], [2, 2]]


def test_results_are_not_copied_with_their_gradient(make: Make) -> None:
    with pytest.raises(GradError) as raised:
        copy.deepcopy(make([1.0], grad=True).exp())
    assert str(raised.value) == (
        "deepcopy: the tensor is a result of exp; only leaves can be copied with their"
        " gradient, so detach it first"
    )


@pytest.mark.core
def test_eval_submits_and_waits_for_nothing(gpu: GpuDevice) -> None:
    x = fw.zeros(5, device=gpu)
    fw.eval()
    y, z = x + 1, x + 2
    before = gpu.gpu.counters.snapshot()
    fw.eval(y)
    done = gpu.gpu.counters - before
    assert (done.submits, done.host_reads) == (1, 0)
    assert gpu.pending == []
    assert (y.tolist(), z.tolist()) == ([1] * 5, [2] * 5)
    fw.eval(fw.ones(1))
    fw.eval()


@pytest.mark.core
def test_moving_between_devices(gpu: GpuDevice) -> None:
    x = fw.tensor([1.0, 2.0], requires_grad=True)
    moved = x.to_gpu(gpu.name)
    assert moved.device is gpu
    assert moved.to(gpu) is moved
    back = (moved * moved).cpu()
    assert not back.is_gpu
    back.sum().backward()
    assert x.grad.tolist() == [2, 4]
    assert not x.grad.is_gpu


def test_a_read_beside_a_change_in_place_of_another_thread(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which takes no lock to give the storage other content."""
    x = fw.zeros((5,), device=gpu)
    fw.eval()
    x.add_(1)
    compute = base_tensor.compute

    def changed(device: GpuDevice, value: Value) -> None:
        x.fill_(2.0)
        compute(device, value)

    with monkeypatch.context() as patched:
        patched.setattr(base_tensor, "compute", changed)
        assert x.tolist() == [1.0] * 5
    assert x.tolist() == [2.0] * 5
