"""Views of complex numbers beside PyTorch's: changes reach the source and back."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import DTypeError, ShapeError

GIVEN = np.arange(12, dtype=np.float32).reshape(3, 2, 2) * 0.3 - 1


def changed(t: Any, x: Any) -> list[Any]:
    """Change numbers through their parts, and parts through their numbers."""
    z = t.complex(x[..., 0], x[..., 1])
    pairs, real, imag, row = t.view_as_real(z), z.real, z.imag, t.view_as_real(z)[0]
    z *= 2j
    seen = [each.clone() for each in (pairs, real, imag, row)]
    pairs[1].zero_()
    real.add_(1)
    imag[0] = 5
    seen += [each.clone() for each in (z, pairs, real, imag, row)]
    z.real = 3
    z.imag[:, 1] *= 2
    numbers = t.view_as_complex(x)
    numbers.mul_(1j)
    seen += [z, x.clone()]
    x[0] = 7
    numbers.real.mul_(3)
    t.view_as_real(numbers)[1] = 9
    odd = t.ones_like(x).reshape(-1)[:7].clone()
    t.view_as_complex(odd[2:6].view(2, 2)).add_(1 + 2j)
    return [*seen, numbers, x, odd]


def recorded(t: Any, x: Any) -> list[Any]:
    """Change parts on the tape, and return what depends on the leaf."""
    a, b = x[..., 0], x[..., 1]
    z = t.complex(a, b) * (1 + 2j)
    pairs, real, imag = t.view_as_real(z), z.real, z.imag
    pairs[0].mul_(a[0].detach()[..., None])
    imag[1] = a[1] * b[1]
    z *= z.detach().clone()
    real *= b
    y = x * 2
    numbers = t.view_as_complex(y)
    numbers.imag.mul_(a)
    numbers *= numbers.detach().clone()
    return [t.view_as_real(z), pairs.sin(), imag * real, y * y, numbers.real]


@pytest.mark.parametrize("call", [changed, recorded])
def test_changes_are_those_of_pytorch(call: Any, place: Device) -> None:
    needed = call is recorded
    theirs = torch.tensor(GIVEN, requires_grad=needed)
    ours = fw.tensor(GIVEN, device=place, requires_grad=needed)
    # With a tensor that is made of others, calls take another path from then on.
    fw.eye(2).to_sparse()
    wanted, found = call(torch, theirs), call(fw, ours)
    for one, two in zip(wanted, found, strict=True):
        assert np.allclose(two.detach().numpy(), one.detach().numpy(), 1e-5, 1e-5)
    if needed:
        torch.stack([each.sum() for each in wanted]).sum().backward()
        fw.stack([each.sum() for each in found]).sum().backward()
        assert np.allclose(ours.grad.numpy(), theirs.grad.numpy(), 1e-4, 1e-4)


def test_what_is_refused(place: Device) -> None:
    z = fw.tensor([1 + 2j, 3 - 1j], device=place).requires_grad_()
    with pytest.raises(RuntimeError, match="a leaf that requires a gradient"):
        z.real.zero_()
    found = (z.imag * z.imag).sum()
    with fw.no_grad():
        z.real.add_(1)
    with pytest.raises(RuntimeError, match="version 1, saved at 0"):
        found.backward()
    x = fw.ones(4, 3, device=place)
    for wrong in (x, x[:, 1:], x.t()[:2].t(), fw.ones(2, 4, device=place).t()[:, :]):
        with pytest.raises(ShapeError, match="view_as_complex"):
            fw.view_as_complex(wrong)
    for function in (fw.view_as_real, fw.imag):
        with pytest.raises(DTypeError, match="must be complex64 or complex128"):
            function(x)


def test_numbers_that_a_device_has_not(gpu: Device) -> None:
    if not gpu.gpu.info.shader_float64:  # type: ignore[attr-defined]  # a GPU's
        pytest.skip("the device has no float64")
    x = fw.zeros(3, 2, dtype=fw.float64, device=gpu)
    with pytest.raises(DTypeError, match=r"view_as_complex: .* has no complex128"):
        fw.view_as_complex(x)
