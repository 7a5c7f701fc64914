"""Views by strides and replaced regions beside PyTorch."""

import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check

CALLS = """\
T.diagflat(m)
T.diagflat(v3, 1)
T.as_strided(m, (2, 2), (1, 2))
T.as_strided(m, (2, 2), (1, 2), 1)
T.as_strided(m, (2, 3), (1, 1)) * 2
!T.as_strided_scatter(m, T.zeros(2, 2), (2, 2), (1, 2))
T.select_scatter(m, T.zeros(4), 0, 1)
T.slice_scatter(m, T.zeros(2, 4), dim=0, start=1)
T.slice_scatter(m, T.zeros(3, 2), dim=1, start=0, end=4, step=2)
T.diagonal_scatter(m, T.zeros(3))
m.diagonal_scatter(T.zeros(2), offset=-1)
m.sum_to_size(1, 4)
m.sum_to_size((3, 1))
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_on_the_host(call: str) -> None:
    check(call)


@pytest.mark.parametrize("call", CALLS[::4])
def test_on_a_device(call: str, device: vkbackend.Device) -> None:
    check(call, fw.device(device.name))


@pytest.mark.parametrize("size", [(), (2,), (2, 2)])
def test_a_part_that_requires_a_gradient(size: tuple[int, ...]) -> None:
    steps = (2, 1)[: len(size)]
    found = []
    for library in (fw, torch):
        x = library.arange(8.0).requires_grad_()
        part = (x[2:] * 1).reshape(3, 2)[1:]
        view = library.as_strided(part, size, steps)
        assert view.data_ptr() == part.data_ptr()
        (view * view).sum().backward()
        found.append((view.tolist(), x.grad.tolist()))
    assert found[0] == found[1]
