"""In-place forms of functions of each element alone."""

import pytest

import vkbackend.framework as fw
from tests.framework.tensor.methods.calls import WHOLE, agree, ours, public
from tests.framework.tensor.methods.test_elementwise import domain
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import DTypeError
from vkbackend.framework.tensor.methods import InPlaceUnaryMethods

NAMES = sorted(public(InPlaceUnaryMethods))


@pytest.mark.parametrize("name", NAMES)
def test_method(name: str, place: Device) -> None:
    data = domain(name.removesuffix("_"))
    agree(lambda x, t: getattr(x, name)(), data, place)
    x = ours(place)(data)
    assert getattr(x, name)() is x


def test_views_see_it(place: Device) -> None:
    x = fw.ones((2, 3), device=place)
    x[0].neg_()
    assert x.tolist() == [[-1, -1, -1], [1, 1, 1]]


def test_fractions_do_not_fit_into_integers(place: Device) -> None:
    x = ours(place)(WHOLE)
    with pytest.raises(DTypeError) as raised:
        x.exp_()
    assert "the result is float32, which int32 does not hold" in str(raised.value)
    assert x.tolist() == WHOLE.tolist()
