"""Derivatives from samples beside PyTorch."""

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check

CALLS = """\
T.gradient(v4)
T.gradient(m, spacing=2.0)
T.gradient(m, dim=1)
T.gradient(m, spacing=(T.tensor([0., 1., 3.]),), dim=0)
T.gradient(m, spacing=1.0, dim=(0, 1), edge_order=2)
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_on_the_host(call: str) -> None:
    check(call)


@pytest.mark.parametrize("call", CALLS[::2])
def test_on_a_device(call: str, device: vkbackend.Device) -> None:
    check(call, fw.device(device.name))
