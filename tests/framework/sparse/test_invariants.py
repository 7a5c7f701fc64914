"""Checks of places, off unless asked for."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.sparse import check_sparse_tensor_invariants


def test_a_block_checks_and_ends() -> None:
    def make() -> fw.Tensor:
        return fw.sparse_coo_tensor([[3], [0]], [1.0], (2, 2))

    make()
    with check_sparse_tensor_invariants():
        with pytest.raises(RuntimeError, match="an index is 3 for dimension 0"):
            make()
        with check_sparse_tensor_invariants(False):
            make()
    assert not check_sparse_tensor_invariants.is_enabled()
    with pytest.raises(RuntimeError, match="an index is 3"):
        check_sparse_tensor_invariants()(make)()
    make()


def test_bounds_are_those_of_rows() -> None:
    with pytest.raises(RuntimeError, match="bounds fall"):
        fw.sparse_csr_tensor(
            [0, 2, 1, 2], [0, 1], [1.0, 2.0], (3, 2), check_invariants=True
        )
