"""Angles, signs, powers and logarithms beside PyTorch."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check
from vkbackend.framework.base.device import Device

Make = Callable[..., fw.Tensor]

CALLS = """\
!T.angle(m)
!T.fill(m, 2.0)
!T.fill(m, T.tensor(2.0))
T.is_same_size(m, m2)
T.real(m)
T.rsub(m, 2)
T.rsub(m, m2, alpha=2)
T.float_power(m, 2)
T.float_power(i, 2)
T.float_power(2, m)
m.float_power(m2.abs())
T.float_power(p, float('inf'))
T.float_power(float('-inf'), p)
T.fmax(m, m2)
T.fmin(nan, v3)
T.fmax(v3, nan)
T.positive(m)
T.sgn(m)
T.signbit(m)
T.signbit(T.tensor([0., -0.]))
T.deg2rad(m)
T.rad2deg(m)
T.deg2rad(i)
T.sinc(m)
T.sinc(T.tensor([0., 1.]))
T.logit(T.sigmoid(m))
T.logit(m, eps=0.1)
T.logaddexp2(m, m2)
T.mvlgamma(p + 2, 2)
T.heaviside(T.tensor([-1., 0., 2.]), T.tensor([0.5]))
T.heaviside(m, T.tensor(0.5))
T.ldexp(m, T.tensor([1, 2, 3, 4]))
!T.ldexp(m.half(), T.tensor([1, -2, 3, 4]))
T.ldexp(T.tensor(0.5).double(), i)
T.ldexp(T.tensor([1e-30, 0.0, 1e30, 1.0]), T.tensor([140, 2000, -180, -2000]))
T.frexp(m)
T.frexp(m).exponent
!T.nextafter(m, m2)
T.gcd(i, i + 2)
T.gcd(i, T.tensor(6))
T.lcm(i, i + 2)
T.isposinf(T.tensor([1., float('inf'), float('-inf')]))
T.isneginf(T.tensor([1., float('inf'), float('-inf')]))
T.isposinf(i.T)
T.signbit(i.to(T.uint8))
T.logit(T.tensor([-1.0, 0.25, 0.5, 1.5, float('nan')]))
T.rsub(i, 2)
T.gcd(i * -3, i + 2)
T.frexp(T.tensor([0.0, -3.5, 1e30, 0.49999997]))
T.logit(T.tensor([0.0, 1.0]))
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_on_the_host(call: str) -> None:
    check(call)


ON_DEVICE = [call for call in CALLS if "float_power" not in call][::4]
ON_DEVICE += ["T.float_power(m, 2)", "T.float_power(p, float('inf'))"]


@pytest.mark.parametrize("call", ON_DEVICE)
def test_on_a_device(call: str, device: vkbackend.Device) -> None:
    check(call, fw.device(device.name))


EDGES = np.float32([1e-40, -1e-45, 0.0, -0.0, 3.0, -2.0, np.inf, -np.inf, np.nan])


def test_gradient_of_mantissas(make: Make) -> None:
    x = make(EDGES[:6]).requires_grad_()
    given = torch.tensor(EDGES[:6], requires_grad=True)
    fw.frexp(x).mantissa.sum().backward()
    torch.frexp(given).mantissa.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), given.grad.numpy())


def test_subnormal_and_infinite_numbers(make: Make) -> None:
    x, given = make(EDGES), torch.tensor(EDGES)
    found, expected = fw.frexp(x), torch.frexp(given)
    for one, two in zip(found, expected, strict=True):
        # Powers of infinities and NaN are not said.
        np.testing.assert_array_equal(one.numpy()[:6], two.numpy()[:6])
    np.testing.assert_array_equal(fw.angle(x).numpy(), torch.angle(given).numpy())
    ones = np.full_like(EDGES, 2)
    np.testing.assert_array_equal(
        fw.heaviside(x, make(ones)).numpy(),
        torch.heaviside(given, torch.tensor(ones)).numpy(),
    )


def test_gradients_of_sinc_near_zero(place: Device) -> None:
    data = np.concatenate([[0, -1e-30, 1e30], np.geomspace(1e-9, 0.5, 40)])
    x = fw.tensor(data.astype(np.float32), device=place).requires_grad_()
    fw.sinc(x).sum().backward()
    angle = np.pi * x.detach().numpy()[3:].astype(np.longdouble)
    wanted = np.pi * (np.cos(angle) - np.sin(angle) / angle) / angle
    small = angle < 1e-2
    wanted[small] = -np.pi / 3 * angle[small] * (1 - angle[small] ** 2 / 10)
    found = x.grad.numpy()
    assert found[:2].tolist() == [0, np.float32(np.pi**2 / 3 * 1e-30)]
    assert np.isfinite(found[2])
    np.testing.assert_allclose(found[3:], wanted.astype(np.float64), 2e-6)


def test_sinc_of_large_numbers(place: Device) -> None:
    x = np.array([2.0, 41.0, 41.5, 1e6 + 0.25, 2.0**24, 1e30], np.float32)
    found = fw.sinc(fw.tensor(x, device=place)).numpy()
    turns = np.array([0.0, 0.0, -1.0, 0.5**0.5, 0.0, 0.0])
    # Whole numbers are multiples of pi, which products with pi in float32 are not.
    np.testing.assert_allclose(found, turns / (np.pi * x.astype(np.float64)), 1e-6)
