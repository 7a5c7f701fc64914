import numpy as np
import pytest

from vkbackend.framework.base.quantized_format import FORMATS
from vkbackend.framework.ops.quantized.decode import decode
from vkbackend.framework.ops.quantized.encode import encode, join_int4

gguf = pytest.importorskip("gguf")

OF_GGUF = [name for name, kind in FORMATS.items() if kind.gguf is not None]


@pytest.mark.null
@pytest.mark.parametrize("name", OF_GGUF)
def test_bits_are_those_of_gguf(name: str, rng: np.random.Generator) -> None:
    """Of any bytes, also of scales that are infinite or no numbers."""
    kind = FORMATS[name]
    blocks = rng.integers(0, 256, (3, 5, 2 * kind.size), np.uint8)
    with np.errstate(all="ignore"):
        want = gguf.dequantize(blocks, gguf.GGMLQuantizationType(kind.gguf))
    got = decode(blocks, kind, 2 * kind.block)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.null
def test_int4_is_scale_times_code_less_zero(rng: np.random.Generator) -> None:
    kind = FORMATS["int4_g64"]
    codes = rng.integers(0, 16, (3, 192)).astype(np.uint8)
    scale = rng.uniform(0.5, 2, (3, 3)).astype(np.float16).astype(np.float32)
    zero = rng.integers(0, 17, (3, 3)).astype(np.float32)
    want = scale[..., None] * (codes.reshape(3, 3, 64) - zero[..., None])
    got = decode(join_int4(codes, scale, zero, kind), kind, 192)
    np.testing.assert_array_equal(got, want.reshape(3, 192))


@pytest.mark.null
def test_int8_is_one_scale_of_a_row() -> None:
    x = np.array([[127, -127, *range(14)], [254, -2, *[0] * 14]], np.float32)
    np.testing.assert_array_equal(
        decode(encode(x, FORMATS["int8"]), FORMATS["int8"], 16), x
    )
