"""Methods for functions of the elements of several tensors."""

import warnings

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.tensor.methods.calls import (
    FEW,
    POSITIVE,
    TRUTH,
    WHOLE,
    Call,
    X,
    Y,
    agree,
    ours,
    public,
)
from vkbackend.framework.base.device import Device
from vkbackend.framework.tensor.methods import BinaryMethods

FLOATS: dict[str, Call] = {
    "add": lambda x, t: (x.add(t(Y)), x.add(2), x.add(t(Y), alpha=0.5)),
    "sub": lambda x, t: (x.sub(t(Y)), x.sub(2), x.sub(t(Y), alpha=-2)),
    "mul": lambda x, t: (x.mul(t(Y)), x.mul(2)),
    "div": lambda x, t: (x.div(t(Y)), x.div(0.7, rounding_mode="floor")),
    "atan2": lambda x, t: x.atan2(t(Y)),
    "copysign": lambda x, t: (x.copysign(t(Y)), x.copysign(-1)),
    "floor_divide": lambda x, t: (x.floor_divide(t(Y)), x.floor_divide(0.7)),
    "fmod": lambda x, t: (x.fmod(t(Y)), x.fmod(0.7)),
    "remainder": lambda x, t: (x.remainder(t(Y)), x.remainder(0.7)),
    "hypot": lambda x, t: x.hypot(t(Y)),
    "maximum": lambda x, t: x.maximum(t(Y)),
    "minimum": lambda x, t: x.minimum(t(Y)),
    "eq": lambda x, t: (x.eq(t(X)), x.eq(2)),
    "ne": lambda x, t: (x.ne(t(X)), x.ne(2)),
    "lt": lambda x, t: (x.lt(t(Y)), x.lt(2)),
    "le": lambda x, t: (x.le(t(Y)), x.le(2)),
    "gt": lambda x, t: (x.gt(t(Y)), x.gt(2)),
    "ge": lambda x, t: (x.ge(t(Y)), x.ge(2)),
    "logaddexp": lambda x, t: (x.logaddexp(t(Y)), x.logaddexp(t(X))),
    "isclose": lambda x, t: x.isclose(t(Y) * 0.3, rtol=0.5, atol=0.1),
    "allclose": lambda x, t: (x.allclose(t(Y)), x.allclose(x + 1e-6)),
    "equal": lambda x, t: (x.equal(t(X)), x.equal(t(Y)), x.equal(t(X[0]))),
    "clamp": lambda x, t: (x.clamp(-1, 1), x.clamp(max=0.5), x.clamp(t(Y))),
    "clamp_min": lambda x, t: (x.clamp_min(0), x.clamp_min(t(Y))),
    "clamp_max": lambda x, t: (x.clamp_max(0), x.clamp_max(t(Y))),
    "lerp": lambda x, t: (x.lerp(t(Y), 0.25), x.lerp(t(Y), t(X))),
    "addcmul": lambda x, t: x.addcmul(t(Y), t(X), value=2),
    "addcdiv": lambda x, t: x.addcdiv(t(Y), t(X), value=2),
    "where": lambda x, t: (x.where(t(TRUTH), t(Y)), x.where(t(TRUTH), 0)),
}
INTEGERS: dict[str, Call] = {
    "bitwise_and": lambda x, t: (x.bitwise_and(t(FEW)), x.bitwise_and(6)),
    "bitwise_or": lambda x, t: (x.bitwise_or(t(FEW)), x.bitwise_or(6)),
    "bitwise_xor": lambda x, t: (x.bitwise_xor(t(FEW)), x.bitwise_xor(6)),
    "bitwise_left_shift": lambda x, t: x.bitwise_left_shift(t(FEW)),
    "bitwise_right_shift": lambda x, t: x.bitwise_right_shift(t(FEW)),
    "logical_and": lambda x, t: x.logical_and(t(TRUTH)),
    "logical_or": lambda x, t: x.logical_or(t(TRUTH)),
    "logical_xor": lambda x, t: x.logical_xor(t(TRUTH)),
}
POWERS: dict[str, Call] = {"pow": lambda x, t: (x.pow(t(Y)), x.pow(2))}


@pytest.mark.parametrize("name", FLOATS)
def test_of_floats(name: str, place: Device) -> None:
    agree(FLOATS[name], X, place)


@pytest.mark.parametrize("name", INTEGERS)
def test_of_integers(name: str, place: Device) -> None:
    agree(INTEGERS[name], WHOLE, place)


def test_powers(place: Device) -> None:
    agree(POWERS["pow"], POSITIVE, place, scale=4)  # exp2 of a product


def test_every_method_has_a_row() -> None:
    assert public(BinaryMethods) == {*FLOATS, *INTEGERS, *POWERS}


def test_arrays_are_operands(place: Device) -> None:
    found = ours(place)(X).mul(Y).add(np.float32(1.0))
    np.testing.assert_array_equal(found.numpy(), X * Y + 1)


@pytest.mark.parametrize("name", ["add", "sub", "addcmul", "addcdiv"])
@pytest.mark.parametrize("suffix", ["", "_"])
def test_a_number_before_the_tensors(name: str, suffix: str) -> None:
    """An order that older programs write; PyTorch warns of it once."""
    found = []
    for library in (torch, fw):
        x = library.tensor([1.0, 2.0, 3.0])
        others = [x + 1] if name in ("add", "sub") else [x + 1, x * 2]
        call = getattr(x, name + suffix)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            result = call(0.5, *others)
        found.append((result.tolist(), x.tolist()))
        with pytest.raises(TypeError):
            call(*others, 0.5, 0.5)
    assert found[0] == found[1]
    assert "before the tensors" in str(warned[0].message)
