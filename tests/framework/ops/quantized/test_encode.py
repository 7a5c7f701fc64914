import numpy as np
import pytest

from vkbackend.framework.base.quantized_format import FORMATS
from vkbackend.framework.ops.quantized.decode import decode
from vkbackend.framework.ops.quantized.encode import AT_ONCE, encode

gguf = pytest.importorskip("gguf")

BLOCKS_OF_32 = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0"]

# Root mean square of the change of normal numbers; those of K formats are below that of
# the blocks of 32 with as many bits.
MOST_ERROR = {
    "q4_0": 0.09, "q4_1": 0.083, "q5_0": 0.045, "q5_1": 0.041, "q8_0": 0.006,
    "q4_k": 0.075, "q5_k": 0.038, "q6_k": 0.02,
    "int8": 0.012, "int4_g32": 0.09, "int4_g64": 0.1, "int4_g128": 0.11,
}  # fmt: skip


def root_mean_square(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x, dtype=np.float64))))


@pytest.mark.null
@pytest.mark.parametrize("name", BLOCKS_OF_32)
def test_bits_are_those_of_gguf(name: str, rng: np.random.Generator) -> None:
    kind = FORMATS[name]
    x = rng.standard_normal((7, 96)).astype(np.float32)
    x[0] = 0
    x[1, :32] = 3
    want = gguf.quantize(x, gguf.GGMLQuantizationType(kind.gguf))
    np.testing.assert_array_equal(encode(x, kind), want)


@pytest.mark.null
@pytest.mark.parametrize("name", FORMATS)
def test_error_is_bounded(name: str, rng: np.random.Generator) -> None:
    kind = FORMATS[name]
    x = rng.standard_normal((64, 768)).astype(np.float32)
    x /= root_mean_square(x)
    change = decode(encode(x, kind), kind, 768) - x
    assert root_mean_square(change) < MOST_ERROR[name]


@pytest.mark.null
@pytest.mark.parametrize("name", FORMATS)
def test_awkward_rows(name: str) -> None:
    """Zeros stay zeros; one number, and numbers of one sign, come back nearly."""
    kind = FORMATS[name]
    x = np.zeros((4, 768), np.float32)
    x[1] = -3.0
    x[2] = np.linspace(1, 2, 768)
    x[3, 700] = 5.0
    got = decode(encode(x, kind), kind, 768)
    np.testing.assert_array_equal(got[0], 0)
    assert np.isfinite(got).all()
    assert np.abs(got - x).max() < 0.2


@pytest.mark.null
def test_many_blocks_are_cut_into_parts(rng: np.random.Generator) -> None:
    kind = FORMATS["q8_0"]
    x = rng.standard_normal((AT_ONCE // 64 + 3, 96)).astype(np.float32)
    np.testing.assert_array_equal(encode(x, kind)[-2:], encode(x[-2:], kind))
