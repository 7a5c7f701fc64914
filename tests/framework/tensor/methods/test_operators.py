"""Python's operators."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.tensor.methods.calls import (
    FEW,
    TRUTH,
    WHOLE,
    Call,
    X,
    Y,
    agree,
    ours,
)
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import GradError

BOTH: dict[str, Call] = {
    "floordiv": lambda x, t: (x // t(Y), x // 0.7, 3 // x),
    "mod": lambda x, t: (x % t(Y), x % 0.7, 3 % x),
    "truediv": lambda x, t: (x / t(Y), 3 / x),
    "matmul": lambda x, t: x @ t(Y).mT,
    "unary": lambda x, t: (-x, +x, abs(x)),
}
INTEGERS: dict[str, Call] = {
    "and": lambda x, t: (x & t(FEW), x & 6, 6 & x),
    "or": lambda x, t: (x | t(FEW), x | 6, 6 | x),
    "xor": lambda x, t: (x ^ t(FEW), x ^ 6, 6 ^ x),
    "shifts": lambda x, t: (x << t(FEW), x >> t(FEW), x << 2, x >> 1),
    "reflected shifts": lambda x, t: (6 << t(FEW), 600 >> t(FEW)),
    "invert": lambda x, t: ~x,
    "floordiv": lambda x, t: (x // t(FEW), x // -2),
    "mod": lambda x, t: (x % t(FEW), x % -2),
}


def changed(x: object, name: str, other: object) -> object:
    """Apply an assignment operator and return the tensor, which must stay itself."""
    result = getattr(x, f"__{name}__")(other)
    assert result is x
    return result


IN_PLACE = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod")
IN_PLACE_INTEGERS = ("iand", "ior", "ixor", "ilshift", "irshift", "ifloordiv", "imod")


@pytest.mark.parametrize("name", BOTH)
def test_of_floats(name: str, place: Device) -> None:
    agree(BOTH[name], X, place)


@pytest.mark.parametrize("name", INTEGERS)
def test_of_integers(name: str, place: Device) -> None:
    agree(INTEGERS[name], WHOLE, place)


def test_of_bools(place: Device) -> None:
    agree(lambda x, t: (x & ~x, x | t(TRUTH[:1]), x ^ x, ~x), TRUTH, place)


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str, place: Device) -> None:
    agree(lambda x, t: changed(x, name, t(Y)), X, place)
    agree(lambda x, t: changed(x, name, 0.7), X, place)


@pytest.mark.parametrize("name", IN_PLACE_INTEGERS)
def test_in_place_of_integers(name: str, place: Device) -> None:
    agree(lambda x, t: changed(x, name, t(FEW)), WHOLE, place)


def test_in_place_power(place: Device) -> None:
    agree(lambda x, t: changed(x, "ipow", 2), X, place)


def test_products_with_arrays(place: Device) -> None:
    x = ours(place)(X)
    np.testing.assert_allclose((x @ Y.T).numpy(), X @ Y.T, rtol=1e-6)
    np.testing.assert_allclose((Y.T @ x).numpy(), Y.T @ X, rtol=1e-6)
    with pytest.raises(TypeError) as raised:
        x @ 2
    assert str(raised.value) == "matmul: 2 is a number; use * for it"


def test_views_see_assignment_operators(place: Device) -> None:
    x = ours(place)(WHOLE)
    row = x[0]
    row <<= 1
    x[1] //= 2
    assert x.tolist() == [[10, -6, 14], [1, 0, -4]]


def test_in_place_is_not_recorded(place: Device) -> None:
    x = fw.ones(3, device=place, requires_grad=True)
    with pytest.raises(GradError, match="in place"):
        x += 1
