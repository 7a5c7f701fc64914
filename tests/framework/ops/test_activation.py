"""Activations where they saturate, and at their kinks."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.elementwise_cases import gelu_grad
from tests.framework.ops.twin import as_in_torch
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice

Make = Callable[..., fw.Tensor]

NAMES = (
    "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish",
    "softplus", "softsign", "hardswish", "hardsigmoid", "hardtanh",
)  # fmt: skip
WIDE = np.array([-1e30, -150, -88, -20, -3, 0, 3, 6, 20, 88, 150, 1e30], np.float32)


@pytest.mark.parametrize("name", NAMES)
def test_far_from_zero(name: str, make: Make) -> None:
    found = getattr(ops, name)(make(WIDE))
    expected = getattr(F, name)(torch.from_numpy(WIDE).double())
    assert_close(found, expected.float().numpy())


@pytest.mark.parametrize("name", NAMES)
def test_slopes_far_from_zero_and_at_kinks(name: str, make: Make) -> None:
    x, twin = make(WIDE, grad=True), torch.from_numpy(WIDE).double().requires_grad_()
    getattr(ops, name)(x).backward(fw.ones_like(x))
    getattr(F, name)(twin).sum().backward()
    assert twin.grad is not None
    assert_close(x.grad, twin.grad.float().numpy())


@pytest.mark.parametrize("name", [name for name in NAMES if name != "softplus"])
def test_nan_stays(name: str, make: Make) -> None:
    assert np.isnan(getattr(ops, name)(make([np.nan])).item())


@pytest.mark.device
@pytest.mark.parametrize("name", ["silu", "mish"])
def test_gates_are_right_where_their_exponential_is_not_normal(
    name: str, gpu: GpuDevice
) -> None:
    x = np.linspace(-91.5, -5, 1001, dtype=np.float32)
    expected = getattr(F, name)(torch.from_numpy(x).double()).numpy()
    assert expected[0] < -(2**-126)
    found = getattr(ops, name)(fw.tensor(x, device=gpu)).numpy()
    np.testing.assert_allclose(found, expected, rtol=6e-7)


def logistic(x: torch.Tensor) -> torch.Tensor:
    """Return 1 / (1 + exp(-x)) without a difference that cancels."""
    falling = torch.exp(-x.abs())
    return torch.where(x < 0, falling, 1.0) / (1 + falling)


def mish(x: torch.Tensor) -> torch.Tensor:
    grown = torch.exp(x.clamp(max=40))
    share = grown * (grown + 2)
    return x * (share / (share + 2))


def gelu(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x < 0, x / 2 * torch.special.erfc(-x / 2**0.5), F.gelu(x))


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return x * logistic(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


NARROWED = {
    "erf": (ops.erf, torch.erf),
    "exp": (ops.exp, torch.exp),
    "log": (ops.log, torch.log),
    "tanh": (ops.tanh, torch.tanh),
    "sigmoid": (ops.sigmoid, logistic),
    "silu": (ops.silu, lambda x: x * logistic(x)),
    "mish": (ops.mish, mish),
    "gelu": (ops.gelu, gelu),
    "gelu_tanh": (lambda x: ops.gelu(x, approximate="tanh"), gelu_tanh),
    "softplus": (ops.softplus, F.softplus),
    "log_sigmoid": (ops.log_sigmoid, F.logsigmoid),
    "entr": (fw.special.entr, torch.special.entr),
    **{
        name: (getattr(fw, name), getattr(torch, name))
        for name in (
            "acos", "acosh", "asin", "asinh", "atanh", "log10", "log1p", "log2",
        )
    },
}  # fmt: skip
"""Functions that results of two bytes have a short form of, and how they are exact."""


@pytest.mark.core
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("function", NARROWED)
def test_short_forms_are_rounded_once(function: str, name: str, gpu: GpuDevice) -> None:
    call, exact = NARROWED[function]
    dtype = getattr(torch, name)
    x = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).short().view(dtype)
    found = call(fw.tensor(x.float().numpy(), device=gpu).to(name)).float()
    got, wanted = torch.from_numpy(found.numpy()).to(dtype), exact(x.double()).to(dtype)
    # Smaller numbers and results a device may take as 0.
    taken = (x == 0) | ~(x.float().abs() < 2.0**-126)
    assert torch.equal(got[taken].isnan(), wanted[taken].isnan())
    normal = taken & (wanted.float().abs() > 2.0**-126)
    apart = (got.view(torch.int16).int() - wanted.view(torch.int16).int()).abs()
    assert apart[normal].max() <= 1
    assert (apart[normal] > 0).float().mean() < 2e-3


@pytest.mark.core
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_the_slope_of_gelu(name: str, gpu: GpuDevice) -> None:
    dtype, every = getattr(torch, name), torch.arange(-(1 << 15), 1 << 15)
    wide = every.int() * (1 << 16) + 12345
    x = wide.view(dtype) if name == "float32" else every.short().view(dtype)
    given = fw.tensor(x.float().numpy(), device=gpu).to(name).requires_grad_()
    ops.gelu(given).sum().backward()
    got = torch.from_numpy(given.grad.float().numpy()).double()
    wanted = gelu_grad(x.double().clamp(-40, 40))
    assert torch.equal(got.isnan(), wanted.isnan())
    # It is 0 at -0.75, where only the difference can be small.
    bound = {"float32": 2e-6, "float16": 2.0**-11, "bfloat16": 2.0**-8}[name] * 1.01
    least = {"float32": 1e-7, "float16": 2.0**-20, "bfloat16": 2.0**-20}[name]
    wrong = (got - wanted).abs() > bound * wanted.abs() + least
    assert not wrong.any(), (x[wrong], got[wrong], wanted[wrong])


@pytest.mark.device
def test_gelu_is_right_until_it_vanishes(gpu: GpuDevice) -> None:
    x = np.linspace(-12.9, -5, 1001, dtype=np.float32)
    twin = torch.from_numpy(x).double()
    expected = (twin * torch.special.erfc(twin * -math.sqrt(0.5)) * 0.5).numpy()
    np.testing.assert_allclose(
        ops.gelu(fw.tensor(x, device=gpu)).numpy(), expected, rtol=2e-6
    )
    ends = fw.tensor([-0.0, 0.0, -20.0, np.inf, -np.inf], device=gpu)
    found = ops.gelu(ends).numpy()
    np.testing.assert_array_equal(found, [0, 0, 0, np.inf, np.nan])
    np.testing.assert_array_equal(np.signbit(found[:3]), [True, False, True])


@pytest.mark.parametrize(
    ("call", "twin"),
    [
        (ops.relu6, F.relu6),
        (ops.selu, F.selu),
        (lambda x: ops.celu(x, 1.7), lambda x: F.celu(x, 1.7)),
    ],
)
def test_made_of_others(call: Any, twin: Any, make: Make) -> None:
    x = np.linspace(-8, 8, 113, dtype=np.float32)
    assert_close(call(make(x)), twin(torch.from_numpy(x)).numpy())


def test_celu_needs_a_scale() -> None:
    with pytest.raises(ValueError, match="celu: alpha is 0; it must be another number"):
        ops.celu(fw.ones(1), 0)


@pytest.mark.parametrize(("shape", "weights"), [((3, 5, 4), 5), ((7, 3), 1), ((4,), 1)])
def test_prelu(shape: tuple[int, ...], weights: int, make: Make) -> None:
    as_in_torch(make, ops.prelu, F.prelu, shape, (weights,))


@pytest.mark.parametrize("name", ["hardtanh", "relu6"])
def test_slopes_of_bounds_at_nan(name: str, place: Device) -> None:
    data = [float("nan"), -1.0, 0.0, 0.5, 1.0, 6.0, 7.0]
    x = fw.tensor(data, device=place, requires_grad=True)
    getattr(ops, name)(x).sum().backward()
    twin = torch.tensor(data, requires_grad=True)
    getattr(F, name)(twin).sum().backward()
    assert x.grad is not None
    assert twin.grad is not None
    assert x.grad.tolist() == twin.grad.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_gelu_keeps_the_sign_of_zero(dtype: str, place: Device) -> None:
    x = fw.tensor([0.0, -0.0, 1.0, 0.0], dtype, place)
    alone, fused = ops.gelu(x), ops.gelu(x * 1)
    for found in (alone, fused):
        assert np.signbit(found.numpy()).tolist() == [False, True, False, False]


def test_swiglu(make: Callable[..., fw.Tensor]) -> None:
    twin = lambda gate, x: F.silu(gate) * x  # noqa: E731
    as_in_torch(make, ops.swiglu, twin, (3, 7), (3, 7))


@pytest.mark.parametrize("dim", [1, -1])
def test_glu(dim: int, make: Callable[..., fw.Tensor]) -> None:
    as_in_torch(make, lambda x: ops.glu(x, dim), lambda x: F.glu(x, dim), (3, 4, 6))


@pytest.mark.parametrize("name", ["relu", "relu6", "leaky_relu", "hardsigmoid"])
def test_the_second_gradient_is_zero_and_not_none(name: str, place: Device) -> None:
    x = fw.tensor([-np.inf, -1.0, 0.5, 9.0], device=place).requires_grad_()
    y = getattr(ops, name)(x)
    (slope,) = fw.autograd.grad(y.sum(), x, create_graph=True)
    slope.square().sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 0]
