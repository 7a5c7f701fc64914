"""Determinants and their gradients by kernels, of singular matrices too."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice

wide = pytest.mark.wide


def cofactors(x: np.ndarray) -> np.ndarray:
    """Return the derivatives of determinants, by singular values."""
    u, s, vh = np.linalg.svd(x)
    others = [np.delete(s, i, -1).prod(-1) for i in range(s.shape[-1])]
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return ((u * np.stack(others, -1)[..., None, :]) @ vh) * sign[..., None, None]


def singular(data: np.ndarray) -> list[np.ndarray]:
    """Return matrices of less and less rank."""
    rows, column, columns = data.copy(), data.copy(), data.copy()
    rows[..., 1, :] = rows[..., 0, :]
    column[..., 2] = 0
    columns[..., 1:3] = 0
    return [data, rows, column, columns, 0 * data]


@pytest.mark.parametrize("shape", [(5, 5), (2, 3, 40, 40), (130, 130)])
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=wide)])
def test_gradients(shape: tuple[int, ...], dtype: str, quick: GpuDevice) -> None:
    if dtype == "float64" and not quick.gpu.info.shader_float64:
        pytest.skip("no float64")
    rng = np.random.default_rng(shape[-1])
    data = rng.standard_normal(shape) * (1.6 / shape[-1] ** 0.5)
    scale = np.abs(cofactors(data)).max()
    for given in singular(data.astype(dtype)):
        seed = rng.standard_normal(shape[:-2]).astype(dtype)
        x = fw.tensor(given, device=quick, requires_grad=True)
        reads = quick.gpu.counters.host_reads
        fw.linalg.det(x).backward(fw.tensor(seed, device=quick))
        assert x.grad is not None
        fw.eval(x.grad)
        assert quick.gpu.counters.host_reads == reads
        wanted = cofactors(given.astype("f8")) * seed[..., None, None]
        error = np.abs(x.grad.numpy() - wanted).max()
        assert error <= 200 * np.finfo(dtype).eps * shape[-1] ** 0.5 * scale


@pytest.mark.wide
def test_logarithms(quick: GpuDevice) -> None:
    data = np.random.default_rng(0).standard_normal((2, 40, 40)).astype("f4")
    x = fw.tensor(data, device=quick, requires_grad=True)
    given = torch.tensor(data.astype("f8"), requires_grad=True)
    for library, place in ((fw, x), (torch, given)):
        lib: Any = library
        size = lib.linalg.slogdet(place)[1]
        (size.sum() + size[0]).backward()
    exact = torch.linalg.slogdet(given.detach())
    np.testing.assert_array_equal(fw.linalg.slogdet(x.detach())[0].numpy(), exact[0])
    assert x.grad is not None
    assert given.grad is not None
    wanted = given.grad.numpy()
    most = 1e-4 * np.abs(wanted).max()
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=0, atol=most)


def test_second_derivatives_and_batches(quick: GpuDevice) -> None:
    data = np.random.default_rng(0).standard_normal((3, 6, 6)).astype("f4")

    def second(library: Any, x: Any, name: str) -> Any:
        def value(p: Any) -> Any:
            found = getattr(library.linalg, name)(p)
            return ((found[1] if name == "slogdet" else found) ** 2).sum()

        first = library.func.grad(value)
        return library.func.grad(lambda p: (first(p) * p.sin()).sum())(x)

    for name in ("det", "slogdet"):
        ours = second(fw, fw.tensor(data, device=quick), name).numpy()
        theirs = second(torch, torch.tensor(data), name).numpy()
        most = 1e-4 * np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=most)
    each = fw.func.vmap(fw.func.grad(fw.linalg.det))(fw.tensor(data, device=quick))
    most = 1e-5 * np.abs(cofactors(data)).max()
    np.testing.assert_allclose(each.numpy(), cofactors(data), rtol=0, atol=most)
