"""Kernels of a GEMM: the first that takes it is the choice, and all are candidates."""

import pytest

import vkbackend
from vkbackend.framework.base.dtype import DType, float16, float32, int8, int32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.gemm.candidates import (
    gemm_candidates,
    gemm_dispatches,
)
from vkbackend.framework.kernels.gemm.tiles import DP4A, SIMT, TENSOR_CORES

Sizes = tuple[int, int, int]


def sides(sizes: Sizes, dtype: DType) -> tuple[StridedSpec, StridedSpec]:
    m, n, k = sizes
    shapes = (1, m, k), (1, k, n)
    a, b = (StridedSpec(shape, dtype, Layout.contiguous(shape)) for shape in shapes)
    return a, b


@pytest.mark.parametrize(
    ("sizes", "kernel"),
    [
        ((1, 4096, 4096), "matmul/gemv"),
        ((1024, 1024, 1024), "matmul/gemm_simt"),
        ((1023, 1021, 1019), "matmul/pack"),
        ((20, 20, 20), "matmul/gemm_tiled"),
    ],
)
def test_the_first_that_takes_it(
    discrete: vkbackend.DeviceInfo, sizes: Sizes, kernel: str
) -> None:
    a, b = sides(sizes, float32)
    assert gemm_dispatches(discrete, a, b, SIMT, float32)[0].kernel == kernel


@pytest.mark.parametrize(
    ("sizes", "dtype", "mode", "result"),
    [
        ((1, 4096, 4096), float32, SIMT, float32),
        ((1024, 1024, 1024), float32, SIMT, float32),
        ((511, 511, 511), float16, TENSOR_CORES, float16),
        ((512, 512, 512), int8, DP4A, int32),
    ],
)
def test_the_choice_is_the_first_candidate_that_answers(
    discrete: vkbackend.DeviceInfo, sizes: Sizes, dtype: DType, mode: str, result: DType
) -> None:
    a, b = sides(sizes, dtype)
    chosen = gemm_dispatches(discrete, a, b, mode, result)
    candidates = gemm_candidates(discrete, a, b, mode, result)
    assert chosen == next(found for build in candidates.values() if (found := build()))


def test_the_fallback_is_a_candidate(discrete: vkbackend.DeviceInfo) -> None:
    a, b = sides((20, 20, 20), float16)
    chosen = gemm_dispatches(discrete, a, b, TENSOR_CORES, float16)
    candidates = gemm_candidates(discrete, a, b, TENSOR_CORES, float16)
    assert chosen in [build() for build in candidates.values()]
