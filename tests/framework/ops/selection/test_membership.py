"""Membership, runs and histograms beside PyTorch."""

import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check

CALLS = """\
T.argwhere(b)
T.unique_consecutive(runs)
T.unique_consecutive(runs, return_inverse=True, return_counts=True)
T.unique_consecutive(i, dim=0)
T.histogram(m, 4)
T.histogram(m, bins=4, range=(-1., 1.))
T.histogram(m, 4, range=(-1., 1.), density=True)
T.histogram(m, T.tensor([-1., 0., 1.]))
T.isin(i, T.tensor([1, 3]))
T.isin(i, T.tensor([1, 3]), invert=True)
T.isin(i, 2)
T.isin(2, i)
T.isin(elements=i, test_elements=T.tensor([2]), assume_unique=True)
T.isreal(m)
T.unravel_index(T.tensor([3, 5]), (2, 3))
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_on_the_host(call: str) -> None:
    check(call)


@pytest.mark.parametrize("call", CALLS[::4])
def test_on_a_device(call: str, device: vkbackend.Device) -> None:
    check(call, fw.device(device.name))


def test_default_bins_are_as_pytorchs() -> None:
    values = [0.5, -1.25, 2.0, 0.0, 1.0, -3.0]
    for dtype in ("float32", "float64"):
        found, wanted = [
            library.histogram(library.tensor(values, dtype=getattr(library, dtype)))
            for library in (fw, torch)
        ]
        assert found.hist.tolist() == wanted.hist.tolist()
        edges = pytest.approx(wanted.bin_edges.tolist(), abs=1e-6)
        assert found.bin_edges.tolist() == edges
