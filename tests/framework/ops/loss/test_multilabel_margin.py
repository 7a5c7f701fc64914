"""The multi-label margin loss: NaN, labels out of range, and its kernels."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import host_reads
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.loss.multilabel_margin import multilabel_margin_losses

Make = Callable[..., fw.Tensor]

# Labels are int64, as in PyTorch.
pytestmark = pytest.mark.int64


def drawn(rows: int, classes: int, labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scores, some not finite, and labels of which some come twice."""
    rng = np.random.default_rng(rows + classes)
    x = rng.normal(size=(rows, classes)).astype(np.float32)
    for special in (np.nan, np.inf, -np.inf):
        x[rng.random(x.shape) < 0.02] = special
    numbers = rng.integers(0, classes, x.shape)
    ends = rng.integers(0, labels + 1, rows)
    numbers[np.arange(rows), np.minimum(ends, classes - 1)] = -1
    return x, numbers


def check(make: Make, x: np.ndarray, labels: np.ndarray) -> None:
    """Compare losses and gradients with PyTorch's, and that nothing is read back."""
    twin = torch.tensor(x, requires_grad=True)
    wanted = F.multilabel_margin_loss(twin, torch.tensor(labels), reduction="none")
    weights = np.linspace(-1, 1, len(x), dtype=np.float32)
    wanted.backward(torch.tensor(weights))
    ours, numbers, weight = make(x, grad=True), make(labels), make(weights)
    before = host_reads(ours)
    losses = multilabel_margin_losses(ours, numbers)
    losses.backward(weight)
    fw.eval()
    assert host_reads(ours) == before
    assert_close(losses, wanted.detach().numpy(), scale=16)
    # PyTorch adds up a class's shares, ours counts them.
    assert twin.grad is not None
    assert_close(ours.grad, twin.grad.numpy(), scale=64)


@pytest.mark.parametrize("shape", [(13, 37, 37), (3, 1100, 9)])
def test_is_as_in_torch(shape: tuple[int, int, int], make: Make) -> None:
    check(make, *drawn(*shape))


def test_kernels_of_hardware(quick: GpuDevice) -> None:
    def make(array: np.ndarray, grad: bool = False) -> fw.Tensor:
        return fw.tensor(array, device=quick, requires_grad=grad)

    for shape in ((5, 200, 100), (2, 2100, 400)):
        check(make, *drawn(*shape))


def test_labels_that_are_no_class_give_nan(
    gpu: GpuDevice, unchecked_indices: None
) -> None:
    x = fw.zeros(5, 3, device=gpu, requires_grad=True)
    rows = [[0, -1, 2], [3, -1, 0], [-2, 0, -1], [1, 1 << 40, 0], [0, -1, 9]]
    losses = multilabel_margin_losses(x, fw.tensor(np.array(rows), device=gpu))
    losses.sum().backward()
    assert_close(losses, np.array([2 / 3, *(np.nan,) * 4], np.float32))
    assert np.isfinite(x.grad.numpy()).all()


def test_dispatches(gpu: GpuDevice) -> None:
    x = fw.zeros(3, 70, device=gpu, requires_grad=True)
    labels = fw.tensor(np.arange(-1, 69)[None].repeat(3, 0), device=gpu)
    weights = fw.ones(3, device=gpu)
    fw.eval(x, labels, weights)
    before = gpu.gpu.counters.dispatches
    losses = multilabel_margin_losses(x, labels)
    fw.eval(losses)
    assert gpu.gpu.counters.dispatches == before + 1
    fw.eval(*fw.autograd.grad([losses], [x], [weights]))
    # What is lacked is counted, then multiplied by the gradient.
    assert gpu.gpu.counters.dispatches == before + 3
