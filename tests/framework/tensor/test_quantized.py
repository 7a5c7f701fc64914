from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.errors import ArgumentError
from vkbackend.framework.base.errors import DTypeError, ShapeError

gguf = pytest.importorskip("gguf")

Make = Callable[..., fw.Tensor]


def test_quantized_and_back(make: Make, rng: np.random.Generator) -> None:
    values = rng.standard_normal((2, 3, 64)).astype(np.float32)
    x = make(values)
    weight = fw.quantize(x, "Q8_0")
    assert (weight.format, tuple(weight.shape)) == ("q8_0", (2, 3, 64))
    assert weight.nbytes == 2 * 3 * 68
    assert weight.device == x.device
    want = gguf.dequantize(weight.blocks.numpy(), gguf.GGMLQuantizationType.Q8_0)
    np.testing.assert_array_equal(weight.dequantize().numpy(), want)
    assert weight.dequantize("float16").dtype is fw.float16
    np.testing.assert_array_equal(weight.to("cpu").dequantize().numpy(), want)


def test_dtype_is_that_of_the_tensor() -> None:
    weight = fw.quantize(fw.ones((2, 64), dtype="bfloat16"), "int8")
    assert weight.dequantize().dtype is fw.bfloat16
    assert weight.dequantize("float64").dtype is fw.float64
    assert fw.quantize(np.ones((2, 64)), "q4_0").dtype is fw.float32


def test_refusals() -> None:
    with pytest.raises(ShapeError, match="33 columns; q8_0 takes a multiple of 32"):
        fw.quantize(fw.ones((2, 33)), "q8_0")
    with pytest.raises(ArgumentError, match="format is 'q9'"):
        fw.quantize(fw.ones((2, 32)), "q9")
    with pytest.raises(DTypeError, match="x is int64; it must be of a float"):
        fw.quantize(fw.ones((2, 32), dtype="int64"), "q8_0")
    with pytest.raises(DTypeError, match="infinite or no number"):
        fw.quantize(fw.full((2, 32), float("nan")), "q8_0")
    with pytest.raises(ShapeError, match="x has no dimension"):
        fw.quantize(fw.tensor(1.0), "q8_0")
