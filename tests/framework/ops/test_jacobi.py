"""Singular vectors and eigenvectors of matrices of any size, by Jacobi's rotations."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.kernels import jacobi as kernels
from vkbackend.framework.ops import jacobi

wide = pytest.mark.wide
MORE = (49, 130), (200, 150)
SHAPES = [(50, 50), (70, 49), *(pytest.param(each, marks=wide) for each in MORE)]
DTYPES = ["float32", pytest.param("float64", marks=wide)]


def of_ranks(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
    """Return matrices of all kinds of singular values, few of them apart from 0."""
    graded = rng.standard_normal((m, n)) * np.logspace(0, -12, n)
    outer = rng.standard_normal((m, 1)) @ rng.standard_normal((1, n))
    equal, tiny = np.eye(m, n), np.eye(m, n)
    tiny[min(m, n) // 2 :] *= 1e-20
    drawn = rng.standard_normal((m, n))
    return np.stack([drawn, outer, 0 * outer, equal, 0 * outer + 1, graded, tiny])


def symmetric(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return symmetric matrices of all ranks, and one of eigenvalues below 0 alone."""
    drawn = of_ranks(rng, n, n)
    found: np.ndarray = drawn + np.swapaxes(drawn, 1, 2)
    found[2] = -found[5] @ found[5]
    return found


def made(data: np.ndarray, place: GpuDevice) -> fw.Tensor:
    return fw.tensor(data, device=place)


def read_bytes(place: GpuDevice) -> int:
    return place.gpu.counters.host_read_bytes


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "scale", [1e-30, *(pytest.param(s, marks=wide) for s in (1.0, 1e30))]
)
def test_singular_vectors(
    shape: tuple[int, int], dtype: str, scale: float, quick: GpuDevice
) -> None:
    if dtype == "float64" and not quick.gpu.info.shader_float64:
        pytest.skip("no float64")
    k, eps = min(shape), np.finfo(dtype).eps
    data = (scale * of_ranks(np.random.default_rng(0), *shape)).astype(dtype)
    before = read_bytes(quick)
    found = fw.linalg.svd(made(data, quick), full_matrices=False)
    values = fw.linalg.svdvals(made(data, quick))
    fw.eval(*found, values)
    # Flags alone: no row of a matrix is as short.
    assert read_bytes(quick) - before < 4096
    u, s, vh = (each.numpy().astype("f8") for each in found)
    exact = data.astype("f8")
    size = np.linalg.norm(exact, axis=(1, 2))
    assert (np.diff(s) <= 0).all()
    wanted = np.linalg.svd(exact, compute_uv=False)
    for each in (s, values.numpy()):
        assert (np.abs(each - wanted).max(1) <= max(shape) * eps * size).all()
    rest = u * s[:, None, :] @ vh - exact
    assert (np.abs(rest).max((1, 2)) <= 16 * eps * size).all()
    for each in (np.swapaxes(u, 1, 2), vh):
        beside = each @ np.swapaxes(each, 1, 2) - np.eye(k)
        assert np.abs(beside).max() <= 64 * eps


