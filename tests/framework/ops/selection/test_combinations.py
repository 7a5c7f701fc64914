"""Ways to choose elements, against itertools and PyTorch."""

import itertools

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework.base.errors import ShapeError

SIZES = [
    (5, 2, False), (5, 2, True), (7, 3, False), (7, 3, True), (40, 38, False),
    (6, 6, False), (6, 7, False), (4, 6, True), (1, 1, False), (0, 2, False),
    (0, 2, True), (5, 1, False), (5, 0, False), (150, 2, False), (12, 4, True),
]  # fmt: skip


def check(count: int, r: int, again: bool, device: fw.device) -> None:
    """Compare with the rows of itertools, in order."""
    x = np.arange(count, dtype=np.float32) * 1.5
    name = "combinations_with_replacement" if again else "combinations"
    rows = list(getattr(itertools, name)(x, r))
    found = fw.combinations(fw.tensor(x, device=device), r, again)
    wanted = np.array(rows, np.float32).reshape((-1, r) if r else (0,))
    assert found.shape == wanted.shape
    assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize(("count", "r", "again"), SIZES)
def test_on_the_host(count: int, r: int, again: bool) -> None:
    check(count, r, again, fw.device("cpu"))


@pytest.mark.parametrize(("count", "r", "again"), SIZES[::4])
def test_on_a_device(count: int, r: int, again: bool, device: vkbackend.Device) -> None:
    check(count, r, again, fw.device(device.name))


def test_more_ways_than_an_int32_counts() -> None:
    with pytest.raises(
        ShapeError, match="there are 4999950000 ways to choose 2 of 100000"
    ):
        fw.combinations(fw.zeros(100_000), 2)
    with pytest.raises(ShapeError, match="pdist: there are 4999950000 ways"):
        fw.nn.functional.pdist(fw.zeros(100_000, 1))


def test_the_host_lists_no_pairs(device: vkbackend.Device) -> None:
    """A table of as many words as there are rows goes to the device, and no list."""
    x = fw.tensor(np.random.default_rng(0).standard_normal((100, 3)), dtype=fw.float32)
    x = x.to(fw.device(device.name))
    fw.eval(x)
    before = device.counters.snapshot()
    found = fw.nn.functional.pdist(x)
    fw.eval(found)
    assert (device.counters.snapshot() - before).upload_bytes <= 4 * 100
    wanted = torch.nn.functional.pdist(torch.tensor(x.numpy()))
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5)


def test_gradients() -> None:
    values = np.array([0.5, -1.0, 2.0], np.float32)
    x, y = (
        fw.tensor(values, requires_grad=True),
        torch.tensor(values, requires_grad=True),
    )
    fw.combinations(x, 2).prod(1).sum().backward()
    torch.combinations(y, 2).prod(1).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-6)
