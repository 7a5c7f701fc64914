"""Sparse matrices in compressed rows and columns, beside PyTorch's."""

import pytest

from tests.sparse_calls import check
from vkbackend.framework.base.device import Device

CALLS = """
    (S, S.t(), S.to_sparse(), S.to_dense(), S.to_sparse_csc(), S.t().to_sparse_csr())
    (S.crow_indices(), S.col_indices(), S.values(), S.t().ccol_indices())
    S.ccol_indices()
    S.indices()
    S.coalesce()
    (S._nnz(), S.sparse_dim(), S.is_sparse, S.is_sparse_csr, S.layout == m.sparse_csr)
    (S[0], S[0, 2], S.double())
    H.to_sparse_csr()
"""


def test_calls_are_as_in_torch() -> None:
    check(CALLS)


@pytest.mark.wide
@pytest.mark.device
def test_calls_on_a_device_are_as_in_torch(gpu: Device) -> None:
    check(CALLS, gpu)


def test_text_is_as_in_torch() -> None:
    check("repr(S)\nrepr(S.t().double())")
