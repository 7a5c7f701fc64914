"""Making sparse tensors, beside PyTorch."""

from tests.sparse_calls import check

CALLS = """
    m.sparse_coo_tensor([[1, 2], [0, 1]], [1., 2.])
    m.sparse_coo_tensor([[1, 2], [0, 1]], [1, 2], (3, 3), dtype=m.float64)
    (m.sparse_coo_tensor((2, 3)), m.sparse_coo_tensor(size=(2, 3)))
    m.sparse_coo_tensor(m.zeros(2, 0), m.zeros(0), (2, 3))
    m.sparse_coo_tensor(i, v, (3, 4), is_coalesced=True).is_coalesced()
    m.sparse_coo_tensor([[1, 2], [0, 1]], [1.], (3, 2))
    m.sparse_coo_tensor([[1, 2], [0, 1]], [1., 2.], (3,))
    m.sparse_coo_tensor([[1, 2], [0, 1]], [1, 2], (2, 3), check_invariants=True)
    m.sparse_csr_tensor([0, 1, 2], [0, 1], [1., 2.])
    m.sparse_csr_tensor([0, 1, 2], [0, 1], [1., 2.], (2, 2), dtype=m.float64)
    m.sparse_csc_tensor([0, 1, 2], [0, 1], [1., 2.], (2, 2))
    m.sparse_csr_tensor([0, 1, 3], [0, 1], [1., 2.], (2, 2), check_invariants=True)
    m.sparse_compressed_tensor([0, 1], [0], [1.], (1, 1), layout=m.sparse_csr)
    (D.to_sparse(), D.to_sparse(1), D.to_sparse_csr(), D.to_sparse_csc())
    m.eye(3).to_sparse(layout=m.sparse_csr)
    (D.sparse_mask(Ac), D.sparse_mask(A))
    D.sparse_mask(D)
    m.sparse.spdiags(m.arange(9.).reshape(3, 3), m.tensor([0, -1, 2]), (4, 4))
    m.sparse.spdiags(m.arange(9.).reshape(3, 3), m.tensor([0, 0, 2]), (4, 4))
    m.sparse.FloatTensor(i, v, m.Size([3, 4]))
    m.sparse.DoubleTensor(i, v.double())
"""


def test_calls_are_as_in_torch() -> None:
    check(CALLS)
