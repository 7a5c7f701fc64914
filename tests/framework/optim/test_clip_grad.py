"""Clipping gradients."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import optim
from vkbackend.framework.base.device import Device, GpuDevice

SHAPES = ((3, 7), (11,), ())


@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_it_scales_as_pytorch_does(
    max_norm: float, place: Device, rng: np.random.Generator
) -> None:
    mine, other = [], []
    for shape in SHAPES:
        grad = np.asarray(rng.normal(size=shape), np.float32)
        mine.append(fw.zeros(shape, device=place, requires_grad=True))
        mine[-1].grad = fw.tensor(grad, device=place)
        other.append(torch.zeros(shape, requires_grad=True))
        other[-1].grad = torch.tensor(grad)
    mine.append(fw.zeros(2, device=place, requires_grad=True))
    found = optim.clip_grad_norm_(mine, max_norm)
    expected = torch.nn.utils.clip_grad_norm_(other, max_norm)
    assert_close(found, expected.numpy())
    for x, y in zip(mine, other):
        assert y.grad is not None
        assert_close(x.grad, y.grad.numpy())
    assert mine[-1].grad is None


def test_one_tensor_and_none() -> None:
    x = fw.zeros(1, requires_grad=True)
    assert optim.clip_grad_norm_([x], 1.0).item() == 0.0
    x.grad = fw.full(1, 4.0)
    assert optim.clip_grad_norm_(x, 1.0).item() == 4.0
    assert x.grad.item() == pytest.approx(1.0)


@pytest.mark.core
def test_nothing_is_read_back(gpu: GpuDevice) -> None:
    x = fw.zeros(5, device=gpu, requires_grad=True)
    x.grad = fw.ones(5, device=gpu)
    before = gpu.gpu.counters.snapshot()
    optim.clip_grad_norm_([x], 1.0)
    fw.eval()
    assert (gpu.gpu.counters.snapshot() - before).host_reads == 0


@pytest.mark.usefixtures("long_graphs")
@pytest.mark.parametrize("count", [100, 150])
def test_many_gradients_are_few_dispatches(
    count: int, gpu: GpuDevice, rng: np.random.Generator
) -> None:
    """More than the shader takes at once are measured in two dispatches and joined."""
    mine, other = [], []
    for k in range(count):
        grad = rng.normal(size=(1 + k % 5, 1 + 7 * k)).astype(np.float32)
        mine.append(fw.zeros(grad.shape, device=gpu, requires_grad=True))
        turned = fw.tensor(np.ascontiguousarray(grad.T), device=gpu).mT
        # Products leave the gradients of weights transposed.
        mine[-1].grad = turned if k % 2 else fw.tensor(grad, device=gpu)
        other.append(torch.zeros(grad.shape, requires_grad=True))
        other[-1].grad = torch.tensor(grad)
    for max_norm in (9.0, 3.0, 1.0):
        fw.eval()
        before = gpu.gpu.counters.snapshot()
        found = optim.clip_grad_norm_(mine, max_norm)
        fw.eval()
        change = gpu.gpu.counters.snapshot() - before
        assert change.dispatches <= (3 if count <= 128 else 5)
        expected = torch.nn.utils.clip_grad_norm_(other, max_norm)
        assert_close(found, expected.numpy())
    for x, y in zip(mine, other):
        assert y.grad is not None
        assert_close(x.grad, y.grad.numpy())


def test_gradients_of_several_dtypes_and_layouts(
    half_place: Device, rng: np.random.Generator
) -> None:
    arrays = [rng.normal(size=(4, 6)).astype(np.float32) for _ in range(4)]
    whole = fw.tensor(arrays[0], device=half_place)
    grads = [
        fw.tensor(arrays[1], device=half_place).mT,
        fw.tensor(arrays[2], device=half_place).to(fw.float16),
        whole[:, 1:3],
        fw.tensor(arrays[3], device=half_place).to(fw.bfloat16) * 100,
    ]
    leaves = []
    for grad in grads:
        leaves.append(fw.zeros_like(grad).requires_grad_())
        leaves[-1].grad = grad
    before = [grad.to(fw.float32).numpy() for grad in grads]
    norm = np.sqrt(sum(np.sum(np.square(each, dtype=np.float64)) for each in before))
    found = optim.clip_grad_norm_(leaves, 2.0)
    assert found.dtype is fw.float32
    assert_close(found, np.float32(norm), scale=4)
    for leaf, each in zip(leaves, before):
        assert leaf.grad.dtype is leaf.dtype
        narrow = leaf.dtype is not fw.float32
        after = leaf.grad.to(fw.float32).numpy()
        np.testing.assert_allclose(
            after, each * 2.0 / norm, rtol=2e-2 if narrow else 1e-5
        )
    # Elements of the storage that are no gradient stay as they were.
    np.testing.assert_array_equal(whole.numpy()[:, 3:], arrays[0][:, 3:])


def test_a_float16_norm_does_not_overflow_on_its_way(half_place: Device) -> None:
    x = fw.zeros(4, dtype=fw.float16, device=half_place, requires_grad=True)
    x.grad = fw.full(4, 1000.0, dtype=fw.float16, device=half_place)
    assert optim.clip_grad_norm_([x], 1.0).item() == 2000.0
    assert x.grad.tolist() == pytest.approx([0.5] * 4, rel=1e-3)
