"""Elements by their place in the flat tensor, against PyTorch."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.agree import Row, agree
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import DTypeError, IndexRangeError, ShapeError

PLACES = np.array([[3, 0, -1], [7, 3, 5]])
APART = np.array([[3, 0, -1], [7, 2, 5]])
MASK = np.arange(15).reshape(3, 5) % 3 > 0

ROWS = {
    "take": Row(ops.take, lambda x, i: x.take(i), (3, 5), (PLACES,)),
    "put": Row(ops.put, lambda x, i, s: x.put(i, s), (3, 5), (APART,), ((6,),)),
    "put added": Row(
        lambda x, i, s: ops.put(x, i, s, accumulate=True),
        lambda x, i, s: x.put(i, s, accumulate=True),
        (3, 5),
        (PLACES,),
        ((2, 3),),
        dtypes=("float32", "int64"),
    ),
    "masked_scatter": Row(
        ops.masked_scatter,
        lambda x, m, s: x.masked_scatter(m, s),
        (3, 5),
        (MASK,),
        ((4, 3),),
    ),
    "masked_scatter of a row": Row(
        ops.masked_scatter,
        lambda x, m, s: x.masked_scatter(m, s),
        (3, 5),
        (MASK[0],),
        ((11,),),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, place: Device) -> None:
    agree(ROWS[name], place)


def test_missing_elements(place: Device) -> None:
    x, mask = fw.zeros(4, device=place), fw.tensor([True, False, True, True])
    source = fw.tensor([1.0, 2.0], device=place)
    with pytest.raises(IndexRangeError) as raised:
        ops.masked_scatter(x, mask.to(place), source).numpy()
    assert str(raised.value) == (
        "masked_scatter: index 2 is out of range: source has size 2"
    )


def test_nothing_is_taken(place: Device) -> None:
    x, reduce_empty = fw.ones(3, device=place), fw.zeros(0, device=place)
    mask = fw.zeros(3, "bool", place)
    assert ops.masked_scatter(x, mask, reduce_empty).tolist() == [1, 1, 1]
    assert ops.take(x, fw.zeros((0, 2), "int32", place)).shape == (0, 2)


def test_bad_input() -> None:
    x, index = fw.ones((2, 3)), fw.zeros((2, 3), "int32")
    with pytest.raises(ShapeError, match=r"put: index is \(2, 3\), source \(2,\); the"):
        ops.put(x, index, x[:, 0])
    with pytest.raises(DTypeError, match="put: source is int32, x float32; they must"):
        ops.put(x, index, index)
    with pytest.raises(DTypeError, match="masked_scatter: source is int32, x float32"):
        ops.masked_scatter(x, x > 0, index)
    with pytest.raises(DTypeError, match="masked_scatter: `mask` is int32; accepted"):
        ops.masked_scatter(x, index, x)
    with pytest.raises(ShapeError, match="masked_scatter: shapes do not broadcast"):
        ops.masked_scatter(x, x[:, :2] > 0, x)
    with pytest.raises(ShapeError, match="take: index 6 is out of range"):
        ops.take(x, fw.tensor([6]))
    with pytest.raises(DTypeError, match="the indices are float32"):
        ops.take(x, x)
