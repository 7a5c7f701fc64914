"""Movements: views, and copies where no view is possible."""

from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.dtype import FLOAT
from vkbackend.framework.base.errors import GradError
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.dispatch.declare import movement

Make = Callable[..., fw.Tensor]


@pytest.mark.usefixtures("registry")
def test_movement_copies_where_it_must(make: Make) -> None:
    @movement(dtypes=FLOAT)
    def rows(x: fw.Tensor, count: int) -> fw.Tensor:
        """Return the first rows of row-major storage."""

    @rows.layout
    def rows_layout(layout: Layout, count: int) -> Layout | None:
        shape = (count, *layout.shape[1:])
        return Layout(shape, *layout[1:]) if layout.is_contiguous else None

    x = make(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert rows(x, 1).array is x.array
    assert rows(x.T, 1).tolist() == [[0, 3]]
    y = x.requires_grad_() * 1.0
    with pytest.raises(GradError, match="rows has no gradient rule"):
        rows(y, 1).sum().backward()
