"""QR factors of large and tall matrices by kernels, and singular values by them."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops import panel_qr

wide = pytest.mark.wide
MORE = (49, 49), (100, 17), (300, 300), (1500, 20)
SHAPES = [(64, 64), (2, 130, 33), *(pytest.param(each, marks=wide) for each in MORE)]


def kinds(shape: tuple[int, ...], dtype: str) -> list[np.ndarray]:
    """Return matrices of all sizes and ranks, the first ones regular."""
    drawn = np.random.default_rng(shape[-1]).standard_normal(shape)
    equal = drawn.copy()
    equal[..., 3] = equal[..., 2]
    equal[..., 5] = 0
    graded = drawn * np.logspace(0, -12, shape[-1])
    every = drawn, 1e30 * drawn, 1e-30 * drawn, equal, 0 * drawn, graded
    return [each.astype(dtype) for each in every]


def check(data: np.ndarray, q: Any, r: Any) -> None:
    eps, exact = np.finfo(data.dtype).eps, data.astype("f8")
    q, r = (each.numpy().astype("f8") for each in (q, r))
    most = 8 * data.shape[-2] ** 0.5 * eps
    beside = np.swapaxes(q, -1, -2) @ q - np.eye(q.shape[-1])
    assert np.abs(beside).max() <= most
    assert np.abs(q @ r - exact).max() <= most * np.abs(exact).max()
    assert not np.tril(r, -1).any()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=wide)])
def test_factors(shape: tuple[int, ...], dtype: str, quick: GpuDevice) -> None:
    if dtype == "float64" and not quick.gpu.info.shader_float64:
        pytest.skip("no float64")
    for number, data in enumerate(kinds(shape, dtype)):
        x = fw.tensor(data, device=quick)
        reads = quick.gpu.counters.host_reads
        q, r = fw.linalg.qr(x)
        fw.eval(q, r)
        assert quick.gpu.counters.host_reads == reads
        check(data, q, r)
        if number < 3:
            wanted = np.diagonal(np.linalg.qr(data)[1], 0, -2, -1)
            found = np.diagonal(r.numpy(), 0, -2, -1)
            np.testing.assert_array_equal(np.sign(found), np.sign(wanted))


@pytest.mark.parametrize("rows", [300, 640])
def test_parts_of_tall_matrices(
    rows: int, quick: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panel_qr, "CHUNK", 64)
    monkeypatch.setattr(panel_qr, "qr_columns", lambda *given: 16 * (given[2] <= 100))
    for data in kinds((2, rows, 16), "float32"):
        x = fw.tensor(data, device=quick)
        reads = quick.gpu.counters.host_reads
        q, r = fw.linalg.qr(x)
        fw.eval(q, r)
        assert quick.gpu.counters.host_reads == reads
        check(data, q, r)


def test_gradients(quick: GpuDevice) -> None:
    data = np.random.default_rng(0).standard_normal((80, 60)).astype("f4")
    x = fw.tensor(data, device=quick, requires_grad=True)
    given = torch.tensor(data, requires_grad=True)
    for library, place in ((fw, x), (torch, given)):
        lib: Any = library
        q, r = lib.linalg.qr(place)
        ((q * q.detach().sin()).sum() + (r * r).sum()).backward()
    assert x.grad is not None
    assert given.grad is not None
    wanted = given.grad.numpy()
    most = 1e-3 * np.abs(wanted).max()
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=0, atol=most)


@pytest.mark.parametrize("shape", [(90, 7), (7, 90), (2, 40, 3)])
def test_all_vectors(shape: tuple[int, ...], quick: GpuDevice) -> None:
    data = np.random.default_rng(0).standard_normal(shape).astype("f4")
    x, least = fw.tensor(data, device=quick), min(shape[-2:])
    reads = quick.gpu.counters.host_reads
    found = fw.linalg.svd(x)
    fw.eval(*found)
    assert quick.gpu.counters.host_reads == reads
    u, s, vh = (each.numpy() for each in found)
    wanted = np.linalg.svd(data, compute_uv=False)
    np.testing.assert_allclose(s, wanted, rtol=1e-5)
    for each in (u, vh):
        beside = each @ np.swapaxes(each, -1, -2) - np.eye(each.shape[-1])
        assert np.abs(beside).max() < 1e-5
    made = u[..., :least] * s[..., None, :] @ vh[..., :least, :]
    np.testing.assert_allclose(made, data, atol=1e-5)


@pytest.mark.parametrize("shape", [(90, 7), (2, 40, 3)])
def test_square_orthogonal_factors(shape: tuple[int, ...], quick: GpuDevice) -> None:
    data = np.random.default_rng(0).standard_normal(shape).astype("f4")
    x = fw.tensor(data, device=quick)
    reads = quick.gpu.counters.host_reads
    q, r = fw.linalg.qr(x, "complete")
    fw.eval(q, r)
    assert quick.gpu.counters.host_reads == reads
    assert q.shape[-2:] == (shape[-2], shape[-2])
    assert r.shape == shape
    check(data, q, r)
