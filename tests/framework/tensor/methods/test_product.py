"""Methods for products of matrices and vectors."""

import numpy as np
import pytest

from tests.framework.tensor.methods.calls import Call, X, Y, agree, public
from vkbackend.framework.base.device import Device
from vkbackend.framework.tensor.methods import ProductMethods

DEFINITE = np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)
FACTOR = np.array([[1.5, 0.0], [0.25, 1.0]], np.float32)
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
    "det": lambda x, t: t(DEFINITE).det(),
    "logdet": lambda x, t: t(DEFINITE).logdet(),
    "slogdet": lambda x, t: t(DEFINITE).slogdet(),
    "inverse": lambda x, t: t(DEFINITE).inverse(),
    "pinverse": lambda x, t: t(DEFINITE).pinverse(),
    "matrix_exp": lambda x, t: t(SQUARE).matrix_exp(),
    "cholesky": lambda x, t: t(DEFINITE).cholesky(),
    "cholesky_inverse": lambda x, t: t(FACTOR).cholesky_inverse(),
    "cholesky_solve": lambda x, t: t(DEFINITE).cholesky_solve(t(FACTOR)),
    "triangular_solve": lambda x, t: t(DEFINITE).triangular_solve(
        t(FACTOR), upper=False
    ),
    "lu_solve": lambda x, t: t(DEFINITE).lu_solve(t(FACTOR), t([1, 2]).int()),
    # The signs of columns are open.
    "qr": lambda x, t: [each.abs() for each in x.qr()],
    "svd": lambda x, t: x.svd()[1],
    "orgqr": lambda x, t: t(FACTOR).orgqr(t([0.5, 0.25])),
    "baddbmm": lambda x, t: x[None].baddbmm(t(SQUARE)[None], t(Y)[None], beta=2),
}


# PyTorch has newer names for some of these.
@pytest.mark.filterwarnings("ignore:torch.* is deprecated:UserWarning")
@pytest.mark.parametrize("name", CALLS)
def test_method(name: str, place: Device) -> None:
    agree(CALLS[name], X, place)


def test_every_method_has_a_row() -> None:
    assert public(ProductMethods) == set(CALLS)
