"""In-place forms of functions of several tensors."""

import numpy as np
import pytest

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
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.tensor.methods import InPlaceBinaryMethods

SQUARE = np.arange(9, dtype=np.float32).reshape(3, 3)

FLOATS: dict[str, Call] = {
    "add_": lambda x, t: x.add_(t(Y), alpha=0.5),
    "sub_": lambda x, t: x.sub_(t(Y), alpha=0.5),
    "mul_": lambda x, t: x.mul_(t(Y)),
    "div_": lambda x, t: x.div_(t(Y), rounding_mode="trunc"),
    "atan2_": lambda x, t: x.atan2_(t(Y)),
    "copysign_": lambda x, t: x.copysign_(t(Y)),
    "floor_divide_": lambda x, t: x.floor_divide_(t(Y)),
    "fmod_": lambda x, t: x.fmod_(0.7),
    "remainder_": lambda x, t: x.remainder_(0.7),
    "hypot_": lambda x, t: x.hypot_(t(Y)),
    "eq_": lambda x, t: x.eq_(2),
    "ne_": lambda x, t: x.ne_(2),
    "lt_": lambda x, t: x.lt_(t(Y)),
    "le_": lambda x, t: x.le_(t(Y)),
    "gt_": lambda x, t: x.gt_(t(Y)),
    "ge_": lambda x, t: x.ge_(t(Y)),
    "clamp_": lambda x, t: x.clamp_(-1, 1),
    "clamp_min_": lambda x, t: x.clamp_min_(0),
    "clamp_max_": lambda x, t: x.clamp_max_(0),
    "lerp_": lambda x, t: x.lerp_(t(Y), 0.25),
    "addcmul_": lambda x, t: x.addcmul_(t(Y), t(X), value=2),
    "addcdiv_": lambda x, t: x.addcdiv_(t(Y), t(X), value=2),
    "tril_": lambda x, t: x.tril_(),
    "triu_": lambda x, t: x.triu_(1),
    "cumsum_": lambda x, t: x.cumsum_(1),
    "cumprod_": lambda x, t: x.cumprod_(0),
    "addmm_": lambda x, t: x.addmm_(t(Y), t(SQUARE), beta=0.5, alpha=2),
    "baddbmm_": lambda x, t: x[None].baddbmm_(t(Y)[None], t(SQUARE)[None]),
    "logical_and_": lambda x, t: x.logical_and_(t(TRUTH)),
    "logical_or_": lambda x, t: x.logical_or_(t(TRUTH)),
    "logical_xor_": lambda x, t: x.logical_xor_(t(TRUTH)),
}
INTEGERS: dict[str, Call] = {
    "bitwise_and_": lambda x, t: x.bitwise_and_(t(FEW)),
    "bitwise_or_": lambda x, t: x.bitwise_or_(6),
    "bitwise_xor_": lambda x, t: x.bitwise_xor_(t(FEW)),
    "bitwise_left_shift_": lambda x, t: x.bitwise_left_shift_(t(FEW)),
    "bitwise_right_shift_": lambda x, t: x.bitwise_right_shift_(t(FEW)),
}
POWERS: dict[str, Call] = {"pow_": lambda x, t: x.pow_(t(Y))}


@pytest.mark.parametrize("name", FLOATS)
def test_of_floats(name: str, place: Device) -> None:
    agree(FLOATS[name], X, place)


@pytest.mark.parametrize("name", INTEGERS)
def test_of_integers(name: str, place: Device) -> None:
    agree(INTEGERS[name], WHOLE, place)


def test_powers(place: Device) -> None:
    agree(POWERS["pow_"], POSITIVE, place, scale=4)  # exp2 of a product


def test_every_method_has_a_row() -> None:
    assert public(InPlaceBinaryMethods) == {*FLOATS, *INTEGERS, *POWERS}


def test_the_tensor_itself_is_returned(place: Device) -> None:
    x = ours(place)(X)
    assert x.mul_(2).clamp_(0, 1).addcmul_(x, x) is x


def test_the_dtype_stays(place: Device) -> None:
    x = ours(place)(WHOLE)
    with pytest.raises(DTypeError) as raised:
        x.mul_(0.5)
    assert str(raised.value) == (
        "in place: the result is float32, which int32 does not hold; write x = f(x), or"
        " cast the tensor first"
    )
    with pytest.raises(DTypeError, match="the result is int32, which bool does not"):
        ours(place)(TRUTH).add_(x)
    with pytest.raises(ShapeError, match=r"the result has shape \(2, 2, 3\)"):
        x.add_(ours(place)(WHOLE[None].repeat(2, 0)))
    assert x.tolist() == WHOLE.tolist()
