"""Which strided tensors rows are taken from in place."""

import pytest

from vkbackend.framework.base.dtype import float32, int32
from vkbackend.framework.base.shape import Layout, TensorSpec
from vkbackend.framework.kernels.gather import GatherLayout, gathers_in_place


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
        TensorSpec(shape, float32),
        Layout(shape, strides),
        (1, 2),
        TensorSpec(index, int32),
    )
    assert found is wanted


def test_elements_of_rows() -> None:
    shape = (4, 8, 1)
    index = TensorSpec((4, 99, 1), int32)
    spec = TensorSpec(shape, float32)
    assert gathers_in_place(spec, Layout(shape, (16, 1, 1)), (1, 2), index)
    assert not gathers_in_place(spec, Layout(shape, (1, 16, 1)), (1, 2), index)


def test_parts_of_several_dimensions() -> None:
    layout = Layout((4, 8, 16, 5), (640, 0, 5, 1))
    index, spec = TensorSpec((99,), int32), TensorSpec(layout.shape, float32)
    assert gathers_in_place(spec, layout, (0, 4), index)
    parts = GatherLayout.of(layout, (0, 4))
    assert parts.shape == (1, 2560, 1)
    push, constants = parts.arguments()
    assert [constants[f"{n}_DIGITS"] for n in ("OUTER", "ROW", "INNER")] == [0, 2, 0]
    assert [push[f"digit[{k}]"] for k in (2, 3, 6, 7)] == [80, 1, 8, 0]
    assert [push[f"stride[{k}]"] for k in range(3)] == [0, 640, 0]
    assert not gathers_in_place(
        spec, Layout((4, 8, 16, 5), (640, 0, 5, 0)), (0, 4), index
    )
