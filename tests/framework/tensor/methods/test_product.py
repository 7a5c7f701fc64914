"""Methods for products of matrices and vectors."""

import numpy as np
import pytest

from tests.framework.tensor.methods.calls import Call, X, Y, agree, public
from vkbackend.framework.base.device import Device
from vkbackend.framework.tensor.methods import ProductMethods

SQUARE = np.arange(4, dtype=np.float32).reshape(2, 2) / 2

CALLS: dict[str, Call] = {
    "matmul": lambda x, t: (x.matmul(t(Y).mT), x.matmul(t(Y[0]))),
    "mm": lambda x, t: x.mm(t(Y).mT),
    "bmm": lambda x, t: x[None].bmm(t(Y).mT[None]),
    "mv": lambda x, t: x.mv(t(Y[0])),
    "dot": lambda x, t: x[0].dot(t(Y[0])),
    "vdot": lambda x, t: x[0].vdot(t(Y[0])),
    "outer": lambda x, t: x[0].outer(t(Y[1])),
    "addmm": lambda x, t: x.addmm(t(SQUARE), t(Y), beta=0.5, alpha=2),
    "baddbmm": lambda x, t: x[None].baddbmm(t(SQUARE)[None], t(Y)[None], beta=2),
}


@pytest.mark.parametrize("name", CALLS)
def test_method(name: str, place: Device) -> None:
    agree(CALLS[name], X, place)


def test_every_method_has_a_row() -> None:
    assert public(ProductMethods) == set(CALLS)
