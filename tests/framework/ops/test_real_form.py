"""Complex systems by kernels for real ones, on a device with cheap barriers."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice

Call = Callable[..., object]


def _numbers(seed: int, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    made = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return made.astype("complex64")


@pytest.fixture
def unread(quick: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return a device that the host reads no matrices from."""

    def refused(x: fw.Tensor) -> np.ndarray:
        raise AssertionError(f"read {x.shape}")

    monkeypatch.setattr("vkbackend.framework.ops.factorization.read", refused)
    return quick


@pytest.mark.parametrize("shape", [(5, 5), (2, 3, 3), (37, 37)])
def test_solutions_and_inverses(shape: tuple[int, ...], unread: GpuDevice) -> None:
    size = shape[-1]
    regular = _numbers(0, *shape) + 2 * np.eye(size, dtype="complex64")
    side, seed = _numbers(1, *shape[:-1], 2), _numbers(2, *shape[:-1], 2)
    x, b = (fw.tensor(each, device=unread) for each in (regular, side))
    y, c = (torch.tensor(each) for each in (regular, side))
    for each in (x, b, y, c):
        each.requires_grad_()
    found = fw.linalg.inv(x) @ fw.linalg.solve(x, b)
    wanted = torch.linalg.inv(y) @ torch.linalg.solve(y, c)
    assert np.allclose(found.detach().numpy(), wanted.detach().numpy(), atol=1e-4)
    found.backward(fw.tensor(seed, device=unread))
    wanted.backward(torch.tensor(seed))
    for one, other in ((x, y), (b, c)):
        assert one.grad is not None
        assert other.grad is not None
        assert np.allclose(one.grad.numpy(), other.grad.numpy(), atol=1e-3)


def test_the_first_zero_pivot(unread: GpuDevice) -> None:
    """Columns 1 and 3 are the same, so pivot 3 is 0; of zeros the first is."""
    repeated = _numbers(0, 4, 4)
    repeated[:, 2] = repeated[:, 0]
    repeated[2:] = 0
    both = np.stack([repeated, np.zeros((4, 4), "c8"), np.eye(4, dtype="c8")])
    x = fw.tensor(both, device=unread)
    found = fw.linalg.inv_ex(x)
    assert found.info.tolist() == [3, 1, 0]
    assert np.isnan(found.inverse.numpy()[:2]).all()
    assert np.array_equal(found.inverse.numpy()[2], np.eye(4))
    with pytest.raises(fw.linalg.LinAlgError, match=r"\(3, 4, 4\) is singular"):
        fw.linalg.solve(x, x)


def test_gradients_of_eigenvalues(quick: GpuDevice) -> None:
    given = np.random.default_rng(0).standard_normal((6, 6)).astype("float32")
    x = fw.tensor(given, device=quick, requires_grad=True)
    y = torch.tensor(given, requires_grad=True)
    (fw.linalg.eigvals(x).abs() ** 3).sum().backward()
    (torch.linalg.eigvals(y).abs() ** 3).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert np.allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-3, atol=1e-3)
