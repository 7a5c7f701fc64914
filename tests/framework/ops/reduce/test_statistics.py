"""Statistics and running extremes beside PyTorch."""

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check

CALLS = """\
T.aminmax(m)
T.aminmax(m, dim=1, keepdim=True)
T.aminmax(m, dim=0).min
m.aminmax().max
T.cummax(m, 1)
T.cummin(m, dim=0)
T.cummax(T.tensor([1., 3., 3., float('nan'), 4.]), 0)
T.logcumsumexp(m, 1)
T.trapezoid(m)
T.trapezoid(m, dx=0.5, dim=0)
T.trapezoid(m, m2)
T.cumulative_trapezoid(m)
T.cumulative_trapezoid(v3, T.tensor([0., 1., 3.]))
T.cov(m)
T.cov(m, correction=0)
T.cov(v3)
T.cov(m, fweights=T.tensor([1, 2, 1, 1]))
T.cov(m, aweights=T.tensor([.1, .2, .3, .4]))
T.corrcoef(m)
T.corrcoef(v3)
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_on_the_host(call: str) -> None:
    check(call)


@pytest.mark.parametrize("call", CALLS[::4])
def test_on_a_device(call: str, device: vkbackend.Device) -> None:
    check(call, fw.device(device.name))
