"""Sums and softmax of sparse tensors, beside PyTorch."""

import pytest

from tests.sparse_calls import check
from vkbackend.framework.base.device import Device

CALLS = """
    (A.sum(), m.sum(A), A.sum(0), m.sum(A, 1), A.sum((0, 1)), S.sum())
    (m.sparse.sum(A), m.sparse.sum(A, 0), m.sparse.sum(A, (0, 1)), m.sparse.sum(H, 1))
    (m.sparse.sum(H, 0), m.sparse.sum(A, dtype=m.float64))
    m.sparse.sum(D)
    (m.sparse.softmax(A, 1), m.sparse.softmax(A, 0), m.sparse.log_softmax(A, 0))
    (m.sparse.softmax(H, 0), m.sparse.softmax(H, 1))
    m.sparse.softmax(D, 1)
"""


def test_calls_are_as_in_torch() -> None:
    check(CALLS)


@pytest.mark.wide
@pytest.mark.device
def test_calls_on_a_device_are_as_in_torch(gpu: Device) -> None:
    check(CALLS, gpu)
