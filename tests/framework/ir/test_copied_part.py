"""Copies that are views in PyTorch: a change that would be lost is refused."""

from collections.abc import Callable

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device


def changes(part: fw.Tensor) -> list[Callable[[], object]]:
    """Return ways to change a tensor in place."""
    return [
        part.zero_,
        lambda: part.add_(1),
        lambda: part[0].mul_(3),
        lambda: part.__setitem__(0, 3),
    ]


def test_a_change_that_would_be_lost_is_refused(place: Device) -> None:
    """Change copies of parts of numbers that are there, and of such that are not."""
    z = fw.tensor([1 + 2j, 3 - 1j], device=place)
    pairs = fw.ones(2, 2, device=place)
    copies = z.real, z.imag, fw.view_as_real(z), fw.view_as_complex(pairs)
    for part in copies:
        before = part.tolist()
        for change in changes(part):
            with pytest.raises(NotImplementedError, match=r"in place: .* a copy"):
                change()
        assert part.tolist() == before
        assert fw.equal(part.clone().zero_(), fw.zeros_like(part))
    with pytest.raises(NotImplementedError, match=r"in place: .* a copy"):
        fw.optim.SGD([z.real.detach().requires_grad_()], 0.1)
    alone = fw.view_as_real(fw.tensor([1 + 2j], device=place))
    assert alone.mul_(2).tolist() == [[2.0, 4.0]]
    z.real = 5
    assert z.tolist() == [5 + 2j, 5 - 1j]
