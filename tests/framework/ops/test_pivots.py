"""Permutations by pivots, and what is solved with them, on the device."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.pivots import host_order


@pytest.mark.parametrize("shape", [(5, 5), (3, 40, 40), (130, 130)])
def test_factors_and_solutions(shape: tuple[int, ...], quick: GpuDevice) -> None:
    rng = np.random.default_rng(shape[-1])
    size = shape[-1]
    # Of any size well conditioned: another order of additions is another rounding.
    data = rng.standard_normal(shape) / (2 * size**0.5) + np.eye(size)
    data = data[..., rng.permutation(size), :].astype("f4")
    side = rng.standard_normal((size, 3)).astype("f4")  # for the whole batch
    x, b = fw.tensor(data, device=quick), fw.tensor(side, device=quick)
    reads = quick.gpu.counters.host_reads
    factors = fw.linalg.lu(x)
    both, pivots = fw.linalg.lu_factor(x)
    unpacked = fw.lu_unpack(both, pivots)
    found = [
        fw.linalg.lu_solve(both, pivots, b),
        fw.linalg.lu_solve(both, pivots, b, adjoint=True),
        fw.linalg.lu_solve(both, pivots, b.mT, left=False),
    ]
    fw.eval(*factors, *unpacked, *found)
    assert quick.gpu.counters.host_reads == reads
    given, right = torch.tensor(data), torch.tensor(side)
    for three in (factors, unpacked):
        for ours, theirs in zip(three, torch.linalg.lu(given)):
            np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-4)
    made = torch.linalg.lu_factor(given)
    solved = [
        torch.linalg.lu_solve(*made, right),
        torch.linalg.lu_solve(*made, right, adjoint=True),
        torch.linalg.lu_solve(*made, right.mT, left=False),
    ]
    for ours, theirs in zip(found, solved):
        np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-4)


def test_gradients(quick: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    data, side = rng.standard_normal((6, 6)), rng.standard_normal((6, 2))
    for adjoint in (False, True):
        grads = []
        for library in (fw, torch):
            place = {"device": quick} if library is fw else {}
            a, b = (
                library.tensor(each.astype("f4"), **place).requires_grad_()
                for each in (data, side)
            )
            made = library.linalg.lu_factor(a)
            library.linalg.lu_solve(*made, b, adjoint=adjoint).sum().backward()
            grads.append([each.grad.numpy() for each in (a, b)])
        for ours, theirs in zip(*grads):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("needed", [False, True])
def test_factors_are_unpacked_by_two_dispatches(needed: bool, gpu: GpuDevice) -> None:
    both = fw.rand(2, 5, 5, device=gpu, requires_grad=needed)
    pivots = fw.full((2, 5), 5, dtype=fw.int32, device=gpu)
    fw.eval(both, pivots)
    before = gpu.gpu.counters.snapshot()
    found = fw.lu_unpack(both, pivots)
    fw.eval(*found)
    since = gpu.gpu.counters.snapshot() - before
    assert (since.dispatches, since.host_reads, since.uploads) == (2, 0, 0)
    if needed:
        (found.L * 2 + found.U * 3).sum().backward()
        assert found.P.grad_fn is None
        below = np.tril(np.ones((5, 5)), -1)
        np.testing.assert_array_equal(both.grad.numpy()[0], below * 2 + (1 - below) * 3)


@pytest.mark.parametrize("matrices", [1, 40])
def test_orders_of_few_and_of_many(matrices: int) -> None:
    """Rows of few matrices are exchanged one by one, of many by NumPy."""
    rng = np.random.default_rng(0)
    pivots = rng.integers(1, 7, (matrices, 4)).astype(np.int32)
    found = host_order("lu_unpack", fw.tensor(pivots), 6)
    for order, row in zip(found, pivots - 1):
        wanted = list(range(6))
        for j, at in enumerate(row):
            wanted[j], wanted[at] = wanted[at], wanted[j]
        assert order.tolist() == wanted
