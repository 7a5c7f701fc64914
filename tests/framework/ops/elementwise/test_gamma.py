"""Gamma function: ranges, poles and gradients that the op table leaves out."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special

import vkbackend.framework as fw
from tests.work import lines_run
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import GradError, ShapeError

Make = Callable[..., fw.Tensor]

WIDE = np.concatenate([np.geomspace(1e-30, 1e30, 401), np.linspace(0.01, 12, 1200)])


def skip_without_float64(place: Device) -> None:
    if isinstance(place, GpuDevice) and not place.gpu.info.shader_float64:
        pytest.skip("the device has no shader_float64")


def check(found: fw.Tensor, expected: np.ndarray, rtol: float = 2e-6) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol, 5e-7)


def test_ranges(make: Make) -> None:
    x = WIDE.astype(np.float32)
    check(ops.lgamma(make(x)), special.gammaln(x.astype(np.float64)))
    check(ops.digamma(make(x)), special.digamma(x.astype(np.float64)))
    below = np.linspace(-9.99, -0.01, 500, dtype=np.float32)
    # Near zeros and poles the rounding of x itself is a large part of the result.
    check(ops.lgamma(make(below)), special.gammaln(below.astype(np.float64)), 3e-5)
    check(ops.digamma(make(below)), special.digamma(below.astype(np.float64)), 3e-5)


def test_special_values(make: Make) -> None:
    x = [0.0, -0.0, -2.0, np.inf, -np.inf, np.nan, 1.0, 2.0]
    expected = [np.inf, np.inf, np.inf, np.inf, np.inf, np.nan, 0.0, 0.0]
    np.testing.assert_array_equal(
        ops.lgamma(make(np.array(x, np.float32))).numpy(), expected
    )
    x = [0.0, -0.0, -2.0, np.nan]
    expected = [-np.inf, np.inf, np.nan, np.nan]
    np.testing.assert_array_equal(
        ops.digamma(make(np.array(x, np.float32))).numpy(), expected
    )


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_polygamma(n: int, make: Make) -> None:
    x = np.linspace(0.3, 20, 60, dtype=np.float32)
    check(ops.polygamma(n, make(x)), special.polygamma(n, x.astype(np.float64)), 4e-6)


def test_the_slope_of_digamma(make: Make) -> None:
    x = np.concatenate([WIDE, np.linspace(-9.97, -0.03, 500), [1e-15, 5.999, 6.0]])
    x = x[np.abs(x - np.round(x)) > 1e-2].astype(np.float32)
    wide = torch.from_numpy(x).double()
    wanted = torch.polygamma(1, wide).numpy()
    # Where x is nearly whole its own rounding shows.
    check(ops.polygamma(1, make(x)), wanted, 2e-6)
    ends = make(np.array([0.0, -0.0, -2.0, np.inf, np.nan, 1e30, 1e-25], np.float32))
    found = ops.polygamma(1, ends).numpy()
    np.testing.assert_allclose(
        found, [np.inf, np.inf, np.inf, 0, np.nan, 1e-30, np.inf], 1e-6
    )


def test_lgamma_beside_zero(make: Make) -> None:
    x = np.array([1e-30, -1e-30, 1e-14, -1e-14], np.float32)
    check(ops.lgamma(make(x)), special.gammaln(x.astype(np.float64)))


def test_lgamma_where_formulas_meet(make: Make) -> None:
    ends = np.float32([1, 2, 2.5, -1, -2, -2.25])[:, None]
    steps = np.arange(-40, 41, dtype=np.int32)
    x = (ends.view(np.int32) + steps).view(np.float32).ravel()
    wanted = special.gammaln(x.astype(np.float64))
    poles = np.isinf(wanted)
    found = ops.lgamma(make(x)).numpy()
    np.testing.assert_allclose(found[~poles], wanted[~poles], 5e-7)
    assert np.isinf(found[poles]).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_lgamma_of_two_bytes(dtype: str, gpu: GpuDevice) -> None:
    kind = getattr(torch, dtype)
    every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).short().view(kind)
    # Smaller numbers a device may take as 0.
    every = every[(every == 0) | ~(every.float().abs() < 2.0**-126)]
    x = fw.tensor(every.float().numpy(), device=gpu).to(dtype)
    found = torch.from_numpy(fw.lgamma(x).float().numpy()).to(kind)
    wanted = torch.lgamma(every.double()).to(kind)
    assert torch.equal(found.isnan(), wanted.isnan())
    apart = (found.view(torch.int16).int() - wanted.view(torch.int16).int()).abs()
    apart = apart[~wanted.isnan()]
    # Two, where it is next to 0 between poles
    assert apart.max() <= 2
    assert (apart > 0).float().mean() < 1e-2


def test_polygamma_of_a_negative_order() -> None:
    with pytest.raises(ShapeError, match="n is -1"):
        ops.polygamma(-1, fw.ones(2))


def test_incomplete_integrals(make: Make) -> None:
    rng = np.random.default_rng(0)
    a = (10 ** rng.uniform(-2, 4, 900)).astype(np.float32)
    x = (rng.gamma(a) * rng.uniform(0.5, 1.6, 900)).astype(np.float32)
    x = np.maximum(x, np.finfo(np.float32).tiny)  # a device may take subnormals as 0
    wide = a.astype(np.float64), x.astype(np.float64)
    np.testing.assert_allclose(
        ops.igamma(make(a), make(x)).numpy(), special.gammainc(*wide), 5e-5, 1e-30
    )
    np.testing.assert_allclose(
        ops.igammac(make(a), make(x)).numpy(), special.gammaincc(*wide), 5e-5, 1e-30
    )


def test_limits_of_incomplete_integrals(make: Make) -> None:
    a = np.array([0, 0, 1, 1, np.inf, -1, 1, np.nan], np.float32)
    x = np.array([0, 1, 0, np.inf, 1, 1, -1, 1], np.float32)
    for name in ("igamma", "igammac"):
        expected = getattr(torch, name)(torch.tensor(a), torch.tensor(x)).numpy()
        found = getattr(ops, name)(make(a), make(x)).numpy()
        np.testing.assert_array_equal(found, expected)


def test_gradient_by_the_limit(make: Make) -> None:
    a, x = np.float32([0.5, 2, 9]), np.float32([0.7, 1, 12])
    for name in ("igamma", "igammac", "xlogy"):
        ours, theirs = make(x).requires_grad_(), torch.tensor(x, requires_grad=True)
        getattr(ops, name)(make(a), ours).sum().backward()
        getattr(torch, name)(torch.tensor(a), theirs).sum().backward()
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), 1e-5)


@pytest.mark.parametrize("name", ["igamma", "igammac", "zeta"])
def test_gradient_that_is_not_there(name: str) -> None:
    a: Any = fw.tensor([2.0], requires_grad=True)
    with pytest.raises(GradError, match="there is no gradient by x"):
        getattr(ops, name)(a, fw.ones(1)).backward()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_zeta_of_high_orders(dtype: str, place: Device) -> None:
    if dtype == "float64":
        skip_without_float64(place)
    orders = np.array([1.1, 2, 3, 7, 10, 16, 20, 25, 40, 70])
    starts = np.array([1e-3, 0.5, 1, 2, 3, 9.3, 10, 16, 40, 70, 300])
    s, q = (each.ravel() for each in np.meshgrid(orders, starts))
    wanted = special.zeta(s, q)
    is_normal = (wanted > 1e-36) & (wanted < 1e36)
    s, q, wanted = s[is_normal], q[is_normal], wanted[is_normal]
    found = fw.special.zeta(*(fw.tensor(n, dtype, device=place) for n in (s, q)))
    wanted = special.zeta(*(n.astype(dtype).astype(float) for n in (s, q)))
    limit = 1e-14 if dtype == "float64" else 2e-6
    np.testing.assert_allclose(found.numpy(), wanted, limit)


@pytest.mark.parametrize("order", [0.3, 7.0, 95.0, 101.0, 3e3, 1e7])
def test_incomplete_integrals_in_float64(order: float, place: Device) -> None:
    skip_without_float64(place)
    offsets = np.array([-3.0, -1.0, -0.1, 0.0, 0.1, 1.0, 3.0])
    x = np.abs(order + offsets * np.sqrt(order))
    a = np.full(x.shape, order)
    for mine, whole in ((fw.igamma, special.gammainc), (fw.igammac, special.gammaincc)):
        found = mine(fw.tensor(a, device=place), fw.tensor(x, device=place))
        np.testing.assert_allclose(found.numpy(), whole(a, x), 1e-11)


def test_incomplete_integrals_at_the_ends(place: Device) -> None:
    skip_without_float64(place)
    at = np.array([0.0, 0.5, 1.0, 15.0, np.inf, -1.0])
    a, x = np.meshgrid(at, at)
    for name in ("igamma", "igammac"):
        wanted = getattr(torch, name)(torch.tensor(a), torch.tensor(x))
        found = getattr(fw, name)(
            fw.tensor(a, device=place), fw.tensor(x, device=place)
        )
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-11, 1e-300)


def test_a_fraction_is_cut_once_it_is_exact() -> None:
    a, x = (fw.tensor([each], device="cpu") for each in (90.0, 95.0))
    fw.igammac(a, x).numpy()
    assert lines_run(lambda: fw.igammac(a, x).numpy()) < 3000


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_small_orders(name: str, make: Make) -> None:
    a = np.repeat(np.float32([1e-30, 1e-10, 1e-3, 0.05, 0.2, 0.49]), 7)
    x = np.tile(np.float32([1e-30, 1e-5, 0.1, 0.5, 1.0, 1.2, 1.49]), 6)
    found = getattr(ops, name)(make(a), make(x)).numpy()
    function = special.gammaincc if name == "igammac" else special.gammainc
    expected = function(a.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(found, expected, 5e-6)


def test_orders_smaller_than_float32(place: Device) -> None:
    skip_without_float64(place)
    a = fw.tensor(np.full(3, 1e-300), device=place)
    found = ops.igammac(a, fw.tensor(np.array([0.1, 0.5, 1.4]), device=place))
    expected = 1e-300 * special.exp1([0.1, 0.5, 1.4])
    np.testing.assert_allclose(found.numpy(), expected, 1e-6)
