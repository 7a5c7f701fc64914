"""The sum of squares of many tensors."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import Device
from vkbackend.framework.ops.reduce.multi_tensor_norm import (
    CHUNK,
    MOST_TENSORS,
    square_sum,
)


@pytest.mark.parametrize("count", [1, MOST_TENSORS, 2 * MOST_TENSORS + 1])
def test_any_number_of_tensors(
    count: int, place: Device, rng: np.random.Generator
) -> None:
    arrays = [rng.normal(size=(k * 13) % 40).astype(np.float32) for k in range(count)]
    arrays[-1] = rng.normal(size=(2, CHUNK)).astype(np.float32)
    found = square_sum([fw.tensor(each, device=place) for each in arrays])
    expected = sum(np.sum(np.square(each, dtype=np.float64)) for each in arrays)
    assert_close(found, np.float32(expected), scale=4)


def test_no_elements_and_wide_ones(half_place: Device) -> None:
    assert square_sum([fw.zeros(0, device=half_place)] * 2).item() == 0
    halves = [fw.full(3, 300.0, dtype=fw.float16, device=half_place)] * 2
    found = square_sum(halves)
    assert (found.dtype, found.item()) == (fw.float32, 540000.0)
