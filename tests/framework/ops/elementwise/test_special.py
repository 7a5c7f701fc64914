"""The error function over its whole range."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import special

import vkbackend.framework as fw
from tests.framework.ops.special import check_special
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice

Make = Callable[..., fw.Tensor]

ORACLES = {"erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc)}


@pytest.mark.parametrize("name", ORACLES)
def test_special_values(name: str, make: Make) -> None:
    check_special(getattr(ops, name), ORACLES[name], make)


@pytest.mark.parametrize("name", ORACLES)
def test_range(name: str, make: Make) -> None:
    x = np.linspace(-11, 11, 4001, dtype=np.float32)
    expected = ORACLES[name](x.astype(np.float64)).astype(np.float32)
    found = getattr(ops, name)(make(x)).numpy()
    np.testing.assert_allclose(found, expected, rtol=6e-7, atol=2.0**-126)


def test_inverse(make: Make) -> None:
    x = np.linspace(-1, 1, 4001).astype(np.float32)
    x = np.concatenate([x, np.float32([1 - 2**-24, 1e-30, 1.5, np.nan])])
    expected = special.erfinv(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(ops.erfinv(make(x)).numpy(), expected, 5e-7)


DOUBLES: dict[str, tuple[Any, Any, float, float]] = {
    "lgamma": (fw.lgamma, special.gammaln, -4.9, 40),
    "digamma": (fw.digamma, special.digamma, 0.1, 40),
    "polygamma": (lambda x: fw.polygamma(2, x), partial(special.polygamma, 2), 0.2, 9),
    "erfinv": (fw.erfinv, special.erfinv, -1, 1),
    "ndtri": (fw.special.ndtri, special.ndtri, 0, 1),
    "i0": (fw.special.i0, special.i0, -50, 50),
    "i0e": (fw.special.i0e, special.i0e, -50, 50),
    "i1": (fw.special.i1, special.i1, -50, 50),
    "i1e": (fw.special.i1e, special.i1e, -50, 50),
    "erfcx": (fw.special.erfcx, special.erfcx, -5, 60),
    "log_ndtr": (fw.special.log_ndtr, special.log_ndtr, -40, 6),
}
ENDS = [0.0, -0.0, 1.0, -1.0, 2.0, math.inf, -math.inf, math.nan, 1e-300, 0.5]


@pytest.mark.parametrize("name", DOUBLES)
def test_float64_on_a_device(name: str, gpu: GpuDevice) -> None:
    if not gpu.gpu.info.shader_float64:
        pytest.skip("the device has no shader_float64")
    function, oracle, low, high = DOUBLES[name]
    x = np.random.default_rng(3).uniform(low, high, 300)
    found = function(fw.tensor(x, device=gpu))
    assert found.dtype is fw.float64
    np.testing.assert_allclose(found.numpy(), oracle(x), 1e-13, 1e-14)
    ends = [each for each in ENDS if name != "polygamma" or abs(each) < 9]
    on_device = function(fw.tensor(ends, dtype="float64", device=gpu)).numpy()
    on_host = function(fw.tensor(ends, dtype="float64")).numpy()
    np.testing.assert_allclose(on_device, on_host, 1e-14, 1e-14)


def test_quantiles_of_small_and_large_shares(make: Make) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.uniform(0, 1, 4000), 10 ** -rng.uniform(0, 37, 4000)]
    x = np.concatenate([*parts, 1 - 10 ** -rng.uniform(0, 7, 1000)]).astype("f4")
    found = fw.special.ndtri(make(x)).numpy()
    np.testing.assert_allclose(found, special.ndtri(x.astype("f8")), 5e-7)
    ends = fw.special.ndtri(make(np.float32([0, 1, 0.5, -0.1, 1.1, np.nan]))).numpy()
    assert ends[0] == -math.inf
    assert ends[1] == math.inf
    assert ends[2] == 0
    assert np.isnan(ends[3:]).all()


@pytest.mark.device
def test_small_float64_shares(gpu: GpuDevice) -> None:
    if not gpu.gpu.info.shader_float64:
        pytest.skip("the device has no shader_float64")
    x = 10 ** -np.random.default_rng(0).uniform(0, 307, 2000)
    found = fw.special.ndtri(fw.tensor(x, device=gpu)).numpy()
    np.testing.assert_allclose(found, special.ndtri(x), 1e-13)
    ends = fw.tensor([1 - 2.0**-53, 2.0**-53 - 1], dtype="float64", device=gpu)
    np.testing.assert_allclose(
        fw.erfinv(ends).numpy(), special.erfinv(ends.numpy()), 1e-13
    )


@pytest.mark.device
def test_log_ndtr_is_near_on_all_of_the_line(gpu: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.uniform(-1.5, 1.5, 20_000), rng.uniform(-15, 12.8, 20_000)]
    parts += [rng.uniform(-40, -14, 5000), -(10 ** rng.uniform(1, 18, 500))]
    x = np.concatenate(parts).astype("f4")
    found = fw.special.log_ndtr(fw.tensor(x, device=gpu)).numpy()
    wanted = special.log_ndtr(x.astype("f8"))
    off = np.abs(found - wanted) / np.spacing(np.abs(wanted).astype("f4"))
    assert off.max() <= 6
    ends = fw.tensor([-math.inf, -1e30, 0.0, 20.0, math.inf, math.nan], device=gpu)
    found = fw.special.log_ndtr(ends).numpy()
    assert found[0] == found[1] == -math.inf
    assert found[2] == np.float32(math.log(0.5))
    assert found[3] == found[4] == 0
    assert np.isnan(found[5])
