"""Cross entropy with the gradient that comes with it."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import draw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.loss import cross_entropy_fused

Make = Callable[..., fw.Tensor]

OPTIONS = [("mean", 0.0), ("mean", 0.1), ("sum", 0.0), ("sum", 1.0)]


def labels_for(rows: int, columns: int) -> np.ndarray:
    labels = np.random.default_rng(0).integers(0, columns, rows)
    labels[rows // 2] = -100
    return labels


def wanted_for(
    x: np.ndarray, labels: np.ndarray, reduction: str, smoothing: float
) -> tuple[np.ndarray, np.ndarray]:
    twin = torch.from_numpy(x).double().requires_grad_()
    loss = F.cross_entropy(
        twin,
        torch.from_numpy(labels),
        reduction=reduction,
        label_smoothing=smoothing,
    )
    loss.backward()
    assert twin.grad is not None
    return loss.detach().float().numpy(), twin.grad.float().numpy()


@pytest.mark.parametrize(("reduction", "smoothing"), OPTIONS)
@pytest.mark.parametrize("shape", [(5, 128), (7, 1031), (9, 67)])
def test_is_as_in_torch(
    shape: tuple[int, int], reduction: str, smoothing: float, registers: GpuDevice
) -> None:
    data, labels = 4 * draw(*shape), labels_for(*shape)
    x = fw.tensor(data, device=registers, requires_grad=True)
    y = fw.tensor(labels, device=registers)
    found = ops.cross_entropy(x, y, reduction=reduction, label_smoothing=smoothing)
    found.backward()
    loss, grad = wanted_for(data, labels, reduction, smoothing)
    assert_close(found, loss, scale=8)
    assert_close(x.grad, grad, scale=8)
    with fw.no_grad():
        alone = ops.cross_entropy(x, y, reduction=reduction, label_smoothing=smoothing)
    assert_close(alone, loss, scale=8)


def test_the_gradient_is_multiplied_only_if_it_must_be(registers: GpuDevice) -> None:
    data, labels = draw(5, 128), labels_for(5, 128)
    x = fw.tensor(data, device=registers, requires_grad=True)
    y = fw.tensor(labels, device=registers)
    _, grad = wanted_for(data, labels, "mean", 0.0)
    counters = registers.gpu.counters
    launched = []
    for factor in (1.0, 3.0):
        x.grad = None
        fw.eval()
        before = counters.snapshot()
        loss = ops.cross_entropy(x, y)
        (loss if factor == 1 else loss * factor).backward()
        fw.eval()
        launched.append((counters - before).dispatches)
        assert_close(x.grad, factor * grad, scale=8)
    assert launched[0] < launched[1]


def test_what_is_kept_does_not_change_with_the_gradient(registers: GpuDevice) -> None:
    data, labels = draw(5, 128), labels_for(5, 128)
    x = fw.tensor(data, device=registers, requires_grad=True)
    loss = ops.cross_entropy(x, fw.tensor(labels, device=registers))
    loss.backward(retain_graph=True)
    x.grad.zero_()
    loss.backward()
    assert_close(x.grad, wanted_for(data, labels, "mean", 0.0)[1], scale=8)


def test_labels_that_are_no_class_give_nan(
    registers: GpuDevice, unchecked_indices: None
) -> None:
    x = fw.zeros((4, 128), device=registers, requires_grad=True)
    labels = fw.tensor(np.array([0, 128, -1, -100], np.int32), device=registers)
    loss = ops.cross_entropy(x, labels, reduction="sum")
    loss.backward()
    assert np.isnan(loss.item())
    grad = x.grad.numpy()
    assert np.isnan(grad[1:3]).all()
    assert np.isfinite(grad[0]).all()
    assert (grad[3] == 0).all()


@pytest.mark.parametrize("mean", [True, False])
def test_on_each_device_as_by_rows(
    mean: bool, make: Make, registers: GpuDevice
) -> None:
    data, labels = 4 * draw(6, 128), labels_for(6, 128)
    x = make(data, grad=True)
    loss, scored, *_ = cross_entropy_fused.cross_entropy_with_grad(
        x, make(labels), -100, 0.1, mean
    )
    wanted, grad = wanted_for(data, labels, "mean" if mean else "sum", 0.1)
    assert_close(loss, wanted, scale=8)
    assert_close(scored, grad, scale=8)
    loss.backward()
    assert_close(x.grad, grad, scale=8)


def test_the_gradient_has_a_gradient(registers: GpuDevice) -> None:
    data, labels = draw(4, 128), labels_for(4, 128)
    x = fw.tensor(data, device=registers, requires_grad=True)
    loss = ops.cross_entropy(x, fw.tensor(labels, device=registers))
    loss.backward(create_graph=True)
    first, x.grad = x.grad, None
    (first * first).sum().backward()
    twin = torch.from_numpy(data).double().requires_grad_()
    (other,) = torch.autograd.grad(
        F.cross_entropy(twin, torch.from_numpy(labels)), twin, create_graph=True
    )
    (other * other).sum().backward()
    assert_close(x.grad, twin.grad.float().numpy(), scale=8)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_repeated_passes_take_the_gradient_that_is_given(
    registers: GpuDevice, dtype: str
) -> None:
    data, labels = draw(5, 128), labels_for(5, 128)
    x = fw.tensor(data, device=registers).to(dtype).requires_grad_()
    y = fw.tensor(labels, device=registers)
    _, grad = wanted_for(x.detach().float().numpy(), labels, "mean", 0.0)
    registers.backward_cache.clear()
    for given in (None, None, None, 4.0, 4.0, 4.0, None, 0.5):
        x.grad = None
        loss = ops.cross_entropy(x * 1, y)
        seed = given and fw.tensor(given, device=registers).to(dtype)
        loss.backward(seed)
        wanted = grad * (given or 1.0)
        rtol = 2.0**-8 if dtype == "bfloat16" else 1e-5
        np.testing.assert_allclose(x.grad.float().numpy(), wanted, rtol, 1e-8)
