"""Methods that sort, count and choose elements."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.tensor.methods.calls import TRUTH, Call, X, Y, agree, public
from vkbackend.framework.base.device import Device
from vkbackend.framework.tensor.methods import ChoiceMethods

PLACES = np.array([[0, 2, 1], [2, 2, 0]], np.int32)
COLUMNS = np.array([2, 0], np.int32)
LABELS = np.array([1, 3, 1, 0], np.int32)
WEIGHTS = np.array([0.5, 1.0, 2.0, 4.0], np.float32)

CALLS: dict[str, Call] = {
    "sort": lambda x, t: (*x.sort(), *x.sort(0, descending=True)),
    "argsort": lambda x, t: (x.argsort(), x.argsort(0, True)),
    "topk": lambda x, t: (*x.topk(2), *x.topk(1, 0, largest=False)),
    "kthvalue": lambda x, t: (*x.kthvalue(2), *x.kthvalue(1, 0, keepdim=True)),
    "unique": lambda x, t: (
        *t(LABELS).unique(return_inverse=True, return_counts=True),
        t(PLACES).unique(dim=1),
    ),
    "bincount": lambda x, t: (t(LABELS).bincount(), t(LABELS).bincount(t(WEIGHTS), 6)),
    "histc": lambda x, t: (x.histc(4), x.histc(3, -1, 2)),
    "nonzero": lambda x, t: ((x > 0).nonzero(), *x.nonzero(as_tuple=True)),
    "masked_fill": lambda x, t: x.masked_fill(t(TRUTH), 7),
    "masked_select": lambda x, t: x.masked_select(t(TRUTH)),
    "gather": lambda x, t: x.gather(1, t(PLACES)),
    "take_along_dim": lambda x, t: (
        x.take_along_dim(t(PLACES[:, :1]), 1), x.take_along_dim(t(LABELS)),
    ),
    "scatter": lambda x, t: (
        x.scatter(1, t(PLACES[:, :1]), t(Y)), x.scatter(0, t(PLACES[:, :1] // 2), 7),
    ),
    "scatter_add": lambda x, t: x.scatter_add(1, t(PLACES), t(Y)),
    "scatter_reduce": lambda x, t: (
        x.scatter_reduce(1, t(PLACES), t(Y), "prod"),
        x.scatter_reduce(1, t(PLACES), t(Y), "amax", include_self=False),
    ),
    "index_put": lambda x, t: (
        x.index_put((t(LABELS[:2] % 2), t(COLUMNS)), t(Y[0, :2])),
        x.index_put((t(COLUMNS // 2),), t(Y), accumulate=True),
    ),
    "take": lambda x, t: x.take(t(LABELS)),
    "put": lambda x, t: x.put(t(COLUMNS), t(Y[0, :2])),
    "masked_scatter": lambda x, t: x.masked_scatter(t(TRUTH), t(Y)),
    "index_select": lambda x, t: x.index_select(1, t(COLUMNS)),
    "index_add": lambda x, t: x.index_add(1, t(COLUMNS), t(Y[:, :2]), alpha=2),
    "index_copy": lambda x, t: x.index_copy(1, t(COLUMNS), t(Y[:, :2])),
    "index_fill": lambda x, t: x.index_fill(1, t(COLUMNS), 7),
}  # fmt: skip
DRAWN = {"bernoulli", "multinomial"}


@pytest.mark.parametrize("name", CALLS)
def test_method(name: str, place: Device) -> None:
    agree(CALLS[name], X, place)


def test_every_method_has_a_row() -> None:
    assert public(ChoiceMethods) == {*CALLS, *DRAWN}


def test_draws(place: Device) -> None:
    certain = fw.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], device=place)
    assert certain.bernoulli().tolist() == certain.tolist()
    assert certain.multinomial(1).tolist() == [[1], [0]]
    assert certain.multinomial(2, replacement=True).tolist() == [[1, 1], [0, 0]]
