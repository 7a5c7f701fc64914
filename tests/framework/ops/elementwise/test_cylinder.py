"""Bessel functions J, Y and K, and Airy's: over their range, and at its ends."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import special

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device, GpuDevice

Make = Callable[..., fw.Tensor]
FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "bessel_j0": special.j0,
    "bessel_j1": special.j1,
    "bessel_y0": special.y0,
    "bessel_y1": special.y1,
    "modified_bessel_k0": special.k0,
    "modified_bessel_k1": special.k1,
    "scaled_modified_bessel_k0": special.k0e,
    "scaled_modified_bessel_k1": special.k1e,
    "airy_ai": lambda x: special.airy(x)[0],
}
EDGES = np.array([0.0, -0.0, -1.0, np.inf, -np.inf, np.nan, 1e30], np.float32)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_range(name: str, make: Make) -> None:
    near, far = np.linspace(-20, 20, 801), np.linspace(20, 90, 51)
    x = np.concatenate([near, -far, far, 10.0 ** np.arange(-30, 0), [1.3, 1.5, 3.0]])
    x = x.astype(np.float32)
    found = getattr(fw.special, name)(make(x)).numpy()
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x.astype(np.float64)).astype(np.float32)
    expected[np.isinf(expected) & (x < 0)] = np.nan
    # The phase of Airy's function has |x|^(3/2) in float32.
    loose = 4e-5 if name == "airy_ai" else 4e-7
    np.testing.assert_allclose(found, expected, 4e-6, loose)


@pytest.mark.parametrize("name", [*FUNCTIONS, "spherical_bessel_j0"])
def test_edges(name: str, make: Make) -> None:
    found = getattr(fw.special, name)(make(EDGES)).numpy()
    expected = getattr(torch.special, name)(torch.tensor(EDGES)).numpy()
    np.testing.assert_allclose(found, expected, 1e-5, 1e-10)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64(name: str, place: Device) -> None:
    if isinstance(place, GpuDevice) and not place.gpu.info.shader_float64:
        pytest.skip("the device has no shader_float64")
    x = np.concatenate([np.linspace(-40, 40, 401), [1e-200, 1.3, -2.3, 1.5, 3.0, 700]])
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x)
    expected[np.isinf(expected) & (x < 0)] = np.nan
    found = getattr(fw.special, name)(fw.tensor(x, device=place)).numpy()
    np.testing.assert_allclose(found, expected, 1e-13, 1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dtypes(name: str) -> None:
    for dtype in ("bool", "uint8", "int64", "float64"):
        found = getattr(fw.special, name)(fw.ones(2, dtype=getattr(fw, dtype)))
        wanted = getattr(torch.special, name)(
            torch.ones(2, dtype=getattr(torch, dtype))
        )
        assert str(found.dtype) == str(wanted.dtype)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), 2e-6)
    with pytest.raises(RuntimeError):
        getattr(fw.special, name)(fw.ones(2, dtype=fw.float16))


def test_beside_functions_of_gamma_in_one_kernel(make: Make) -> None:
    x = np.linspace(0.5, 3, 7, dtype=np.float32)
    given = make(x)
    found = fw.special.bessel_y0(given) + fw.special.gammainc(given, given)
    wanted = special.y0(x) + special.gammainc(x, x)
    np.testing.assert_allclose(found.numpy(), wanted, 1e-5)
