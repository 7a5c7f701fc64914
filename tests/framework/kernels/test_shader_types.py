"""Element types of shaders: every dtype goes through `lib/dtype.glsl` unchanged."""

import dataclasses

import numpy as np
import pytest

import vkbackend
from tests.kernel_run import run
from vkbackend.framework.base.dtype import (
    DTYPES,
    STORED,
    DType,
    bfloat16,
    decode,
    encode,
)
from vkbackend.framework.base.dtype import float32 as single
from vkbackend.framework.base.errors import DTypeError
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.kernels.shader_types import (
    acc_size,
    check_same_dtype,
    shuffle_defines,
    statistic_dtype,
    storage_defines,
)
from vkbackend.shader import compiler, reflection

SOURCE = """#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
layout(push_constant) uniform Push { In x; Out out_; uint count; } push;
void main() {
    uint i = linear_invocation();
    if (i >= push.count) return;
    store(push.out_, i, multiply_add(load(push.x, i), ACC(1), ACC(0)));
}
"""
CAPABILITIES = {"storage_8bit": 4448, "storage_16bit": 4433}
CAPABILITIES |= {"shader_int64": 11, "shader_float64": 10}
REAL = [dtype for dtype in STORED if dtype.kind != "complex"]


def numbers(dtype: DType) -> np.ndarray:
    """Return the ends of a dtype's range and some numbers between, as it is stored."""
    if dtype.is_float:
        special = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 0.1, 1e-6, 6e4]
        return encode(np.array(special, np.float32), dtype)
    low, high = dtype.limits
    return np.array([low, high, 0, 1, high // 3], dtype.storage)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_elements_pass_unchanged(dtype: DType, device: vkbackend.Device) -> None:
    feature = dtype.storage_feature
    if feature is not None and not getattr(device.info, feature):
        pytest.skip(f"the device has no {feature}")
    x = numbers(dtype)
    stored = x.view(np.uint8) if dtype.kind == "bool" else x
    (found,) = run(
        device,
        "element",
        (1, 1, 1),
        {"out_": (stored.shape, stored.dtype)},
        {"LOCAL_X": 32},
        {"x": stored, "count": len(x)},
        source=SOURCE,
        defines=dict(storage_defines(dtype)),
    )
    np.testing.assert_array_equal(
        decode(found, dtype), decode(stored, dtype) if dtype is bfloat16 else stored
    )


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_modules_ask_for_the_feature_that_is_named(dtype: DType) -> None:
    words = compiler.compile_glsl(
        SOURCE, name="element", defines=storage_defines(dtype)
    )
    asked = set(reflection.read_module(words).capabilities) & set(CAPABILITIES.values())
    feature = dtype.storage_feature
    assert asked == ({CAPABILITIES[feature]} if feature else set())


def test_sums_are_stored_wide_where_elements_are_narrow() -> None:
    half, wide = DTYPES["float16"], DTYPES["float64"]
    assert storage_defines(single, out_acc=True) == {}
    assert storage_defines(half, in_acc=True) == {
        "DTYPE": "DTYPE_FLOAT16",
        "IN_ACC": "1",
    }
    assert [acc_size(dtype) for dtype in (half, single, wide)] == [4, 4, 8]
    assert statistic_dtype(half) is single
    assert statistic_dtype(wide) is wide


def test_same_dtype() -> None:
    a, b = TensorSpec((1,), single), TensorSpec((1,), DTYPES["int32"])
    check_same_dtype("op", a=a, b=a, c=None)
    with pytest.raises(DTypeError) as raised:
        check_same_dtype("op", a=a, b=b, c=None)
    assert str(raised.value) == "op: a is float32, b is int32; they must be the same"


def test_which_states_are_shuffled(device: vkbackend.Device) -> None:
    info = dataclasses.replace(
        device.info, kind="discrete", subgroup_shuffle=True, max_subgroup_size=64
    )
    assert shuffle_defines(info, {"DTYPE": "DTYPE_FLOAT16"}, 64) == {"SHUFFLES": "1"}
    assert shuffle_defines(info, {}, 32) == {}, "half of a subgroup"
    assert shuffle_defines(info, {"DTYPE": "DTYPE_INT64"}, 64) == {}
    assert shuffle_defines(info, {"WIDE": "1"}, 64) == {}
    without = dataclasses.replace(info, subgroup_shuffle=False)
    software = dataclasses.replace(info, kind="software")
    assert shuffle_defines(without, {}, 64) == shuffle_defines(software, {}, 64) == {}
