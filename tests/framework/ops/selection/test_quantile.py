"""Quantiles and modes beside PyTorch."""

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check

CALLS = """\
T.msort(m)
T.nanmedian(nan)
T.nanmedian(nan, 0)
T.mode(i)
T.mode(i, 0)
T.mode(i, dim=1, keepdim=True)
T.quantile(m, 0.3)
T.quantile(m, T.tensor([0.25, 0.5]), dim=1)
T.quantile(m, 0.6, dim=0, keepdim=True)
T.quantile(m, T.tensor([0.25, 0.5]), dim=1, keepdim=True)
T.quantile(m, 0.4, interpolation='nearest')
m.quantile(0.4, dim=1, interpolation='lower')
m.quantile(0.4, dim=1, interpolation='higher')
m.quantile(0.4, dim=1, interpolation='midpoint')
m.double().quantile(0.4, dim=1, interpolation='midpoint')
T.nanquantile(nan, 0.5)
T.nanquantile(nan, 0.3, dim=0)
T.quantile(nan, 0.3, dim=0)
m.nanmedian()
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_on_the_host(call: str) -> None:
    check(call)


@pytest.mark.parametrize("call", CALLS[::4])
def test_on_a_device(call: str, device: vkbackend.Device) -> None:
    check(call, fw.device(device.info.name))
