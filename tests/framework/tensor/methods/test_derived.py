"""Methods for functions that are written with others, and diagonals filled."""

import pytest

import vkbackend.framework as fw
from tests.torch_calls import check
from vkbackend.framework.base.errors import ShapeError

CALLS = """\
m.quantile(0.4, dim=1, interpolation="lower")
p.polygamma(1)
p.clone().polygamma_(1)
m.mH
m.H
m.clone().xlogy_(p)
m.clone().deg2rad_()
m.clone().fill_diagonal_(7)
T.zeros((7, 3)).fill_diagonal_(1, wrap=True)
T.zeros((7, 3)).fill_diagonal_(1)
T.zeros((3, 3, 3)).fill_diagonal_(2)
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_call(call: str) -> None:
    check(call)


def test_a_shape_without_a_diagonal() -> None:
    with pytest.raises(ShapeError, match="fill_diagonal_: x is"):
        fw.ones(2, 3, 3).fill_diagonal_(1)
