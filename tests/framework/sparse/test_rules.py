"""What ops make of sparse tensors, beside PyTorch."""

import pytest

from tests.sparse_calls import check
from vkbackend.framework.base.device import Device

CALLS = """
    (A + A, A - A, Ac + Ac, Ac + Ac.double(), m.add(A, A, alpha=3), H + H)
    (D + A, D - A, D.add(A, alpha=2), D.clone().add_(A))
    A + D
    A + 1
    (A * 2, 2 * A, A / 2, -A, A * D, D * A, Ac * Ac)
    A / D
    D / A
    (A.abs(), m.relu(A), Ac.sqrt(), A.sin(), A ** 2, A.pow(0.5), A.isnan(), A.sign())
    A.exp()
    A == A
    m.softmax(A, 1)
    A.view(-1)
    (m.cat([A, A]), m.cat([A, A], 1), m.stack([A, A]), A.unsqueeze(0))
    A.index_select(0, m.tensor([0, 1], device=place))
    (m.zeros_like(A), A.clone().mul_(2))
    m.ones_like(A)
    (S * 2, S + S, S.abs(), S * D, D + S)
    D.clone().copy_(A)
"""


def test_calls_are_as_in_torch() -> None:
    check(CALLS)


@pytest.mark.wide
@pytest.mark.device
def test_calls_on_a_device_are_as_in_torch(gpu: Device) -> None:
    check(CALLS, gpu)
