"""Eigenvectors and QR factors of small matrices by kernels."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice

wide = pytest.mark.wide


@pytest.mark.parametrize("size", [1, 2, 5, 31, pytest.param(48, marks=wide)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigenvectors(size: int, dtype: str, quick: GpuDevice) -> None:
    if dtype == "float64" and (size > 32 or not quick.gpu.info.shader_float64):
        pytest.skip("the host's")
    rng = np.random.default_rng(size)
    for scale in (1.0, 1e-6, 1e6):
        data = scale * rng.standard_normal((3, size, size))
        data[1] = scale * np.eye(size)  # of which every vector is one
        data[2] = np.outer(data[2, 0], data[2, 0])  # of rank 1
        for upper in (False, True):
            triangle = np.triu if upper else np.tril
            given = triangle(data).astype(dtype)
            whole = given + np.swapaxes(given, 1, 2)
            whole[:, range(size), range(size)] /= 2
            x = fw.tensor(given, device=quick)
            reads = quick.gpu.counters.host_reads
            w, v = fw.linalg.eigh(x, UPLO="U" if upper else "L")
            fw.eval(w, v)
            assert quick.gpu.counters.host_reads == reads
            w, v, exact = w.numpy(), v.numpy(), whole.astype("f8")
            unit = np.finfo(dtype).eps
            most = unit * 8 * size * np.linalg.norm(exact, axis=(1, 2))[:, None]
            assert (np.abs(w - np.linalg.eigvalsh(exact)) <= most).all()
            left = np.swapaxes(v, 1, 2) @ v - np.eye(size)
            assert np.abs(left).max() <= unit * 8 * size
            rest = exact @ v - v * w[:, None, :]
            assert (np.abs(rest) <= most[..., None]).all()


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (31, 31), (48, 7)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_qr(shape: tuple[int, int], dtype: str, quick: GpuDevice) -> None:
    if dtype == "float64" and (shape[0] > 32 or not quick.gpu.info.shader_float64):
        pytest.skip("the host's")
    rng = np.random.default_rng(shape[0])
    for scale in (1.0, 1e-30, 1e30):
        data = (scale * rng.standard_normal((4, *shape))).astype(dtype)
        data[0, 0, 0] = 0
        data[1, :, 0] = 0
        data[2] = 0
        data[3] = np.triu(data[3])
        x = fw.tensor(data, device=quick)
        reads = quick.gpu.counters.host_reads
        q, r = fw.linalg.qr(x)
        fw.eval(q, r)
        assert quick.gpu.counters.host_reads == reads
        q, r, exact = q.numpy(), r.numpy(), data.astype("f8")
        most = np.finfo(dtype).eps * 8 * shape[0]
        left = np.swapaxes(q, 1, 2) @ q - np.eye(shape[1])
        assert np.abs(left).max() <= most
        assert np.abs(q.astype("f8") @ r - exact).max() <= most * np.abs(data).max()
        assert not np.tril(r, -1).any()
        # The signs are LAPACK's, by which a factor is the same everywhere.
        wanted = np.linalg.qr(data)[1]
        found, signs = (np.sign(np.diagonal(each, 0, 1, 2)) for each in (r, wanted))
        np.testing.assert_array_equal(found[[0, 3]], signs[[0, 3]])


def test_what_is_no_number(quick: GpuDevice) -> None:
    data = np.ones((2, 4, 4), "f4")
    data[0, 2, 1] = np.nan
    r = fw.linalg.qr(fw.tensor(data, device=quick)).R
    assert np.isnan(r.numpy()[0]).any()
    assert np.isfinite(r.numpy()[1]).all()
    values = fw.linalg.eigvalsh(fw.tensor(data, device=quick)).numpy()
    assert np.isnan(values[0]).any()
    np.testing.assert_allclose(values[1], [0, 0, 0, 4], atol=1e-6)


def of_ranks(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
    """Return matrices of all kinds of singular values, few of them apart from 0."""
    graded = rng.standard_normal((m, n)) * np.logspace(0, -12, n)
    outer = rng.standard_normal((m, 1)) @ rng.standard_normal((1, n))
    equal, tiny = np.eye(m, n), np.eye(m, n)
    tiny[min(m, n) // 2 :] *= 1e-20
    drawn = rng.standard_normal((m, n))
    return np.stack([drawn, outer, 0 * outer, equal, 0 * outer + 1, graded, tiny])


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (7, 3), (31, 31), (9, 48)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_singular_vectors(shape: tuple[int, int], dtype: str, quick: GpuDevice) -> None:
    small = max(shape) <= (48 if dtype == "float32" else 32)
    if not small or (dtype == "float64" and not quick.gpu.info.shader_float64):
        pytest.skip("the host's")
    k, eps = min(shape), np.finfo(dtype).eps
    for scale in (1.0, 1e-30, 1e30):
        data = (scale * of_ranks(np.random.default_rng(0), *shape)).astype(dtype)
        x = fw.tensor(data, device=quick)
        reads = quick.gpu.counters.host_reads
        u, s, vh = fw.linalg.svd(x, full_matrices=False)
        fw.eval(u, s, vh)
        assert quick.gpu.counters.host_reads == reads
        u, s, vh = (each.numpy().astype("f8") for each in (u, s, vh))
        exact = data.astype("f8")
        size = np.linalg.norm(exact, axis=(1, 2))
        assert (np.diff(s) <= 0).all()
        wanted = np.linalg.svd(exact, compute_uv=False)
        assert (np.abs(s - wanted).max(1) <= 16 * eps * size).all()
        rest = u * s[:, None, :] @ vh - exact
        assert (np.abs(rest).max((1, 2)) <= 16 * eps * size).all()
        for each in (np.swapaxes(u, 1, 2), vh):
            beside = each @ np.swapaxes(each, 1, 2) - np.eye(k)
            assert np.abs(beside).max() <= 32 * eps


def test_what_singular_values_make(quick: GpuDevice) -> None:
    data = np.random.default_rng(0).standard_normal((2, 9, 6)).astype("f4")
    data[1, :, 3] = data[1, :, 2]
    x = fw.tensor(data, device=quick)
    reads = quick.gpu.counters.host_reads
    rank, inverse = fw.linalg.matrix_rank(x), fw.linalg.pinv(x)
    size, nuclear = fw.linalg.cond(x[0]), fw.linalg.matrix_norm(x, "nuc")
    fw.eval(rank, inverse, size, nuclear)
    assert quick.gpu.counters.host_reads == reads
    assert rank.tolist() == [6, 5]
    np.testing.assert_allclose(inverse.numpy(), np.linalg.pinv(data), atol=1e-5)
    np.testing.assert_allclose(size.numpy(), np.linalg.cond(data[0]), rtol=1e-5)
    wanted = np.linalg.norm(data, "nuc", axis=(1, 2))
    np.testing.assert_allclose(nuclear.numpy(), wanted, rtol=1e-5)
    data[1, 3, 3] = np.nan
    values = fw.linalg.svdvals(fw.tensor(data, device=quick)).numpy()
    assert np.isnan(values).all(1).tolist() == [False, True]
