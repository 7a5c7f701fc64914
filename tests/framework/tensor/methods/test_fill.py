"""Methods that replace elements: by others, where an index says, by random ones."""

from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.tensor.methods.calls import TRUTH, Call, X, Y, agree, ours, public
from tests.framework.tensor.methods.test_indexing import COLUMNS, PLACES
from vkbackend.framework.base.device import Device
from vkbackend.framework.tensor import inplace
from vkbackend.framework.tensor.methods import FillMethods

CALLS: dict[str, Call] = {
    "copy_": lambda x, t: (x.copy_(t(Y)), x.copy_(t(Y[0]))),
    "fill_": lambda x, t: (x.fill_(3), x.fill_(t(2.5))),
    "zero_": lambda x, t: x.zero_(),
    "masked_fill_": lambda x, t: x.masked_fill_(t(TRUTH), 7),
    "index_fill_": lambda x, t: x.index_fill_(1, t(COLUMNS), 7),
    "index_add_": lambda x, t: x.index_add_(1, t(COLUMNS), t(Y[:, :2]), alpha=2),
    "index_copy_": lambda x, t: x.index_copy_(1, t(COLUMNS), t(Y[:, :2])),
    "scatter_": lambda x, t: x.scatter_(1, t(PLACES[:, :1]), t(Y)),
    "scatter_reduce_": lambda x, t: x.scatter_reduce_(1, t(PLACES), t(Y), "amin"),
    "index_put_": lambda x, t: x.index_put_((t(TRUTH),), t([7.0])),
    "put_": lambda x, t: x.put_(t(COLUMNS), t(Y[0, :2]), accumulate=True),
    "masked_scatter_": lambda x, t: x.masked_scatter_(t(TRUTH), t(Y)),
    "scatter_add_": lambda x, t: x.scatter_add_(1, t(PLACES), t(Y)),
}
DRAWS: dict[str, Callable[[fw.Tensor, fw.Generator], fw.Tensor]] = {
    "uniform_": lambda x, g: x.uniform_(-1, 3, generator=g),
    "normal_": lambda x, g: x.normal_(1, 2, generator=g),
    "exponential_": lambda x, g: x.exponential_(0.5, generator=g),
    "cauchy_": lambda x, g: x.cauchy_(1, 2, generator=g),
    "log_normal_": lambda x, g: x.log_normal_(1, 2, generator=g),
    "geometric_": lambda x, g: x.geometric_(0.5, generator=g),
    "bernoulli_": lambda x, g: x.bernoulli_(0.25, generator=g),
    "random_": lambda x, g: x.random_(-1, 4, generator=g),
}
SAME: dict[str, Callable[[fw.Tensor, fw.Generator], fw.Tensor]] = {
    "uniform_": lambda x, g: inplace.fill_uniform(x, -1, 3, g),
    "normal_": lambda x, g: inplace.fill_normal(x, 1, 2, g),
    "exponential_": lambda x, g: inplace.fill_exponential(x, 0.5, g),
    # Their distributions are looked at in `test_keywords`.
    "cauchy_": DRAWS["cauchy_"],
    "log_normal_": DRAWS["log_normal_"],
    "geometric_": DRAWS["geometric_"],
    "bernoulli_": lambda x, g: inplace.fill_bernoulli(x, 0.25, g),
    "random_": lambda x, g: inplace.fill_integers(x, -1, 4, g),
}


@pytest.mark.parametrize("name", CALLS)
def test_method(name: str, place: Device) -> None:
    agree(CALLS[name], X, place)


def test_every_method_has_a_row() -> None:
    assert public(FillMethods) == {*CALLS, *DRAWS}


@pytest.mark.parametrize("name", DRAWS)
def test_draws(name: str, place: Device) -> None:
    x = fw.zeros(50, device=place)
    assert DRAWS[name](x, fw.Generator(3)) is x
    expected = SAME[name](fw.zeros(50, device=place), fw.Generator(3))
    assert np.unique(x.numpy()).size > 1
    np.testing.assert_array_equal(x.numpy(), expected.numpy())


def test_the_tensor_itself_is_returned(place: Device) -> None:
    x = ours(place)(X)
    assert x.zero_().fill_(1).masked_fill_(ours(place)(TRUTH), 2) is x
