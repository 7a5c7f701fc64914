"""Sorted order, and what sums are taken in."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.ops.indexing.segment_sum import argsort_keys, sum_dtype


@pytest.mark.parametrize("count", [1, 255, 256, 257, 511, 513, 2049, 4099, 70_001])
def test_equal_keys_keep_their_order(count: int, place: Device) -> None:
    keys = np.random.default_rng(count).integers(-3, 3, count).astype(np.int32)
    found = argsort_keys(fw.tensor(keys, device=place)).numpy()
    assert np.array_equal(found, np.argsort(keys.view(np.uint32), kind="stable"))


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [
        ("float16", "float32"),
        ("int8", "int32"),
        ("uint16", "uint32"),
        ("int64", "int64"),
    ],
)
def test_narrow_dtypes_are_added_up_in_wide_ones(dtype: str, wide: str) -> None:
    assert sum_dtype(DTYPES[dtype]) is DTYPES[wide]
