"""Samples as bytes: what goes in comes out, whatever is nested in what."""

import math
import random
import struct
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.data.record_codec import (
    SampleReader,
    encode_pair,
    encode_sample,
)

PLAIN = [
    *(None, True, False, 0, -1, (1 << 63) - 1, -(1 << 63), 1 << 63, -(1 << 200)),
    *(0.1, -0.0, math.inf, 1 - 2j, "", "é\ud800\0", b"", b"\0\xff"),
    *([], (), {}, [[1, [2]], (3,)], {"a": {1: None, (2, "b"): [0.5]}, None: b"x"}),
]


def again(sample: Any) -> Any:
    return SampleReader(encode_sample(sample)).whole()


def test_plain_values_come_back() -> None:
    found = again(PLAIN)
    assert found == PLAIN
    assert [type(each) for each in found] == [type(each) for each in PLAIN]
    assert math.copysign(1, found[PLAIN.index(-0.0, 10)]) == -1
    assert math.isnan(again(math.nan))


def test_arrays_and_tensors_come_back(place: Device) -> None:
    rng = np.random.default_rng(0)
    for dtype in fw.base.dtype.DTYPES.values():
        for shape in ((), (3,), (2, 0), (2, 3)):
            given = (rng.normal(size=shape) * 3).astype(np.int8)
            tensor = fw.tensor(given).to(dtype)
            if dtype is not fw.complex128:
                tensor = tensor.to(place)
            stored = np.int8 if dtype is fw.bfloat16 else dtype.numpy
            array = np.array(given, stored)
            # A value of odd length before them.
            found = again(["x", tensor, array, array.reshape(-1)[:1].T])
            assert found[1].dtype is dtype
            assert found[1].device.type == "cpu"
            assert tuple(found[1].shape) == shape
            assert found[1].tolist() == tensor.tolist()
            for one, two in zip(found[2:], (array, array.reshape(-1)[:1])):
                assert (type(one), one.dtype, one.shape) == (
                    *(np.ndarray, two.dtype, two.shape),
                )
                np.testing.assert_array_equal(one, two)
                assert one.flags.writeable
    assert type(again(np.float16(2))) is np.float16


@pytest.mark.parametrize(
    ("sample", "text"),
    [
        (OrderedDict(), "has a collections.OrderedDict; it may have tensors"),
        ([{1}], "has a builtins.set"),
        (np.array(["a"]), "an array has dtype <U1"),
        (np.array([1], ">i4"), "an array has dtype >i4"),
        (np.array([None]), r"an array has dtype \|O"),
        (lambda: 1, "has a builtins.function"),
    ],
)
def test_other_kinds_are_refused(sample: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        encode_sample(sample)


def test_what_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested deeper than 100 levels"):
        encode_sample(loop)


def test_no_bytes_do_harm() -> None:
    content = encode_sample({"a": [np.arange(3), fw.ones(2), 1 << 70, "é"], 3: (b"x",)})
    source = random.Random(0)
    for number in range(300):
        broken = bytearray(content)
        for _ in range(1 + number % 3):
            broken[source.randrange(len(broken))] = source.randrange(256)
        if number % 2:
            del broken[source.randrange(len(broken)) :]
        try:
            SampleReader(broken).whole()
        except (ArithmeticError, LookupError, TypeError, ValueError, struct.error):
            continue


def test_pairs_are_as_their_layout_says() -> None:
    target = fw.tensor(0.5, dtype=fw.float16)
    content = encode_pair((np.float32([[1, 2]]), target))
    expected = struct.pack("<IIIIffII", 2, 1, 2, 0, 1.0, 2.0, 0, 1) + b"\x00\x38\0\0"
    assert content == expected
    first, second = SampleReader(bytearray(expected)).pair()
    assert (first.tolist(), second.item(), second.dtype) == ([[1, 2]], 0.5, fw.float16)
    with pytest.raises(TypeError, match=r"1 is int64; it must be float32 or float16"):
        encode_pair((np.float32(1), 3))
    with pytest.raises(TypeError, match="is an input and a target"):
        encode_pair(np.ones((2, 1)))
