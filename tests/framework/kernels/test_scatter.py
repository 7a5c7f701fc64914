"""Rows combined by atomics: which passes there are, and what they read."""

import dataclasses
import math

import pytest

import vkbackend
from vkbackend.framework.base.dtype import DType, float32, float64, int32, uint32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import Dispatch, StridedSpec
from vkbackend.framework.kernels.gpu_model import MODELS
from vkbackend.framework.kernels.scatter import (
    OPERATIONS,
    atomic_reduce_dispatches,
    identity_of,
    place_ranges,
)


def dense(shape: tuple[int, ...], dtype: DType) -> StridedSpec:
    return StridedSpec(shape, dtype, Layout.contiguous(shape))


def steps(
    gpu: vkbackend.DeviceInfo, dtype: DType, operation: str, include_self: bool
) -> list[Dispatch]:
    base, source = dense((3, 5, 4), dtype), dense((3, 70, 4), dtype)
    index = dense((70,), int32)
    given = base, index, source, operation, include_self, "", {"INDEX_WORDS": 1}
    return atomic_reduce_dispatches(gpu, *given)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_floats_begin_with_a_pass_of_their_own(
    operation: str, discrete: vkbackend.DeviceInfo
) -> None:
    begun, marked, combined = steps(discrete, float32, operation, False)
    # A copy is left out where the result may have the memory of what it begins with.
    assert (begun.copies is None) is (operation in ("max", "min"))
    assert [step.constants["PASS"] for step in (marked, combined)] == [1, 2]
    assert "base" not in {*marked.push.values(), *combined.push.values()}
    assert combined.push["count"] == 3 * 70 * 4
    assert len(steps(discrete, float32, operation, True)) == 2


def test_integers_begin_with_a_copy(discrete: vkbackend.DeviceInfo) -> None:
    begun, _ = steps(discrete, int32, "max", True)
    assert begun.copies == ("base", "out")


def test_identities() -> None:
    assert identity_of("max", float32) == -math.inf
    assert identity_of("min", float64) == math.inf
    assert identity_of("max", int32) == -(1 << 31)
    assert identity_of("min", uint32) == (1 << 32) - 1
    assert identity_of("prod", int32) == 1
    assert identity_of("sum", float32) == 0


def test_places_are_changed_range_by_range(
    discrete: vkbackend.DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each range is one that a cache holds; what many would hold is one again."""
    model = dataclasses.replace(MODELS["NVIDIA"], cached_scatter_bytes=4000)
    monkeypatch.setitem(MODELS, "NVIDIA", model)
    info, many = dataclasses.replace(discrete, vendor_id=0x10DE), 1 << 20
    assert place_ranges(info, 1000, 4, many) == [(0, 1000)]
    assert place_ranges(info, 2999, 4, many) == [(0, 1000), (1000, 1000), (2000, 999)]
    assert place_ranges(info, 2999, 4, 1000) == [(0, 2999)], "few entries"
    assert place_ranges(info, 5000, 4, many) == [(0, 5000)], "too many ranges"
    assert place_ranges(info, 0, 4, many) == [(0, 0)]
    other = dataclasses.replace(discrete, vendor_id=0x13B5)
    assert place_ranges(other, 2999, 4, many) == [(0, 2999)], "of an unknown cache"
