"""Special values and large arguments of circular and hyperbolic functions."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.special import SPECIAL, check_special, check_special_pairs
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice

Make = Callable[..., fw.Tensor]

UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str, make: Make) -> None:
    check_special(getattr(ops, name), UNARY[name], make)


ODD = ("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh")


@pytest.mark.parametrize("name", ODD)
def test_sign_of_zero(name: str, make: Make) -> None:
    found = getattr(ops, name)(make(np.array([0.0, -0.0], np.float32))).numpy()
    assert np.signbit(found).tolist() == [False, True]


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_of_any_size(name: str, make: Make) -> None:
    x = np.geomspace(1, 3e38, 2011).astype(np.float32)
    # The floats nearest to multiples of pi / 2, where the result is nearly 0.
    zeros = (np.arange(1, 5000, 7) * (np.pi / 2)).astype(np.float32)
    x = np.concatenate([x, -x, zeros])
    expected = UNARY[name](x.astype(np.float64))
    found = getattr(ops, name)(make(x)).numpy()
    np.testing.assert_allclose(found, expected.astype(np.float32), rtol=6e-7)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "sinh", "cosh"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_each_number_of_two_bytes(name: str, dtype: str, gpu: GpuDevice) -> None:
    kind = getattr(torch, dtype)
    x = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).short().view(kind)
    given = fw.tensor(x.float().numpy(), device=gpu).to(dtype)
    found = getattr(fw, name)(given).float().numpy()
    with np.errstate(all="ignore"):
        exact = UNARY[name](x.double().numpy())
    wanted = torch.tensor(exact).to(kind).float().numpy()
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    step = 2.0**-11 if dtype == "float16" else 2.0**-8
    # Smaller numbers a device may take as 0; ends of the float16 are further apart.
    least = 2.0**-126 if dtype == "bfloat16" else 2.0**-25
    np.testing.assert_allclose(found[finite], exact[finite], 1.03 * step, least)


@pytest.mark.parametrize(
    ("name", "oracle"), [("atan2", np.arctan2), ("hypot", np.hypot)]
)
def test_special_pairs(name: str, oracle: Callable[..., object], make: Make) -> None:
    check_special_pairs(getattr(ops, name), oracle, make)


def test_angle_of_each_quadrant(make: Make) -> None:
    y, x = np.meshgrid(SPECIAL[1:], SPECIAL[1:])
    found = ops.atan2(make(y), make(x)).numpy()
    assert np.array_equal(np.signbit(found), np.signbit(np.arctan2(y, x)))


def test_gradient_of_the_angle_at_the_origin(make: Make) -> None:
    y, x = make([0.0, -0.0, 3.0], grad=True), make([0.0, 0.0, 4.0], grad=True)
    ops.atan2(y, x).sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), [0, 0, 0.16], rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), [0, 0, -0.12], rtol=1e-6)


def test_large_angles_of_float64_on_a_device(gpu: GpuDevice) -> None:
    if not gpu.gpu.info.shader_float64:
        pytest.skip("the device has no shader_float64")
    rng = np.random.default_rng(4)
    x = np.concatenate(
        [
            10 ** rng.uniform(12, 308, 200) * rng.choice([-1, 1], 200),
            10 ** rng.uniform(3, 17, 400),
            2.0 ** np.arange(18, 1024, 7),
            rng.integers(1, 3_000_000, 60) * (np.pi / 2),
            [np.finfo(np.float64).max],
        ]
    )
    for name in ("sin", "cos", "tan"):
        found = getattr(fw, name)(fw.tensor(x, device=gpu)).numpy()
        wanted = [getattr(math, name)(each) for each in x]
        np.testing.assert_allclose(found, wanted, 1e-15, err_msg=name)
    # The number that is nearest to a multiple of pi / 2.
    near = fw.tensor(6381956970095103 * 2.0**797, dtype="float64", device=gpu)
    assert abs(fw.cos(near).item() / -4.68716592425462761e-19 - 1) < 1e-15


def test_slope_of_atan2_near_the_origin_in_float16(place: Device) -> None:
    y = fw.tensor([3e-3, 1e-4], dtype=fw.float16, device=place).requires_grad_()
    x = fw.tensor([4e-3, 0.0], dtype=fw.float16, device=place).requires_grad_()
    ops.atan2(y, x).backward(fw.tensor([1.0, 1.0], dtype=fw.float16, device=place))
    a, b = (each.detach().numpy().astype(np.float64) for each in (y, x))
    for found, wanted in ((y.grad, b), (x.grad, -a)):
        assert found.dtype is fw.float16
        expected = wanted / (a * a + b * b)
        np.testing.assert_allclose(found.numpy(), expected, 1e-3)
