"""Diagonals of matrices."""

import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.agree import Row, agree
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError

ROWS = {
    "diagonal": Row(
        lambda x: ops.diagonal(x, -1, 0, 2), lambda x: x.diagonal(-1, 0, 2), (4, 3, 5)
    ),
    "diag of a vector": Row(lambda x: ops.diag(x, 2), lambda x: x.diag(2), (4,)),
    "diag of a matrix": Row(lambda x: ops.diag(x, -1), lambda x: x.diag(-1), (4, 5)),
    "diag_embed": Row(
        lambda x: ops.diag_embed(x, -1), lambda x: torch.diag_embed(x, -1), (2, 3, 4)
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_as_in_torch(name: str, place: Device) -> None:
    agree(ROWS[name], place)


def test_a_diagonal_is_a_view(place: Device) -> None:
    x = fw.zeros((3, 3), device=place)
    ops.diagonal(x).fill_(1)
    assert x.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_diagonals_of_nothing(place: Device) -> None:
    assert ops.diag(fw.zeros(0, device=place), 1).tolist() == [[0]]
    assert ops.diagonal(fw.zeros((2, 3), device=place), 9).shape == (0,)


def test_bad_input() -> None:
    with pytest.raises(ShapeError) as raised:
        ops.diag(fw.ones((1, 2, 3)))
    assert str(raised.value) == ("diag: x is (1, 2, 3); it must have 1 or 2 dimensions")


@pytest.mark.parametrize("shape", [(3, 5), (1, 4), (5, 5)])
def test_trace(shape: tuple[int, ...], place: Device) -> None:
    agree(Row(ops.trace, torch.trace, shape, dtypes=("float32", "int64")), place)
