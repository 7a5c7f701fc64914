"""Cross products: broadcast, of every dtype, and in one launch."""

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.agree import need
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.dtype import DTYPES

SHAPES = [
    ((7, 3), (7, 3), -1),
    ((3, 40), (3, 40), 0),
    ((5, 3, 6), (1, 3, 6), 1),
    ((2, 3, 4), (2, 3, 1), 1),
    ((0, 3), (0, 3), 1),
    ((3,), (3,), 0),
]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "complex64"])
@pytest.mark.parametrize(("left", "right", "dim"), SHAPES)
def test_beside_pytorch(
    left: tuple[int, ...], right: tuple[int, ...], dim: int, dtype: str, place: Device
) -> None:
    need(dtype, place)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 6, shape).astype(dtype) for shape in (left, right))
    x, y = (fw.tensor(each, device=place) for each in (a, b))
    p, q = (torch.from_numpy(each) for each in (a, b))
    if DTYPES[dtype].is_float:
        for each in (x, y, p, q):
            each.requires_grad_()
    found, wanted = fw.cross(x, y, dim), torch.cross(p, q, dim)
    assert np.array_equal(found.detach().numpy(), wanted.detach().numpy())
    if DTYPES[dtype].is_float:
        seed = rng.integers(-3, 4, wanted.shape).astype(dtype)
        found.backward(fw.tensor(seed, device=place))
        wanted.backward(torch.from_numpy(seed))
        for each, other in ((x, p), (y, q)):
            assert each.grad is not None
            assert other.grad is not None
            assert np.array_equal(each.grad.numpy(), other.grad.numpy())


def test_one_launch(device: vkbackend.Device) -> None:
    values = np.random.default_rng(0).standard_normal((50, 3)).astype("f4")
    x = fw.tensor(values, device=fw.device(device.name))
    fw.eval(x)
    before = device.counters.snapshot()
    found = fw.cross(x, x, -1)
    fw.eval(found)
    assert (device.counters.snapshot() - before).dispatches == 1
    # Each product is rounded, so both are the same.
    assert not found.numpy().any()


def test_batches(place: Device) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((4, 50, 3)), rng.standard_normal((50, 3))
    x, y = (fw.tensor(each, device=place, dtype=fw.float32) for each in (a, b))
    found = fw.func.vmap(lambda each: fw.cross(each, y, -1))(x)
    np.testing.assert_allclose(found.numpy(), np.cross(a, b), rtol=1e-4, atol=1e-5)
