"""Sparse tensors as text."""

import vkbackend.framework as fw
from tests.sparse_calls import check


def test_notes_wrap_as_in_torch() -> None:
    check("repr(m.eye(25).to_sparse().double().requires_grad_())")
    check("repr(m.eye(3).to_sparse_csr().double().requires_grad_())")


def test_the_op_is_told() -> None:
    values = fw.ones(1, requires_grad=True)
    assert "grad_fn=<" in repr(fw.sparse_coo_tensor([[0]], values * 2, (1,)))
