"""Special values of signs, roots and rounding."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.special import INF, NAN, SPECIAL, check_special, need
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import INT, DType
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ops.elementwise.unary import lazy_copy, unshared

Make = Callable[..., fw.Tensor]

UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "neg": np.negative,
    "abs": np.abs,
    # PyTorch's, which has no sign for NaN
    "sign": lambda x: np.where(x == x, np.sign(x), 0),
    "square": np.square,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": np.reciprocal,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "frac": lambda x: x - np.trunc(x),
    "copy": np.copy,
}


@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str, make: Make) -> None:
    check_special(getattr(ops, name), UNARY[name], make)


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc", "frac"])
def test_whole_parts_of_large_doubles(name: str, gpu: GpuDevice) -> None:
    """lavapipe's own are wrong from 2^24 on where processors have no AVX-512."""
    need(fw.float64, gpu)
    exponents = np.arange(-2, 62)
    x = np.concatenate([s * 2.0**exponents * (4 / 3) for s in (1, -1)])
    x = np.concatenate([x, 2.0**52 + np.arange(-3, 4) / 2, [0.5, 1.5, -2.5, -0.25]])
    found = getattr(ops, name)(fw.tensor(x, device=gpu)).numpy()
    np.testing.assert_array_equal(found, UNARY[name](x))
    assert np.array_equal(np.signbit(found), np.signbit(UNARY[name](x)))


@pytest.mark.parametrize("name", ["neg", "abs", "sqrt", "trunc", "round", "copy"])
def test_sign_of_zero(name: str, make: Make) -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    found = getattr(ops, name)(make(zeros)).numpy()
    assert np.array_equal(np.signbit(found), np.signbit(UNARY[name](zeros)))


def test_roots_of_zeros_keep_their_sign_when_fused(make: Make) -> None:
    """Compilers drop abs, and comparisons with 0, of what they take for positive."""
    x = make([-0.0, 0.0, 4.0])
    assert ops.tanh(ops.rsqrt(x)).tolist()[:2] == [-1.0, 1.0]
    assert ops.abs(ops.rsqrt(x)).tolist() == [INF, INF, 0.5]
    assert ops.relu(ops.rsqrt(x)).tolist() == [0.0, INF, 0.5]
    assert not np.signbit(ops.abs(ops.sqrt(x)).numpy()).any()


def test_halves_round_to_even(make: Make) -> None:
    x = make([0.5, 1.5, 2.5, -0.5, -1.5, 4194305.5])
    assert ops.round(x).tolist() == [0, 2, 2, 0, -2, 4194306]


@pytest.mark.parametrize("dtype", INT, ids=str)
def test_smallest_integer_has_no_opposite(dtype: DType, place: Device) -> None:
    need(dtype, place)
    ends = np.array(dtype.limits, dtype.numpy)
    for name in ("neg", "abs"):
        found = getattr(ops, name)(fw.tensor(ends, device=place))
        assert_close(found, UNARY[name](ends))


@pytest.mark.parametrize("name", ["sign", "floor", "ceil", "round", "trunc"])
def test_steps_are_flat(name: str, make: Make) -> None:
    x = make(SPECIAL, grad=True)
    y = getattr(ops, name)(x)
    y.backward(make(np.full(SPECIAL.shape, INF, np.float32)))
    assert not x.grad.numpy().any()


def test_slopes_at_special_values(make: Make) -> None:
    x = make([0.0, INF, NAN], grad=True)
    ops.abs(x).backward(fw.ones_like(x))
    assert_close(x.grad, np.array([0, 1, 0], np.float32))


def test_a_lazy_copy_shares_until_either_changes(gpu: GpuDevice) -> None:
    x = fw.tensor([1.0, 2.0], device=gpu)
    fw.eval()
    copy = lazy_copy(x)
    assert copy.array is not x.array
    assert copy.array.value is x.array.value
    assert not gpu.pending
    x.add_(1)
    assert (x.tolist(), copy.tolist()) == ([2, 3], [1, 2])


@pytest.mark.parametrize(
    "view",
    [lambda x: x.T, lambda x: x[1:], lambda x: x[:1], lambda x: x[0].expand(2, 2)],
)
def test_a_lazy_copy_of_a_view_is_row_major(view: Any, place: Device) -> None:
    x = view(fw.tensor([[1.0, 2.0], [3.0, 4.0]], device=place))
    copy = lazy_copy(x)
    assert copy.tolist() == x.tolist()
    assert copy.layout == Layout.contiguous(x.shape)
    assert copy.array.value.numel == copy.numel()
    copy.zero_()
    assert x.numpy().all()


@pytest.mark.parametrize("jitted", [False, True])
def test_a_lazy_copy_outlives_steps_that_train(jitted: bool, gpu: GpuDevice) -> None:
    weight = fw.nn.Parameter(fw.tensor([1.0, 2.0], device=gpu))
    optimizer = fw.optim.SGD([weight], 0.5)

    def step() -> None:
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()

    if jitted:
        step = fw.jit(step)
    copies = []
    for _ in range(3):
        step()
    for _ in range(4):
        copies.append(lazy_copy(weight.detach()))
        step()
    assert [each.tolist() for each in copies] == [
        [-0.5 - 0.5 * k, 0.5 - 0.5 * k] for k in range(4)
    ]
    assert weight.tolist() == [-2.5, -1.5]


def test_only_what_shares_is_copied(place: Device) -> None:
    x = fw.ones(2, device=place)
    other = x + 1
    assert unshared(other, x) is other
    assert unshared(x[:1], x).array is not x.array
