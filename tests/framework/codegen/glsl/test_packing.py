"""Elements of every dtype, moved in every way, keep their bits."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.special import need
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DTYPES, DType, decode
from vkbackend.framework.codegen.glsl.packing import load_vec4, store_vec4, unpack


def elements(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Return elements of random bits, but no NaN."""
    rng = np.random.default_rng(9)
    count = int(np.prod(shape))
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    stored = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype.storage)
    array = decode(stored, dtype).reshape(shape)
    return np.asarray(np.nan_to_num(array, posinf=np.inf, neginf=-np.inf))


@pytest.mark.sampled(3)
@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_ways_to_read(dtype: DType, gpu: GpuDevice) -> None:
    need(dtype, gpu)
    array = elements(dtype, (12, 24))
    x = fw.tensor(array, dtype, gpu)
    variants = {
        "linear": (slice(4, 8),),
        "row": (slice(None), slice(8, 20)),
        "splat": (slice(1, 2), slice(0, 1)),
        "gather": (slice(1, None, 2), slice(3, 22, 3)),
        "scalar": (0, 4),
        "one row": (5, slice(3, 16)),
    }
    for variant, index in variants.items():
        found = x[index].clone()
        assert found.dtype is dtype, variant
        assert_close(found, array[index], exact=True)
    assert_close(x.mT.clone(), array.T, exact=True)
    assert_close(x[:, :1].expand(12, 8).clone(), array[:, :1].repeat(8, 1), exact=True)


def test_one_byte_elements_share_a_word() -> None:
    assert load_vec4(0, 1, "i", False) == ["uint w0_0 = in0.at[i];"]
    assert unpack("uint8", 0, 3) == "bitfieldExtract(uint((w0_0 >> (24u))), 0, 8)"
    (line,) = store_vec4(0, "bool", False)
    assert line.startswith("out0.at[i] = ((uint(y0_0) & 0xffu) << 0) | ")


def test_eight_byte_elements_are_two_words_each() -> None:
    assert load_vec4(1, 8, "i", False) == [
        "uvec4 w1_0 = in1.at[2u * i + 0u];",
        "uvec4 w1_1 = in1.at[2u * i + 1u];",
    ]
    assert unpack("int64", 1, 2) == "int64_t(packUint2x32(w1_1.xy))"
