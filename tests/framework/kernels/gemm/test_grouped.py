"""Kernels of grouped products that GPUs run, beside NumPy."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.large import as_discrete, change_model
from tests.hardware import skip_where_it_crashes
from vkbackend.framework.kernels.gemm import grouped
from vkbackend.framework.ops.matmul import grouped as rules
from vkbackend.framework.ops.matmul.grouped import gather_mm, grouped_mm

ENDS = [3, 3, 40, 41, 60]


def test_tiles_of_shared_memory(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((67, 19), np.float32)
    b = rng.standard_normal((5, 19, 35), np.float32)
    offs = fw.tensor(ENDS, dtype=fw.int32, device=gpu)
    left, right = (fw.tensor(each, device=gpu) for each in (a, b))
    wanted = np.zeros((67, 35), np.float32)
    for start, end, matrix in zip([0, *ENDS], ENDS, b, strict=False):
        wanted[start:end] = a[start:end] @ matrix
    rule = grouped.grouped_rows_dispatches
    for kernels in as_discrete(monkeypatch, rule.__name__, rule, rules):
        found = grouped_mm(left, right, offs).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        assert kernels == ["matmul/grouped_tiled"]


@pytest.mark.parametrize("along_k", [True, False])
def test_gemv_of_numbered_matrices(
    gpu: Any, along_k: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_where_it_crashes(gpu.gpu.info)
    change_model(monkeypatch, gemv_smallest=1)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((2, 64), np.float32)
    b = rng.standard_normal((5, 64, 36), np.float32)
    numbers = np.array([4, 0, 1, 4], np.int32)
    stored = b.transpose(0, 2, 1) if along_k else b
    right = fw.tensor(np.ascontiguousarray(stored), device=gpu)
    right = right.transpose(1, 2) if along_k else right
    given = fw.tensor(a, device=gpu), right, fw.tensor(numbers, device=gpu)
    rule = grouped.gathered_dispatches
    for kernels in as_discrete(monkeypatch, rule.__name__, rule, rules):
        found = gather_mm(*given).numpy()
        wanted = np.matmul(a[[0, 0, 1, 1], None], b[numbers])[:, 0]
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        assert kernels[0] == "matmul/gemv"


def test_more_groups_than_a_grid_has_layers(gpu: Any) -> None:
    numbers = np.arange(70_000, dtype=np.int32) % 3
    b = np.array([[[1.0]], [[2.0]], [[3.0]]], np.float32)
    a = fw.ones(7, 1, device=gpu)
    found = gather_mm(a, fw.tensor(b, device=gpu), fw.tensor(numbers, device=gpu))
    np.testing.assert_array_equal(found.numpy()[:, 0], b[numbers, 0, 0])
