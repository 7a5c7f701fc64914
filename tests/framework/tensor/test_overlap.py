"""Layouts that share a part of their memory, and those that share all or nothing."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.tensor.overlap import refuse_partial_overlap

BASE = fw.zeros(4, 4)


@pytest.mark.parametrize(
    "given",
    [BASE, BASE[:2].clone(), BASE[2:], BASE[:, 1], BASE[0].expand(4, 4), BASE[:0], 1.0],
)
def test_taken(given: object) -> None:
    refuse_partial_overlap("f", BASE if given is BASE else BASE[:2], (given,))


@pytest.mark.parametrize("given", [BASE[1:3], BASE[0], BASE[:2].reshape(4, 2)])
def test_refused(given: fw.Tensor) -> None:
    for each in (given, [given]):
        with pytest.raises(ShapeError, match="f: an argument of shape"):
            refuse_partial_overlap("f", BASE[:2], (0, each))
