"""Kernels of grouped products that GPUs run, beside NumPy."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.large import (
    as_discrete,
    change_costs,
    change_model,
    forget_plans,
    relative_error,
)
from tests.hardware import skip_where_it_crashes
from vkbackend.framework.kernels.gemm import grouped
from vkbackend.framework.kernels.gemm.select import grouped_gemm
from vkbackend.framework.kernels.gemm.tiles import TENSOR_CORES
from vkbackend.framework.ops.matmul import grouped as rules
from vkbackend.framework.ops.matmul.grouped import gather_mm, grouped_mm
from vkbackend.shader import compiler

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


def test_tensor_cores(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a product, of its gradients, of rows without a group, and of none."""
    skip_where_it_crashes(gpu.gpu.info)
    info = dataclasses.replace(
        gpu.gpu.info,
        kind="discrete",
        subgroup_size=32,
        max_workgroup_invocations=1024,
        # 128 invocations pass elements of emulated matrices through this much.
        max_shared_memory=gpu.gpu.info.max_shared_memory - 128 * 16 * 4,
    )
    kinds: set[str] = set()

    def emulated(
        _: Any, a: Any, b: Any, groups: int, __: str, *rest: Any, **of: Any
    ) -> Any:
        found = grouped_gemm(info, a, b, groups, TENSOR_CORES, *rest, **of)
        assert found is not None
        defines = {"EMULATED": "1", "BFLOAT16_BITS": "1"}
        product = dataclasses.replace(
            found[-1], defines={**found[-1].defines, **defines}
        )
        kinds.update({"GROUPS_OF_ROWS", "GROUPS_OF_K"} & product.defines.keys())
        return [*found[:-1], product]

    monkeypatch.setattr(grouped, "grouped_gemm", emulated)
    change_costs(monkeypatch, smallest=1)
    forget_plans()
    rng = np.random.default_rng(0)
    ends = [70, 70, 75, 220, 221]
    values = (rng.standard_normal((240, 72)), rng.standard_normal((5, 72, 136)))
    a, b = (fw.tensor(each, "float16", gpu, requires_grad=True) for each in values)
    offs = fw.tensor(ends, dtype=fw.int32, device=gpu)
    out = grouped_mm(a, b, offs)
    grad = fw.tensor(rng.standard_normal((240, 136)), "float16", gpu)
    out.backward(grad)
    left, right, down = (x.detach().float().numpy().astype(float) for x in (a, b, grad))
    wanted = [np.zeros(each.shape) for each in (out, a, b)]
    for g, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        wanted[0][start:end] = left[start:end] @ right[g]
        wanted[1][start:end] = down[start:end] @ right[g].T
        wanted[2][g] = left[start:end].T @ down[start:end]
    for found, want in zip((out, a.grad, b.grad), wanted, strict=True):
        assert found is not None
        assert relative_error(found.detach().float().numpy(), want) < 1e-3
        assert not found.detach().float().numpy()[want == 0].any()
    assert kinds == {"GROUPS_OF_ROWS", "GROUPS_OF_K"}
    forget_plans()


@pytest.mark.parametrize("kind", ["GROUPS_OF_ROWS", "GROUPS_OF_K"])
def test_cooperative_matrices_are_valid(kind: str) -> None:
    source, _ = compiler.load_kernel_source("matmul/gemm_coopmat")
    defines = {"DTYPE": "DTYPE_BFLOAT16", "WIDE_STORES": "1", kind: "1"}
    words = compiler.compile_glsl(source, name="gemm_coopmat.comp", defines=defines)
    assert compiler.validate_spirv(words) is None
