"""Indices of rows on the host: what names a row, and how it counts."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.dtype import int32, int64
from vkbackend.framework.base.errors import IndexDTypeError, IndexRangeError
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.ops.indexing.row_index import (
    checked_rows,
    index_constants,
    readable_index,
)


def test_rows_count_from_the_front_or_the_end() -> None:
    given = np.array([0, 2, 1], np.int32)
    assert checked_rows(given, 3, "x", False).tolist() == [0, 2, 1]
    assert checked_rows(given - 3, 3, "x", True).tolist() == [0, 2, 1]
    for index, from_end in ((given - 1, False), (given + 1, False), (given - 4, True)):
        with pytest.raises(IndexRangeError):
            checked_rows(index, 3, "x", from_end)


def test_what_shaders_read() -> None:
    assert index_constants(TensorSpec((3,), int64), True) == {
        "INDEX_WORDS": 2,
        "INDEX_SIGNED": 1,
        "FROM_END": 1,
    }
    assert readable_index("x", fw.zeros(2, dtype="uint8")).dtype is int32
    with pytest.raises(IndexDTypeError, match="x: the indices are float32"):
        readable_index("x", fw.zeros(2))
