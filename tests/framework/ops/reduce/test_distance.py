"""Distances beside PyTorch."""

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check
from vkbackend.framework.base.device import GpuDevice

CALLS = """\
T.cdist(m, m2)
T.cdist(m, m2, p=1)
T.cdist(m, m2, p=3.0)
T.cdist(m, m2, p=float('inf'))
T.cdist(m, m2, p=0)
T.dist(m, m2)
T.dist(m, m2, 1)
T.pdist(m)
T.pdist(m, p=1)
T.renorm(m, 2, 0, 0.5)
T.renorm(m, p=1, dim=1, maxnorm=0.7)
T.cdist(m, m2, compute_mode="use_mm_for_euclid_dist")
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_on_the_host(call: str) -> None:
    check(call)


@pytest.mark.parametrize("call", CALLS[::4])
def test_on_a_device(call: str, device: vkbackend.Device) -> None:
    check(call, fw.device(device.name))


def test_few_pairs_are_two_dispatches(gpu: GpuDevice) -> None:
    x = fw.rand(16, 3, device=gpu)
    for _ in range(3):
        fw.eval(fw.pdist(x))
    before = gpu.gpu.counters.dispatches
    fw.eval(fw.pdist(x))
    assert gpu.gpu.counters.dispatches == before + 2
