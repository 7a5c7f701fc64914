"""Linear algebra at top level and in methods; `test_linalg` has the values."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import DTypeError, ShapeError


def test_twins() -> None:
    x = fw.tensor([[4.0, 1.0], [1.0, 3.0]])
    for name in ("det", "inverse", "cholesky", "pinverse", "matrix_exp", "logdet"):
        found = getattr(fw, name)(x)
        np.testing.assert_array_equal(found.numpy(), getattr(x, name)().numpy())
    assert fw.svd(x).V.shape == (2, 2)
    solved = fw.triangular_solve(fw.ones(2, 1), x).solution
    np.testing.assert_allclose(solved.numpy(), [[1 / 6], [1 / 3]], 1e-6)


def test_norms_are_over_one_dimension_or_two() -> None:
    with pytest.raises(ShapeError, match=r"dim is \(\); it must be one dimension or"):
        fw.linalg.norm(fw.ones(2, 3), dim=())


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, float("inf")])
def test_norms_are_of_floats(ord: Any, place: Device) -> None:
    whole = fw.tensor([[1, 2], [3, 4]], device=place)
    with pytest.raises(DTypeError, match="int64"):
        fw.linalg.matrix_norm(whole, ord)
    found = fw.linalg.matrix_norm(whole, ord, dtype=fw.float32)
    wanted = torch.linalg.matrix_norm(torch.tensor([[1.0, 2], [3, 4]]), ord)
    assert_close(found, wanted.numpy(), scale=4)


@pytest.mark.parametrize("shape", [(6, 6), (2, 90, 40), (70, 70)])
@pytest.mark.parametrize("count", [1, 4, None])
def test_reflections_are_multiplied_at_once(
    shape: tuple[int, ...], count: int | None, quick: GpuDevice
) -> None:
    rng = np.random.default_rng(0)
    vectors, sizes = torch.geqrf(torch.tensor(rng.standard_normal(shape)))
    given = [vectors, sizes[..., :count].clone()]
    given[1][..., 0] = 0  # no reflection
    ours = [
        fw.tensor(x.numpy().astype("f4"), device=quick, requires_grad=True)
        for x in given
    ]
    theirs = [x.requires_grad_() for x in given]
    before = quick.gpu.counters.dispatches
    found = fw.linalg.householder_product(*ours)
    fw.eval(found)
    assert quick.gpu.counters.dispatches - before < 10
    wanted = torch.linalg.householder_product(*theirs)
    seed = rng.standard_normal(shape)
    found.backward(fw.tensor(seed.astype("f4"), device=quick))
    wanted.backward(torch.tensor(seed))
    exact = wanted.detach().numpy()
    np.testing.assert_allclose(found.detach().numpy(), exact, 0, 1e-5)
    for one, two in zip(ours, theirs):
        assert one.grad is not None
        assert two.grad is not None
        np.testing.assert_allclose(one.grad.numpy(), two.grad, 1e-4, 1e-4)
