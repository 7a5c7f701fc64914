"""Special values of signs, roots and rounding."""

from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.special import INF, NAN, SPECIAL, check_special, need
from vkbackend.framework import ops
from vkbackend.framework.device import Device
from vkbackend.framework.dtype import INT, DType

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
