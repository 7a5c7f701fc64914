"""Named and chosen contractions against PyTorch."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.twin import Make, as_in_torch
from vkbackend.framework import ops
from vkbackend.framework.base.errors import ShapeError

EQUATIONS: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("ij,jk->ik", ((3, 4), (4, 5))),
    ("ij,jk", ((3, 4), (4, 5))),
    ("bik,bkj->bij", ((2, 3, 4), (2, 4, 5))),
    ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
    ("ab,bc,cd->ad", ((2, 3), (3, 4), (4, 5))),
    ("a,b,c->cab", ((2,), (3,), (4,))),
    ("i,i", ((5,), (5,))),
    ("i,j->ij", ((3,), (4,))),
    ("ij,ij->ij", ((3, 4), (3, 4))),
    ("ij,ij->i", ((3, 4), (3, 4))),
    ("ik,kj->j", ((3, 4), (4, 5))),
    # One operand: sums, order, diagonals.
    ("ij->", ((2, 3),)),
    ("ij->j", ((2, 3),)),
    ("ijk->kji", ((2, 3, 4),)),
    ("ii", ((4, 4),)),
    ("ii->i", ((4, 4),)),
    ("iii->i", ((3, 3, 3),)),
    ("iji->j", ((3, 4, 3),)),
    ("iij,jk->ik", ((3, 3, 4), (4, 2))),
    # An ellipsis, and sizes that broadcast.
    ("...ij,...jk->...ik", ((2, 1, 3, 4), (5, 4, 6))),
    ("...,...->...", ((3, 1), (1, 4))),
    ("b...,b->...", ((3, 4, 5), (3,))),
    ("i...->...", ((3, 4),)),
    ("...ii->...i", ((2, 3, 3),)),
    ("ij,jk->ik", ((3, 1), (4, 5))),
    # Spelling.
    (" B a , aB -> aB ", ((3, 4), (4, 3))),
    ("zA,Az", ((2, 3), (3, 2))),
    ("ij,jk->ik", ((0, 4), (4, 5))),
]
IDS = [f"{equation}-{shapes}" for equation, shapes in EQUATIONS]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS, ids=IDS)
def test_einsum(equation: str, shapes: tuple[tuple[int, ...], ...], make: Make) -> None:
    as_in_torch(
        make,
        lambda *tensors: ops.einsum(equation, *tensors),
        lambda *tensors: torch.einsum(equation, *tensors),
        *shapes,
    )


@pytest.mark.parametrize(
    ("first", "second", "dims"),
    [
        ((3, 4, 5), (4, 5, 6), 2),
        ((3, 4, 5), (5, 3, 2), ([2, 0], [0, 1])),
        ((3, 4), (4,), ([-1], [0])),
        ((2, 3), (4,), 0),
        ((3,), (3,), 1),
    ],
)
def test_tensordot(
    first: tuple[int, ...], second: tuple[int, ...], dims: Any, make: Make
) -> None:
    as_in_torch(make, ops.tensordot, torch.tensordot, first, second, dims=dims)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: ops.einsum("ij,jk", x),
            "einsum: 'ij,jk' names 2 operands; 1 are given",
        ),
        (
            lambda x: ops.einsum("i", x),
            "einsum: 'i' of 'i' does not fit a tensor of shape (2, 3); it must name"
            " each of its 2 dimensions",
        ),
        (
            lambda x: ops.einsum("i.j", x),
            "einsum: 'i.j' of 'i.j' is no list of dimensions; it must be letters, with"
            " '...' at most once",
        ),
        (
            lambda x: ops.einsum("ij->k", x),
            "einsum: the result of 'ij->k' has 'k'; its letters must be the operands',"
            " each once",
        ),
        (
            lambda x: ops.einsum("ij,ij", x, x.mT),
            "einsum: 'i' of 'ij,ij' has sizes 2 and 3; they must be equal or 1",
        ),
        (
            lambda x: ops.tensordot(x, x, 3),
            "tensordot: dims is 3; it must be from 0 to the number of dimensions of a"
            " (2, 3) and of b (2, 3)",
        ),
        (
            lambda x: ops.tensordot(x, x, 1),
            "tensordot: dims (1,) of a (2, 3) and (0,) of b (2, 3) do not match; their"
            " sizes must be equal, each dimension once",
        ),
    ],
)
def test_bad_input(call: Any, text: str) -> None:
    with pytest.raises(ShapeError) as raised:
        call(fw.ones((2, 3)))
    assert str(raised.value) == text


def test_operands_may_be_followed_by_their_dimensions() -> None:
    calls: list[Any] = [
        lambda m, x, y: m.einsum(x, [0, 1], y, [1, 30], [30, 0]),
        lambda m, x, y: m.einsum(x, [1, 0]),
        lambda m, x, y: m.einsum(x, [..., 0], [0, ...]),
        lambda m, x, y: m.einsum(y @ x, (26, 26), ()),
        lambda m, x, y: m.einsum(x, m.tensor([30, 1])),
    ]
    for call in calls:
        found = []
        for module in (torch, fw):
            x = module.arange(6.0).reshape(2, 3)
            found.append(call(module, x, x.mT + 1).tolist())
        assert found[0] == found[1]
    with pytest.raises(ShapeError, match="a dimension is 52; it must be from 0 to 51"):
        fw.einsum(fw.ones(2), [52])
    with pytest.raises(TypeError, match="2 follows an operand"):
        fw.einsum(fw.ones(2), 2)
