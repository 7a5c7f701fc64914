"""Solutions and inverses by kernels, beside PyTorch's."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import LinAlgError
from vkbackend.framework.ir.kernel_call import MAX_GROUPS
from vkbackend.framework.kernels import linalg
from vkbackend.framework.ops import lu_solution, triangular

wide = pytest.mark.wide
SHAPES = [
    (1, 1), (48, 48), (2, 70, 70),
    *(pytest.param(each, marks=wide) for each in ((5, 5), (3, 33, 33), (150, 150))),
]  # fmt: skip


def check(shape: tuple[int, ...], columns: int, dtype: str, place: GpuDevice) -> None:
    """Check a solution, its gradients and an inverse by what they leave over."""
    rng = np.random.default_rng(shape[-1])
    size, eps = shape[-1], np.finfo(dtype).eps
    a = (rng.standard_normal(shape) + 2 * size**0.5 * np.eye(size)).astype(dtype)
    a = a[..., rng.permutation(size), :]
    b = rng.standard_normal((*shape[:-1], columns)).astype(dtype)
    x, y = (fw.tensor(each, device=place, requires_grad=True) for each in (a, b))
    given = [torch.tensor(each.astype("f8"), requires_grad=True) for each in (a, b)]
    reads = place.gpu.counters.host_reads
    found, wanted = fw.linalg.solve(x, y), torch.linalg.solve(*given)
    seed = rng.standard_normal(b.shape).astype(dtype)
    found.backward(fw.tensor(seed, device=place))
    wanted.backward(torch.tensor(seed.astype("f8")))
    inverse = fw.linalg.inv(x.detach())
    fw.eval(x.grad, y.grad, inverse)
    assert place.gpu.counters.host_reads == reads + 2  # whether one is singular
    assert x.grad is not None
    assert y.grad is not None
    most = 50 * size * eps
    for ours, theirs in (
        (found, wanted),
        (x.grad, given[0].grad),
        (y.grad, given[1].grad),
        (inverse, torch.linalg.inv(given[0])),
    ):
        assert theirs is not None
        exact = theirs.detach().numpy()
        error = np.abs(ours.detach().numpy() - exact).max()
        assert error <= most * np.abs(exact).max()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("columns", [3, pytest.param(60, marks=wide)])
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=wide)])
def test_solutions(
    shape: tuple[int, ...], columns: int, dtype: str, quick: GpuDevice
) -> None:
    if dtype == "float64" and not quick.gpu.info.shader_float64:
        pytest.skip("no float64")
    check(shape, columns, dtype, quick)


@pytest.mark.wide
def test_blocks_beside_each_other(
    quick: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triangular, "BLOCK", 32)
    for columns in (3, 40):
        check((2, 70, 70), columns, "float32", quick)


def test_many_systems_are_no_steps(
    quick: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (lu_solution, linalg, triangular):
        monkeypatch.setattr(module, "STEPPED", 2)
    check((2, 70, 70), 3, "float32", quick)


@pytest.mark.parametrize("size", [7, 60])
def test_singular_and_no_numbers(size: int, quick: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((3, size, size)).astype("f4")
    data[1, :, 2] = 0
    x, b = fw.tensor(data, device=quick), fw.ones(3, size, 1, device=quick)
    with pytest.raises(LinAlgError, match="is singular"):
        fw.linalg.solve(x, b)
    with pytest.raises(LinAlgError, match="is singular"):
        fw.linalg.inv(x)
    found, info = fw.linalg.inv_ex(x)
    assert info.tolist() == [0, 3, 0]
    assert np.isnan(found.numpy()).all((1, 2)).tolist() == [False, True, False]
    data[1, 3, 3] = np.nan
    data[1, :, 2] = 1
    found = fw.linalg.inv(fw.tensor(data, device=quick))
    assert np.isnan(found.numpy()).any((1, 2)).tolist() == [False, True, False]


@pytest.mark.parametrize("size", [7, 60])
def test_unchecked_results_wait_for_nothing(size: int, quick: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    data = (rng.standard_normal((2, 3, size, size)) + 9 * np.eye(size)).astype("f4")
    data[1, 2, :, 4] = 0
    side = rng.standard_normal((3, size, 2)).astype("f4")
    x = fw.tensor(data, device=quick, requires_grad=True)
    b = fw.tensor(side, device=quick)
    fw.eval(x, b)
    reads = quick.gpu.counters.host_reads
    inverse, bad = fw.linalg.inv_ex(x)
    solved, also_bad = fw.linalg.solve_ex(x, b)
    beside, own = fw.linalg.solve_ex(x[0, 0], b)
    across, _ = fw.linalg.solve_ex(x, fw.linalg.inv_ex(x)[0].detach(), left=False)
    inverse[0].sum().backward()
    assert x.grad is not None
    fw.eval(inverse, bad, solved, also_bad, beside, own, across, x.grad)
    assert quick.gpu.counters.host_reads == reads
    assert bad.tolist() == also_bad.tolist() == [[0, 0, 0], [0, 0, 5]]
    assert own.shape == ()
    assert own.item() == 0
    good = data.astype("f8")
    good[1, 2] = np.eye(size)
    regular = np.asarray(bad.numpy()) == 0
    for found, wanted in (
        (inverse, np.linalg.inv(good)),
        (solved, np.linalg.solve(good, np.broadcast_to(side, (2, *side.shape)))),
        (across, np.linalg.inv(good @ good)),
    ):
        assert np.isnan(found.detach().numpy()[1, 2]).all()
        most = 1e-4 * np.abs(wanted).max()
        np.testing.assert_allclose(
            found.detach().numpy()[regular], wanted[regular], atol=most
        )
    exact = torch.tensor(good[0], requires_grad=True)
    torch.linalg.inv(exact).sum().backward()
    assert exact.grad is not None
    np.testing.assert_allclose(x.grad.numpy()[0], exact.grad, atol=1e-4)


def test_checks_are_in_the_submission_of_the_result(quick: GpuDevice) -> None:
    data = np.random.default_rng(0).standard_normal((70, 70)).astype("f4")
    x, counters = fw.tensor(data, device=quick), quick.gpu.counters
    for call in (fw.linalg.inv, lambda a: fw.linalg.solve(a, a)):
        found = call(x)
        before = counters.submits + counters.resubmits
        fw.eval(found)
        assert counters.submits + counters.resubmits == before


@pytest.mark.parametrize("size", [7, 60])
def test_checks_of_a_batch_that_is_mapped(size: int, quick: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    data = (rng.standard_normal((3, size, size)) + 9 * np.eye(size)).astype("f4")
    x, vmap = fw.tensor(data, device=quick), fw.func.vmap
    inverse = np.linalg.inv(data.astype("f8"))
    for found in (
        vmap(fw.linalg.inv)(x),
        vmap(lambda a: fw.linalg.solve(a, fw.eye(size, device=quick)))(x),
        vmap(lambda a: fw.linalg.inv_ex(a).inverse)(x),
    ):
        np.testing.assert_allclose(found.numpy(), inverse, atol=1e-5)
    lower = vmap(lambda a: fw.linalg.cholesky(a @ a.mT))(x).numpy()
    wanted = np.linalg.cholesky(data @ np.swapaxes(data, 1, 2))
    np.testing.assert_allclose(lower, wanted, atol=1e-3)
    data[1, :, 2] = 0
    bad = fw.tensor(data, device=quick)
    for call in (fw.linalg.inv, lambda a: fw.linalg.solve(a, a)):
        with pytest.raises(LinAlgError, match="is singular"):
            vmap(call)(bad)


@pytest.mark.parametrize("size", [7, 60])
def test_second_derivatives(size: int, quick: GpuDevice) -> None:
    rng = np.random.default_rng(size)
    a = (rng.standard_normal((size, size)) + 9 * np.eye(size)).astype("f4")
    b = rng.standard_normal((size, 2)).astype("f4")

    def second(library: object, x: object, y: object) -> np.ndarray:
        lib: Any = library
        first = lib.func.grad(lambda p: (lib.linalg.solve(p, y) ** 2).sum())
        found = lib.func.grad(lambda p: (first(p) * p.sin()).sum())(x)
        return np.asarray(found.numpy())

    ours = second(fw, *(fw.tensor(each, device=quick) for each in (a, b)))
    theirs = second(torch, torch.tensor(a), torch.tensor(b))
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max())


@pytest.mark.wide
def test_more_small_matrices_than_workgroups_of_a_dimension(quick: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    data = (rng.standard_normal((MAX_GROUPS + 2, 2, 2)) + 4 * np.eye(2)).astype("f4")
    definite = data @ np.swapaxes(data, 1, 2)
    x, y = (fw.tensor(each, device=quick) for each in (data, definite))
    reads = quick.gpu.counters.host_reads
    inverse, lower, det = fw.linalg.inv(x), fw.linalg.cholesky(y), fw.linalg.det(x)
    values = fw.linalg.svdvals(x)
    fw.eval(inverse, lower, det, values)
    assert quick.gpu.counters.host_reads == reads + 2  # whether one is bad
    wanted = np.linalg.inv(data.astype("f8"))
    most = 1e-5 * np.abs(wanted).max((1, 2)) * np.linalg.cond(data)
    assert (np.abs(inverse.numpy() - wanted).max((1, 2)) <= most).all()
    again = lower.numpy() @ np.swapaxes(lower.numpy(), 1, 2)
    np.testing.assert_allclose(again, definite, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(det.numpy(), np.linalg.det(data), rtol=1e-3, atol=1e-3)
    exact = np.linalg.svd(data, compute_uv=False)
    np.testing.assert_allclose(values.numpy(), exact, rtol=1e-3, atol=1e-5)
