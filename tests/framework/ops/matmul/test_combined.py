"""Products of several matrices and vectors beside PyTorch."""

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check

CALLS = """\
T.cross(T.eye(3), T.tensor([[1., 2., 3.], [4., 5., 6.], [7., 8., 10.]]))
T.cross(T.eye(3), T.tensor([[1., 2., 3.], [4., 5., 6.], [7., 8., 10.]]), dim=1)
T.inner(v3, v3)
T.inner(m, m2)
T.inner(m, T.tensor(2.))
T.kron(m, m2)
T.kron(v3, m)
T.addmv(v3, m, v4)
T.addmv(v3, m, v4, beta=0.5, alpha=2)
T.addr(T.zeros(3, 4), v3, v4)
T.addr(T.ones(3, 4), v3, v4, beta=2, alpha=0.5)
T.addbmm(T.zeros(3, 3), c, c.transpose(1, 2))
T.chain_matmul(m, m2.T, m)
T.matrix_power(sq, 3)
!T.matrix_power(sq, 0)
T.vander(v3)
T.vander(v3, N=4, increasing=True)
T.combinations(v3)
T.combinations(v3, r=3)
T.combinations(v3, with_replacement=True)
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_on_the_host(call: str) -> None:
    check(call)


@pytest.mark.parametrize("call", CALLS[::4])
def test_on_a_device(call: str, device: vkbackend.Device) -> None:
    check(call, fw.device(device.name))