@pytest.mark.parametrize("size", [50, pytest.param(97, marks=wide)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "scale", [1e30, *(pytest.param(s, marks=wide) for s in (1.0, 1e-15))]
)
def test_eigenvectors(size: int, dtype: str, scale: float, quick: GpuDevice) -> None:
    if dtype == "float64" and not quick.gpu.info.shader_float64:
        pytest.skip("no float64")
    data = (scale * symmetric(np.random.default_rng(0), size)).astype(dtype)
    exact, eps = data.astype("f8"), np.finfo(dtype).eps
    most = 16 * eps * np.linalg.norm(exact, axis=(1, 2))[:, None]
    wanted = np.linalg.eigvalsh(exact)
    for triangle, uplo in ((np.tril, "L"), (np.triu, "U")):
        given = made(triangle(data), quick)
        before = read_bytes(quick)
        found = fw.linalg.eigh(given, UPLO=uplo)
        values = fw.linalg.eigvalsh(given, UPLO=uplo)
        fw.eval(*found, values)
        assert read_bytes(quick) - before < 4096
        w, v = (each.numpy().astype("f8") for each in found)
        for each in (w, values.numpy()):
            assert (np.abs(each - wanted) <= most).all()
        assert (np.diff(w) >= 0).all()
        left = np.swapaxes(v, 1, 2) @ v - np.eye(size)
        assert np.abs(left).max() <= 64 * eps
        rest = exact @ v - v * w[:, None, :]
        assert (np.abs(rest) <= most[..., None]).all()


@pytest.mark.wide
@pytest.mark.parametrize(("block", "fused"), [(16, 0), (16, 99), (32, 99)])
def test_blocks_of_all_sizes(
    block: int, fused: int, quick: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    if quick.gpu.info.max_workgroup_invocations < block * block:
        pytest.skip("no workgroups of a large block")
    monkeypatch.setattr(jacobi, "jacobi_block", lambda *_: block)
    monkeypatch.setattr(kernels, "FUSED_GROUPS", fused)
    quick.plans.clear()
    data = np.random.default_rng(1).standard_normal((2, 75, 90)).astype("f4")
    values = fw.linalg.svdvals(made(data, quick)).numpy()
    wanted = np.linalg.svd(data.astype("f8"), compute_uv=False)
    np.testing.assert_allclose(values, wanted, atol=1e-5 * wanted.max())


def test_products_in_parts(quick: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of few rows and many columns, which several workgroups add up."""
    monkeypatch.setattr(jacobi, "LONG", 1 << 20)
    data = np.random.default_rng(2).standard_normal((50, 333)).astype("f4")
    u, s, vh = (each.numpy() for each in fw.linalg.svd(made(data, quick), False))
    np.testing.assert_allclose(u * s @ vh, data, atol=1e-4)
    assert np.abs(vh @ vh.T - np.eye(50)).max() < 1e-5


def loss_of(lib: Any, name: str, x: Any) -> Any:
    """Return what depends on no sign of a vector."""
    if name == "eigh":
        w, v = lib.linalg.eigh(x)
        return (w * w.cos()).sum() + (v * v * v.detach() ** 2).sum()
    if name == "svd":
        u, s, vh = lib.linalg.svd(x, full_matrices=False)
        both = (u * u * u.detach() ** 2).sum() + (vh * vh * vh.detach() ** 2).sum()
        return (s * s.cos()).sum() + both
    if name == "nuclear norm":
        return lib.linalg.matrix_norm(x, "nuc")
    return lib.linalg.cond(x)


@pytest.mark.parametrize("name", ["eigh", "svd", "nuclear norm", "cond"])
def test_gradients(name: str, quick: GpuDevice) -> None:
    q, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((60, 60)))
    # Values apart from each other, by which a derivative is divided
    data = (q * np.linspace(1, 3, 60) @ (q.T if name == "eigh" else q)).astype("f4")
    x = fw.tensor(data, device=quick, requires_grad=True)
    given = torch.tensor(data.astype("f8"), requires_grad=True)
    before = read_bytes(quick)
    loss_of(fw, name, x).backward()
    assert x.grad is not None
    fw.eval(x.grad)
    assert read_bytes(quick) - before < 256
    loss_of(torch, name, given).backward()
    assert given.grad is not None
    wanted = given.grad.numpy()
    most = 1e-3 * np.abs(wanted).max()
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=0, atol=most)


def test_vectors_of_near_values(quick: GpuDevice) -> None:
    """They are as exact as their values are apart, not as rows count as orthogonal."""
    size = 100
    q, _ = np.linalg.qr(np.random.default_rng(8).standard_normal((size, size)))
    data = (q * np.linspace(1, 2, size) @ q.T).astype("f4")
    _, v = np.linalg.eigh(data.astype("f8"))
    found = fw.linalg.eigh(made(data, quick))[1].numpy().astype("f8")
    turned = v.T @ found
    assert np.abs(np.abs(turned) - np.eye(size)).max() < 2e-5


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number(bad: float, quick: GpuDevice) -> None:
    data = np.ones((2, 50, 50), "f4")
    data[0, 4, 2] = bad
    x = made(data, quick)
    found = fw.linalg.svdvals(x), fw.linalg.svd(x).U, fw.linalg.eigvalsh(x)
    for each in found:
        assert np.isnan(each.numpy()[0]).all()
        assert np.isfinite(each.numpy()[1]).all()


def test_what_a_trace_finds(quick: GpuDevice) -> None:
    data = np.random.default_rng(4).standard_normal((50, 50)).astype("f4")
    data[:, 7] = data[:, 3]
    x = made(data, quick)
    u, s, vh = fw.jit(lambda x: tuple(fw.linalg.svd(x)))(x)
    np.testing.assert_allclose((u * s @ vh).numpy(), data, atol=1e-4)
    assert np.abs((u.mT @ u).numpy() - np.eye(50)).max() < 1e-5
    w = fw.jit(fw.linalg.eigvalsh)(x @ x.mT).numpy()
    np.testing.assert_allclose(w, np.sort(s.numpy() ** 2), atol=1e-4 * w[-1])


def test_what_vmap_finds(quick: GpuDevice) -> None:
    data = np.random.default_rng(5).standard_normal((3, 50, 55)).astype("f4")
    values = fw.vmap(fw.linalg.svdvals)(made(data, quick)).numpy()
    wanted = np.linalg.svd(data, compute_uv=False)
    np.testing.assert_allclose(values, wanted, atol=1e-4)


def test_what_does_not_converge_is_the_hosts(
    quick: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SWEEPS", "MOST_SWEEPS"):
        monkeypatch.setattr(jacobi, name, 1)
    monkeypatch.setattr(jacobi, "expected_sweeps", lambda _: 1)
    data = np.random.default_rng(6).standard_normal((50, 50)).astype("f4")
    data = data + data.T
    x = made(data, quick)
    before = read_bytes(quick)
    u, s, vh = fw.linalg.svd(x)
    assert read_bytes(quick) - before >= data.nbytes
    np.testing.assert_allclose((u * s @ vh).numpy(), data, atol=1e-4)
    for found in (fw.linalg.svdvals(x), fw.linalg.eigh(x)[0], fw.linalg.eigvalsh(x)):
        size = np.sort(np.abs(found.numpy()))
        np.testing.assert_allclose(size, np.sort(s.numpy()), atol=1e-4)
    for call in (fw.linalg.svdvals, fw.linalg.eigvalsh):
        assert np.isnan(fw.jit(call)(x).numpy()).all()


def test_only_where_indices_reach(quick: GpuDevice) -> None:
    few = made(np.zeros((50, 50), "f4"), quick)
    assert jacobi.jacobi_by_kernel(few)
    assert not kernels.jacobi_fits(1, 1 << 15, 1 << 16)
