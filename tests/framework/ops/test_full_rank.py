"""Pseudo-inverses, ranks and least squares of full rank by kernels, beside NumPy's."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.full_rank import full_rank
from vkbackend.framework.ops.reduce.common import place_dtype

wide = pytest.mark.wide
MORE = (2, 70, 70), (60, 150), (2, 130, 66)
SHAPES = [(60, 60), (150, 60), *(pytest.param(each, marks=wide) for each in MORE)]
SIZE = 60


def turns(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((size, size)))[0]


def inverted(x: Any, atol: float, rtol: float) -> Any:
    """Return the inverses of matrices, if no singular value is cut."""
    return full_rank(x, atol, rtol, lambda found: (found.inverse,))


def with_values(values: np.ndarray, rows: int = SIZE) -> np.ndarray:
    """Return (rows, n) of n singular values."""
    rng = np.random.default_rng(rows)
    return turns(rng, rows)[:, : len(values)] * values @ turns(rng, len(values))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=wide)])
def test_no_singular_values_are_found(
    shape: tuple[int, ...], dtype: str, quick: GpuDevice
) -> None:
    if dtype == "float64" and not quick.gpu.info.shader_float64:
        pytest.skip("no float64")
    rng = np.random.default_rng(shape[-1])
    for scale in (1.0, 1e30, 1e-30):
        data = (scale * rng.standard_normal(shape)).astype(dtype)
        side = rng.standard_normal((*shape[:-1], 5)).astype(dtype)
        x, b = (fw.tensor(each, device=quick) for each in (data, side))
        reads = quick.gpu.counters.host_reads
        inverse, rank = fw.linalg.pinv(x), fw.linalg.matrix_rank(x)
        solved = fw.linalg.lstsq(x, b)
        vector = fw.linalg.lstsq(x, b[..., 0].contiguous()).solution
        fw.eval(inverse, rank, vector, *solved)
        assert quick.gpu.counters.host_reads == reads + 4  # whether one may be cut
        exact = np.linalg.pinv(data.astype("f8"))
        most = 20 * np.finfo(dtype).eps * np.linalg.cond(data.astype("f8")).max()
        wanted = exact @ side
        for found, right in (
            (inverse, exact), (solved.solution, wanted), (vector, wanted[..., 0])
        ):  # fmt: skip
            assert np.abs(found.numpy() - right).max() <= most * np.abs(right).max()
        full = np.full(shape[:-2], min(shape[-2:]))
        np.testing.assert_array_equal(rank.numpy(), full)
        np.testing.assert_array_equal(solved.rank.numpy(), full)
        assert rank.dtype is solved.rank.dtype is place_dtype(x)


@pytest.mark.parametrize("rows", [SIZE, 150])
@pytest.mark.parametrize("least", [1e-9, 1e-6, 1e-5, 1e-4, 1e-2])
def test_values_near_the_tolerance(rows: int, least: float, quick: GpuDevice) -> None:
    values = np.linspace(1, 2, SIZE)
    values[-1] = least
    data = with_values(values, rows).astype("f4")
    x, rtol = fw.tensor(data, device=quick), SIZE * float(np.finfo("f4").eps)
    for more in (0.0, 1e-5, 1e-3):
        is_cut = least <= 2 * max(more, rtol)
        found = inverted(x, 0.0, max(more, rtol))
        assert not (is_cut and found)
        assert found or least < 100 * max(more, rtol)
        rank = fw.linalg.matrix_rank(x, rtol=max(more, rtol))
        if not 0.5 < least / 2 / max(more, rtol) < 2:
            assert rank.item() == SIZE - is_cut
    assert inverted(x, 2 * least, 0.0) is None
    # Tolerances below the rounding cut nothing, but such an inverse is not exact.
    assert bool(inverted(x, 0.0, 0.0)) == (least > 2e-5)


@pytest.mark.parametrize("shape", [(SIZE, SIZE), (2, 90, SIZE), (SIZE, 90)])
def test_matrices_without_full_rank(shape: tuple[int, ...], quick: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    data = rng.standard_normal(shape).astype("f4")
    equal, zero = data.copy(), 0 * data
    last = equal if len(shape) == 2 else equal[1]
    if shape[-2] < shape[-1]:
        last[3] = last[2]
    else:
        last[:, 3] = last[:, 2]
    for each in (equal, zero):
        x = fw.tensor(each, device=quick)
        assert inverted(x, 0.0, 0.0) is None
        np.testing.assert_array_equal(
            fw.linalg.matrix_rank(x).numpy(), np.linalg.matrix_rank(each)
        )
        wanted = np.linalg.pinv(each.astype("f8"), 1e-5)
        np.testing.assert_allclose(fw.linalg.pinv(x).numpy(), wanted, atol=1e-4)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_no_numbers(number: float, quick: GpuDevice) -> None:
    data = np.random.default_rng(0).standard_normal((90, SIZE)).astype("f4")
    data[5, 7] = number
    for each in (data, data[:SIZE]):
        assert inverted(fw.tensor(each, device=quick), 0.0, 1e-6) is None


def test_growth_of_lu_factors_is_seen(quick: GpuDevice) -> None:
    # Wilkinson's matrix: elements of U grow to 2^(n - 1), and the condition is small.
    data = np.eye(SIZE) - np.tril(np.ones((SIZE, SIZE)), -1)
    data[:, -1] = np.random.default_rng(0).uniform(0.5, 1, SIZE)
    data = data.astype("f4")
    x, exact = fw.tensor(data, device=quick), np.linalg.pinv(data.astype("f8"))
    assert np.abs(fw.linalg.inv(x).numpy() - exact).max() > 0.1 * np.abs(exact).max()
    assert inverted(x, 0.0, 1e-6) is None
    found = fw.linalg.pinv(x).numpy()
    assert np.abs(found - exact).max() <= 1e-4 * np.abs(exact).max()


@pytest.mark.parametrize("shape", [(SIZE, SIZE), (90, SIZE), (SIZE, 90)])
def test_gradients(shape: tuple[int, ...], quick: GpuDevice) -> None:
    rng = np.random.default_rng(1)
    data = with_values(np.linspace(1, 4, SIZE), max(shape)).astype("f4")
    data = np.ascontiguousarray(data if shape[0] == max(shape) else data.T)
    side = rng.standard_normal((shape[0], 3)).astype("f4")
    places: list[Any] = []
    for library, where in ((fw, {"device": quick}), (torch, {})):
        lib: Any = library
        x = lib.tensor(data, requires_grad=True, **where)
        b = lib.tensor(side, requires_grad=True, **where)
        (
            lib.linalg.lstsq(x, b, driver="gels" if lib is fw else "gelsd")[0] ** 2
        ).sum().backward()
        (lib.linalg.pinv(x).sin() ** 2).sum().backward()
        places.append((x.grad.numpy(), b.grad.numpy()))
    for found, wanted in zip(*places):
        np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())


def test_for_each_of_a_batch_that_is_mapped(quick: GpuDevice) -> None:
    data = np.random.default_rng(2).standard_normal((2, SIZE, SIZE)).astype("f4")
    x = fw.tensor(data, device=quick)
    found = fw.func.vmap(fw.linalg.pinv)(x)
    assert np.abs(found.numpy() @ data - np.eye(SIZE)).max() < 1e-2
    assert fw.func.vmap(fw.linalg.matrix_rank)(x).tolist() == [SIZE, SIZE]


@pytest.mark.wide
@pytest.mark.parametrize("shape", [(SIZE, SIZE), (2, 90, SIZE), (SIZE, 150)])
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=wide)])
def test_norms_without_singular_values(
    shape: tuple[int, ...], dtype: str, quick: GpuDevice
) -> None:
    if dtype == "float64" and not quick.gpu.info.shader_float64:
        pytest.skip("no float64")
    eps = np.finfo(dtype).eps
    drawn = np.random.default_rng(5).standard_normal(shape)
    equal = np.zeros(shape) + np.eye(*shape[-2:])
    for data, most in (
        (drawn, 30),
        (1e30 * drawn, 30),
        (1e-30 * drawn, 30),
        (equal, 8),
    ):
        data = data.astype(dtype)
        x = fw.tensor(data, device=quick)
        reads = quick.gpu.counters.host_reads
        largest = fw.linalg.matrix_norm(x, 2)
        fw.eval(largest)
        assert quick.gpu.counters.host_reads == reads
        least, size = fw.linalg.matrix_norm(x, -2), fw.linalg.cond(x)
        inverse = fw.linalg.cond(x, -2)
        fw.eval(least, size, inverse)
        assert quick.gpu.counters.host_reads == reads + 3  # whether one is singular
        s = np.linalg.svd(data.astype("f8"), compute_uv=False)
        high, low = s[..., 0], s[..., -1]
        np.testing.assert_allclose(largest.numpy(), high, rtol=most * eps)
        for found, wanted in ((least, low), (size, high / low), (inverse, low / high)):
            worst = float((most * eps * high / low).max())
            np.testing.assert_allclose(found.numpy(), wanted, rtol=worst)


def test_norms_of_singular_matrices_and_no_numbers(quick: GpuDevice) -> None:
    zero = fw.zeros(SIZE, SIZE, device=quick)
    assert fw.linalg.matrix_norm(zero, 2).item() == 0
    assert fw.linalg.matrix_norm(zero, -2).item() == 0
    one = fw.ones(2, SIZE, 90, device=quick)
    found = fw.linalg.matrix_norm(one, 2).numpy()
    np.testing.assert_allclose(found, (90 * SIZE) ** 0.5, rtol=1e-6)
    assert fw.linalg.cond(one).min().item() > 1e6
    bad = fw.zeros(SIZE, SIZE, device=quick) * np.nan
    assert np.isnan(fw.linalg.matrix_norm(bad, 2).item())


def test_gradients_of_norms_are_those_of_singular_values(quick: GpuDevice) -> None:
    data = np.random.default_rng(6).standard_normal((SIZE, SIZE)).astype("f4")
    x = fw.tensor(data, device=quick, requires_grad=True)
    given = torch.tensor(data, requires_grad=True)
    fw.linalg.matrix_norm(x, 2).backward()
    torch.linalg.matrix_norm(given, 2).backward()
    assert x.grad is not None
    assert given.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), given.grad.numpy(), atol=1e-4)
