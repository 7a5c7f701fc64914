"""Which strided tensors rows are taken from in place."""

import pytest

from vkbackend.framework.base.dtype import float32, int32
from vkbackend.framework.base.shape import Layout, TensorSpec
from vkbackend.framework.kernels.gather import gathers_in_place


@pytest.mark.parametrize(
    ("strides", "index", "wanted"),
    [
        # Broadcast along the batch, the rows, or the columns.
        ((0, 8, 1), (4, 16, 8), True),
        ((64, 0, 1), (16,), True),
        ((8, 1, 0), (4, 16, 8), True),
        # Rows further apart than their length.
        ((640, 16, 1), (4, 16, 8), True),
        ((640, 16, 1), (16,), False),
        ((640, 16, 1), (2,), True),
        # Columns of a transposed matrix are neighbours, its rows are not.
        ((64, 1, 8), (4, 16, 8), True),
        ((1, 32, 4), (4, 16, 8), False),
        ((1, 32, 4), (4, 2, 8), True),
        # 2^32 elements are more than a kernel counts.
        ((1 << 31, 8, 1), (4, 16, 8), False),
    ],
)
def test_in_place(
    strides: tuple[int, ...], index: tuple[int, ...], wanted: bool
) -> None:
    shape = (4, 8, 8)
    found = gathers_in_place(
        TensorSpec(shape, float32), Layout(shape, strides), TensorSpec(index, int32)
    )
    assert found is wanted


def test_elements_of_rows() -> None:
    shape = (4, 8, 1)
    index = TensorSpec((4, 99, 1), int32)
    spec = TensorSpec(shape, float32)
    assert gathers_in_place(spec, Layout(shape, (16, 1, 1)), index)
    assert not gathers_in_place(spec, Layout(shape, (1, 16, 1)), index)
