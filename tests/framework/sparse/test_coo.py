"""Sparse tensors in coordinate format, beside PyTorch's."""

import copy
import pickle

import pytest

import vkbackend.framework as fw
from tests.sparse_calls import check
from vkbackend.framework.base.device import Device

CALLS = """
    A.coalesce()
    (A._indices(), A._values(), Ac.indices(), Ac.values())
    A.indices()
    A.values()
    (A._nnz(), A.sparse_dim(), H.dense_dim(), A.shape, A.numel(), len(A), A.is_sparse)
    (A.layout == m.sparse_coo, A.layout == m.strided, isinstance(A, m.Tensor))
    A.to_dense()
    H.to_dense()
    (A.t(), A.T, A.transpose(0, 1), A.permute(1, 0), H.transpose(0, 1))
    (A[0], A[1, 0], A[-1])
    A[5]
    A.unbind()
    (A.double(), A.to(m.float16), A.bool(), A.clone(), Ac.clone(), A.detach())
    A.stride()
    A.numpy()
    A.item()
    A.to_sparse_csr()
    A.to_sparse_csc()
    A.sparse_mask(Ac)
    A.clone().zero_()
    A.clone().copy_(Ac)
    A.norm()
    A.any()
"""


def test_calls_are_as_in_torch() -> None:
    check(CALLS)


@pytest.mark.wide
@pytest.mark.device
def test_calls_on_a_device_are_as_in_torch(gpu: Device) -> None:
    check(CALLS, gpu)


def test_text_is_as_in_torch() -> None:
    check("repr(A)\nrepr(H.to(m.float64))\nrepr(m.sparse_coo_tensor((2, 3)))")


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_are_equal(copied: object) -> None:
    x = fw.sparse_coo_tensor([[0, 0], [1, 1]], [2.0, 3.0], (2, 2))
    found = copied(x)  # type: ignore[operator]
    assert found.layout == fw.sparse_coo
    assert found.to_dense().tolist() == [[0, 5], [0, 0]]
