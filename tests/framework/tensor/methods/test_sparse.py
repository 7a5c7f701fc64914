"""What dense tensors say of sparse ones."""

from tests.sparse_calls import check


def test_calls_are_as_in_torch() -> None:
    check("""
        (D.sparse_dim(), D.dense_dim(), D.is_sparse, D.layout == m.strided)
        D.coalesce()
        D.is_coalesced()
        D.indices()
        D.values()
        D.crow_indices()
        D.col_indices()
        D.to_sparse(3)
        D.to_sparse_coo()
    """)
