"""Kernels of a GEMM: the first that takes it is the choice, and all are candidates."""

import dataclasses
from collections import OrderedDict

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DType, float16, float32, float64, int8, int32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import Dispatch, StridedSpec
from vkbackend.framework.kernels.gemm.candidates import (
    fallback_gemm,
    gemm_candidates,
    gemm_dispatches,
)
from vkbackend.framework.kernels.gemm.tiles import DP4A, SIMT, TENSOR_CORES
from vkbackend.framework.ops.matmul import matmul

Sizes = tuple[int, int, int]


def sides(
    sizes: Sizes, dtype: DType, batch: int = 1
) -> tuple[StridedSpec, StridedSpec]:
    m, n, k = sizes
    shapes = (batch, m, k), (batch, k, n)
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


@pytest.mark.parametrize("dtype", [float32, float64, float16])
def test_slices_of_k_are_long(discrete: vkbackend.DeviceInfo, dtype: DType) -> None:
    for k, slices in ((350, 1), (384, 3), (512, 4), (1024, 8)):
        first, *_ = fallback_gemm(discrete, *sides((16, 1024, k), dtype), dtype)
        assert first.grid[2] == slices
    # Where tiles fill a device, K stays whole.
    (whole,) = fallback_gemm(discrete, *sides((2048, 2048, 1024), dtype), dtype)
    assert whole.grid[2] == 1
    for batch, groups in ((4, 32), (16, 32), (32, 32)):
        few = sides((16, 1024, 1024), dtype, batch)
        first, *_ = fallback_gemm(discrete, *few, dtype)
        assert first.grid[2] == groups


def test_the_fallback_is_a_candidate(discrete: vkbackend.DeviceInfo) -> None:
    a, b = sides((20, 20, 20), float16)
    chosen = gemm_dispatches(discrete, a, b, TENSOR_CORES, float16)
    candidates = gemm_candidates(discrete, a, b, TENSOR_CORES, float16)
    assert chosen in [build() for build in candidates.values()]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("batch", "m", "n", "k", "dtype"),
    [
        (1, 3, 5, 4097, "float32"),
        (3, 16, 40, 700, "float32"),
        (1, 16, 40, 2048, "float32"),
        (1, 17, 9, 2500, "float16"),
        (2, 2, 1, 5000, "int32"),
        (1, 33, 40, 530, "float64"),
    ],
)
def test_slices_of_k_fill_a_device(
    gpu: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
    batch: int,
    m: int,
    n: int,
    k: int,
    dtype: str,
) -> None:
    if dtype == "float64" and not gpu.gpu.info.shader_float64:
        pytest.skip("no float64")
    info = dataclasses.replace(gpu.gpu.info, kind="discrete")
    taken = []

    def sliced(
        _: vkbackend.DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str, of: DType
    ) -> list[Dispatch]:
        found = fallback_gemm(info, a, b, of)
        if a.shape[2] == k:  # Matrix units that are used first are tested, too.
            taken.append(found)
        return found

    monkeypatch.setattr(matmul, "gemm_dispatches", sliced)
    monkeypatch.setattr(gpu, "plans", OrderedDict())
    draws = np.random.default_rng(k)
    x, y = (draws.integers(-9, 9, (batch, *shape)) for shape in ((m, k), (k, n)))
    scale = 1 if dtype == "int32" else 1 / 9
    a, b = (fw.tensor(each * scale, dtype, gpu) for each in (x, y))
    turned = [fw.tensor(each.mT * scale, dtype, gpu).mT for each in (x, y)]
    wanted = a.numpy().astype(np.float64) @ b.numpy().astype(np.float64)
    for left, right in ((a, b), tuple(turned)):
        found = (left @ right).numpy()
        bound = 1e-3 if dtype == "float16" else 1e-5
        assert np.abs(found - wanted).max() <= bound * (1 + np.abs(wanted).max())
    assert taken
    for steps in taken:
        assert steps[0].grid[2] > batch
        whole = n % 4 == 0 and dtype != "float64"
        assert steps[-1].kernel == ("matmul/sum_slices" if whole else "reduce/reduce")
