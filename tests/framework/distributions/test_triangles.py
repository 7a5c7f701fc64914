"""Triangles as vectors, against PyTorch."""

import pytest
import torch
from torch.distributions import utils as theirs

import vkbackend.framework as fw
from vkbackend.framework.distributions import utils as ours


@pytest.mark.parametrize(("count", "diag"), [(6, 0), (1, 0), (3, -1), (10, -2), (8, 1)])
def test_triangles(count: int, diag: int) -> None:
    vec = torch.arange(2.0 * count).reshape(2, count)
    wanted = theirs.vec_to_tril_matrix(vec, diag)
    found = ours.vec_to_tril_matrix(fw.tensor(vec.numpy()), diag)
    assert found.tolist() == wanted.tolist()
    assert ours.tril_matrix_to_vec(found, diag).tolist() == vec.tolist()


def test_what_is_no_triangle() -> None:
    with pytest.raises(ValueError, match="vec has 5 elements, which fill no triangle"):
        ours.vec_to_tril_matrix(fw.zeros(5))
    with pytest.raises(ValueError, match="diag is 3; it must be from -3 to 2"):
        ours.tril_matrix_to_vec(fw.zeros(3, 3), 3)


def test_sums_and_normal_numbers() -> None:
    x = fw.arange(24.0).reshape(2, 3, 4)
    wanted = theirs._sum_rightmost(torch.arange(24.0).reshape(2, 3, 4), 2)
    assert ours._sum_rightmost(x, 2).tolist() == wanted.tolist()
    made = ours._standard_normal((500,), fw.float64, "cpu")
    assert (made.shape, made.dtype) == ((500,), fw.float64)
    assert abs(float(made.std()) - 1) < 0.2
