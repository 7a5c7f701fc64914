"""Solutions by factors and pivots: either factor's gradient, and dispatches."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import Device, GpuDevice


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_gradients_of_batches(left: bool, adjoint: bool, place: Device) -> None:
    rng = np.random.default_rng(0)
    matrices = rng.standard_normal((3, 5, 5)) / 5 + np.eye(5)[rng.permutation(5)]
    factors, pivots = torch.linalg.lu_factor(torch.tensor(matrices))
    side = rng.standard_normal((5, 2) if left else (2, 5))
    theirs = [factors.clone().requires_grad_(), torch.tensor(side, requires_grad=True)]
    options = {"left": left, "adjoint": adjoint}
    wanted = torch.linalg.lu_solve(theirs[0], pivots, theirs[1], **options)
    (wanted**2).sum().backward()
    ours = [
        fw.tensor(each.detach().float().numpy(), device=place, requires_grad=True)
        for each in theirs
    ]
    numbers = fw.tensor(pivots.numpy(), device=place)
    found = fw.linalg.lu_solve(ours[0], numbers, ours[1], **options)
    (found**2).sum().backward()
    assert_close(found, wanted.detach().float().numpy(), scale=50)
    for one, other in zip(ours, theirs):
        assert other.grad is not None
        assert_close(one.grad, other.grad.float().numpy(), scale=200)


@pytest.mark.parametrize(("size", "most"), [(48, 3), (130, 4)])
def test_dispatches(size: int, most: int, quick: GpuDevice) -> None:
    both = fw.rand(size, size, device=quick) + size * fw.eye(size, device=quick)
    pivots = fw.full((size,), size, dtype=fw.int32, device=quick)
    b = fw.rand(size, 3, device=quick)
    fw.eval(both, pivots, b)
    before = quick.gpu.counters.dispatches
    fw.eval(fw.linalg.lu_solve(both, pivots, b))
    assert quick.gpu.counters.dispatches - before <= most


def test_the_host_solves_in_one_step(gpu: GpuDevice) -> None:
    if gpu.gpu.info.target.cheap_barriers:
        pytest.skip("kernels solve")
    both = fw.eye(4, device=gpu) * 2
    pivots, b = fw.full((4,), 4, dtype=fw.int32, device=gpu), fw.ones(4, 2, device=gpu)
    fw.eval(both, pivots, b)
    before = gpu.gpu.counters.snapshot()
    found = fw.linalg.lu_solve(both, pivots, b)
    since = gpu.gpu.counters.snapshot() - before
    assert (since.dispatches, since.host_reads) == (0, 3)
    assert found.numpy().tolist() == [[0.5, 0.5]] * 4


def test_rows_that_differ_are_refused() -> None:
    pivots = fw.ones(3, dtype=fw.int32)
    with pytest.raises(ValueError, match=r"lu_solve: LU is \(3, 3\), B \(2, 1\)"):
        fw.linalg.lu_solve(fw.eye(3), pivots, fw.ones(2, 1))
