"""Triangular systems and Cholesky factors by kernels, beside PyTorch's."""

import dataclasses

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import LinAlgError
from vkbackend.framework.kernels import linalg
from vkbackend.framework.ops import host_checks, triangular

wide = pytest.mark.wide
SIZES = [1, 9, 33, 70, *(pytest.param(n, marks=wide) for n in (32, 64, 65, 128, 200))]


def drawn(batch: tuple[int, ...], size: int, columns: int) -> list[np.ndarray]:
    rng = np.random.default_rng(size)
    a = rng.standard_normal((*batch, size, size)).astype("f4") / (4 * size**0.5)
    b = rng.standard_normal((*batch, size, columns)).astype("f4")
    return [a + np.eye(size, dtype="f4"), b]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("at_once", [linalg.EDGE, linalg.MOST_AT_ONCE])
def test_triangular_systems(
    size: int,
    upper: bool,
    unit: bool,
    at_once: int,
    quick: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one launch, and in steps that each spread what is left over the device."""
    monkeypatch.setattr(linalg, "MOST_AT_ONCE", at_once)
    quick.plans.clear()
    for batch, columns in (((), 1), ((2, 2), 40)):
        a, b = drawn(batch, size, columns)
        wanted = torch.linalg.solve_triangular(
            torch.tensor(a), torch.tensor(b), upper=upper, unitriangular=unit
        )
        # The other triangle is not read.
        other = np.tril(np.full_like(a, np.nan), -1)
        given = a + (other if upper else np.swapaxes(other, -1, -2))
        reads = quick.gpu.counters.host_reads
        found = fw.linalg.solve_triangular(
            fw.tensor(given, device=quick),
            fw.tensor(b, device=quick),
            upper=upper,
            unitriangular=unit,
        )
        fw.eval(found)
        assert quick.gpu.counters.host_reads == reads
        assert_close(found, wanted.numpy(), scale=10)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_factors(size: int, upper: bool, quick: GpuDevice) -> None:
    for batch in ((), (3,)):
        (a, _) = drawn(batch, size, 1)
        data = a @ np.swapaxes(a, -1, -2)
        x = fw.tensor(data, device=quick, requires_grad=True)
        wanted_x = torch.tensor(data, requires_grad=True)
        found = fw.linalg.cholesky(x, upper=upper)
        wanted = torch.linalg.cholesky(wanted_x, upper=upper)
        assert_close(found, wanted.detach().numpy(), scale=10)
        seed = np.random.default_rng(1).standard_normal(data.shape).astype("f4")
        found.backward(fw.tensor(seed, device=quick))
        wanted.backward(torch.tensor(seed))
        assert x.grad is not None
        assert wanted_x.grad is not None
        assert_close(x.grad, wanted_x.grad.numpy(), scale=100)


@pytest.mark.parametrize("place", [0, 40, 69])
def test_what_is_not_positive_definite(place: int, quick: GpuDevice) -> None:
    data = np.eye(70, dtype="f4")
    data[place, place] = -1
    x = fw.tensor(np.stack([np.eye(70, dtype="f4"), data]), device=quick)
    with pytest.raises(LinAlgError, match="not positive-definite"):
        fw.linalg.cholesky(x)
    reads = quick.gpu.counters.host_reads
    for upper in (False, True):
        found, places = fw.linalg.cholesky_ex(x, upper=upper)
        fw.eval(found, places)
        assert quick.gpu.counters.host_reads == reads
        assert places.tolist() == [0, place + 1]
        assert np.isnan(found.numpy()).all((1, 2)).tolist() == [False, True]
        reads = quick.gpu.counters.host_reads
    assert fw.jit(lambda x: fw.linalg.cholesky_ex(x).info)(x).tolist() == [0, place + 1]


def test_of_many_matrices_one_flag_is_read(
    quick: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_checks, "FEW", 64)
    data = np.tile(np.eye(2, dtype="f4"), (65, 1, 1))
    x = fw.tensor(data, device=quick)
    before = quick.gpu.counters.host_read_bytes
    fw.linalg.cholesky(x)
    assert quick.gpu.counters.host_read_bytes - before <= 4
    data[64, 1, 1] = -1
    with pytest.raises(LinAlgError, match="not positive-definite"):
        fw.linalg.cholesky(fw.tensor(data, device=quick))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_pivots_are_those_of_lapack(
    size: int, batch: tuple[int, ...], quick: GpuDevice
) -> None:
    rng = np.random.default_rng(size)
    data = rng.standard_normal((*batch, size, size)).astype("f4")
    x = fw.tensor(data, device=quick, requires_grad=True)
    given = torch.tensor(data, requires_grad=True)
    reads = quick.gpu.counters.host_reads
    both, pivots = fw.linalg.lu_factor(x)
    p, lower, upper = fw.linalg.lu(x)
    fw.eval(both, pivots, p)
    assert quick.gpu.counters.host_reads == reads
    wanted, places = torch.linalg.lu_factor(given)
    np.testing.assert_array_equal(pivots.numpy(), places.numpy())
    np.testing.assert_array_equal(p.numpy(), torch.linalg.lu(given)[0].detach())
    error = np.abs((p @ lower @ upper).detach().numpy() - data).max()
    assert error < 4e-7 * size * np.abs(data).max()
    if size <= 70:
        both.sum().backward()
        wanted.sum().backward()
        assert x.grad is not None
        assert given.grad is not None
        scale = float(given.grad.abs().max())
        np.testing.assert_allclose(
            x.grad.numpy(), given.grad.numpy(), rtol=1e-2, atol=1e-3 * scale
        )


@pytest.mark.parametrize("shuffles", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_of_equal_pivots_the_first_is_taken(
    dtype: str, shuffles: bool, quick: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = quick.gpu.info
    if not info.subgroup_shuffle or (dtype == "float64" and not info.shader_float64):
        pytest.skip("no arithmetic")
    target = dataclasses.replace(info.target, fast_shuffles=shuffles)
    monkeypatch.setitem(info.__dict__, "target", target)
    data = np.random.default_rng(0).standard_normal((2, 70, 70)).astype(dtype)
    data[1, :, 3:5] = 0
    data[1, 60, 4] = np.inf
    found = fw.linalg.lu_factor(fw.tensor(data, device=quick))
    wanted = torch.linalg.lu_factor_ex(torch.tensor(data))
    np.testing.assert_array_equal(found[1][0].numpy(), wanted[1][0].numpy())
    np.testing.assert_array_equal(found[1][1, :5].numpy(), wanted[1][1, :5].numpy())
    data[:, 1:, 1:] = np.nan
    pivots = fw.linalg.lu_factor(fw.tensor(data, device=quick))[1]
    np.testing.assert_array_equal(pivots[:, 1:].numpy(), [np.arange(2, 71)] * 2)


@pytest.mark.wide
def test_more_rows_than_invocations(
    quick: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linalg, "PANEL_WORKGROUP", 32)
    data = np.random.default_rng(0).standard_normal((2, 100, 100)).astype("f4")
    x = fw.tensor(data, device=quick)
    found = fw.linalg.lu_factor(x)
    wanted = torch.linalg.lu_factor(torch.tensor(data))
    np.testing.assert_array_equal(found[1].numpy(), wanted[1].numpy())
    assert_close(found[0], wanted[0].numpy(), scale=1000)


@pytest.mark.parametrize("size", [5, 70, pytest.param(200, marks=wide)])
def test_float64(size: int, quick: GpuDevice) -> None:
    if not quick.gpu.info.shader_float64:
        pytest.skip("no float64")
    rng = np.random.default_rng(size)
    data = rng.standard_normal((2, size, size))
    side = rng.standard_normal((2, size, 3))
    definite = data @ data.swapaxes(1, 2) + size * np.eye(size)
    a, b, c = (fw.tensor(each, device=quick) for each in (data, side, definite))
    lower = fw.linalg.cholesky(c)
    reads = quick.gpu.counters.host_reads
    both, pivots = fw.linalg.lu_factor(a)
    half = fw.linalg.solve_triangular(lower, b, upper=False)
    fw.eval(both, pivots, half)
    assert quick.gpu.counters.host_reads == reads
    wanted = torch.linalg.lu_factor(torch.tensor(data))
    np.testing.assert_array_equal(pivots.numpy(), wanted[1].numpy())
    np.testing.assert_allclose(both.numpy(), wanted[0].numpy(), atol=1e-10)
    factor = np.linalg.cholesky(definite)
    np.testing.assert_allclose(lower.numpy(), factor, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(half.numpy(), np.linalg.solve(factor, side), atol=1e-12)
    found = fw.linalg.solve(a, b).numpy()
    np.testing.assert_allclose(data @ found, side, atol=1e-10)


@pytest.mark.parametrize("upper", [False, True])
def test_large_systems_by_blocks(
    upper: bool, quick: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triangular, "BLOCK", 32)
    for batch, columns in (((), 3), ((2,), 40)):
        a, b = drawn(batch, 70, columns)
        other = np.tril(np.full_like(a, np.nan), -1)
        given = a + (other if upper else np.swapaxes(other, -1, -2))
        found = fw.linalg.solve_triangular(
            fw.tensor(given, device=quick), fw.tensor(b, device=quick), upper=upper
        )
        wanted = torch.linalg.solve_triangular(
            torch.tensor(a), torch.tensor(b), upper=upper
        )
        assert_close(found, wanted.numpy(), scale=10)


@pytest.mark.parametrize("size", SIZES)
def test_solutions_and_determinants(size: int, quick: GpuDevice) -> None:
    for batch in ((), (2, 2)):
        rng = np.random.default_rng(size)
        data = rng.standard_normal((*batch, size, size)).astype("f4")
        data[..., 0, 0] = 0 if size > 1 else 2  # which cannot be a pivot
        side = rng.standard_normal((*batch, size, 3)).astype("f4")
        a, b = (
            fw.tensor(each, device=quick, requires_grad=True) for each in (data, side)
        )
        found = fw.linalg.solve(a, b)
        exact = data.astype("f8")
        made = found.detach().numpy().astype("f8")
        # The error of a solution is one of the matrix (Golub and Van Loan, 3.4.6).
        rest = np.abs(exact @ made - side).max()
        assert (
            rest < 4e-7 * size**0.5 * np.abs(exact).sum(-1).max() * np.abs(made).max()
        )
        sign, log = fw.linalg.slogdet(a)
        wanted_sign, wanted_log = np.linalg.slogdet(exact)
        np.testing.assert_array_equal(sign.detach().numpy(), wanted_sign)
        assert_close(log, wanted_log.astype("f4"), scale=100)
        with np.errstate(over="ignore"):
            wanted = (wanted_sign * np.exp(wanted_log)).astype("f4")
        np.testing.assert_allclose(fw.linalg.det(a).detach().numpy(), wanted, rtol=1e-3)
        found.sum().backward()
        by_b = np.linalg.solve(np.swapaxes(exact, -1, -2), np.ones_like(made))
        assert b.grad is not None
        np.testing.assert_allclose(
            b.grad.numpy(), by_b, atol=1e-3 * np.abs(by_b).max(), rtol=1e-2
        )


@pytest.mark.parametrize(
    "data", [np.zeros((2, 2)), np.zeros((40, 40)), [[1, 2], [2, 4]]]
)
def test_singular_matrices(data: object, quick: GpuDevice) -> None:
    a = fw.tensor(np.asarray(data, "f4"), device=quick)
    with pytest.raises(LinAlgError, match="singular"):
        fw.linalg.solve(a, a)
    assert fw.linalg.det(a).item() == 0
    sign, log = fw.linalg.slogdet(a)
    assert (sign.item(), log.item()) == (0, -np.inf)


def test_a_traced_function_inverts(gpu: GpuDevice) -> None:
    invert = fw.jit(lambda a: (fw.linalg.inv(a), fw.linalg.det(a)))
    for seed in range(3):
        data = np.random.default_rng(seed).standard_normal((12, 12)).astype("f4")
        inverse, determinant = invert(fw.tensor(data, device=gpu))
        np.testing.assert_allclose(inverse.numpy() @ data, np.eye(12), atol=1e-4)
        np.testing.assert_allclose(
            determinant.item(), np.linalg.det(data.astype("f8")), rtol=1e-4
        )


def test_a_traced_function_solves(gpu: GpuDevice) -> None:
    solve = fw.jit(lambda a, b: fw.cholesky_solve(b, fw.linalg.cholesky(a)))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        a = rng.standard_normal((20, 20)).astype("f4")
        a = a @ a.T + 20 * np.eye(20, dtype="f4")
        b = rng.standard_normal((20, 3)).astype("f4")
        found = solve(fw.tensor(a, device=gpu), fw.tensor(b, device=gpu))
        np.testing.assert_allclose(found.numpy(), np.linalg.solve(a, b), atol=1e-5)
