"""Joining and splitting by position beside PyTorch."""

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check

CALLS = """\
T.max(m, other=m2)
T.cartesian_prod(v3, v4)
T.cartesian_prod(v3)
T.block_diag(m, v3, T.tensor(2.))
T.broadcast_tensors(v4, m)
T.atleast_1d(T.tensor(1.))
T.atleast_2d(v3)
T.atleast_3d(v3)
T.atleast_3d(m)
T.atleast_2d(v3, m)
T.atleast_1d([v3, m])
T.dstack((m, m2))
T.column_stack((v3, m))
T.hsplit(m, 2)
T.hsplit(m, [1])
T.vsplit(m, 3)
T.dsplit(c, 2)
m.hsplit(2)
T.fliplr(m)
T.flipud(m)
T.adjoint(m)
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_on_the_host(call: str) -> None:
    check(call)


@pytest.mark.parametrize("call", CALLS[::4])
def test_on_a_device(call: str, device: vkbackend.Device) -> None:
    check(call, fw.device(device.name))
