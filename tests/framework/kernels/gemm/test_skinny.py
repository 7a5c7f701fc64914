"""Skinny GEMM on tensor cores, which shaders emulate here, and its tiles."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.large import forget_plans, relative_error
from tests.hardware import skip_where_it_crashes
from vkbackend import DeviceInfo
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.dtype import bfloat16, float16, float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import Dispatch, StridedSpec
from vkbackend.framework.kernels.gemm import candidates, skinny
from vkbackend.framework.kernels.gemm.skinny import skinny_product, skinny_tile
from vkbackend.framework.kernels.gemm.tiles import SIMT, TENSOR_CORES
from vkbackend.shader import compiler


@pytest.fixture
def discrete(gpu: Any) -> DeviceInfo:
    """Return a device whose matrices 128 invocations emulate."""
    skip_where_it_crashes(gpu.gpu.info)
    info: DeviceInfo = dataclasses.replace(
        gpu.gpu.info,
        kind="discrete",
        subgroup_size=32,
        max_workgroup_invocations=128,
        # Through the rest they pass elements of emulated matrices.
        max_shared_memory=gpu.gpu.info.max_shared_memory - 128 * 16 * 4,
    )
    return info


def emulated(found: list[Dispatch] | None) -> list[Dispatch]:
    """Return dispatches with emulated matrices."""
    assert found is not None
    return [
        dataclasses.replace(each, defines={**each.defines, "EMULATED": "1"})
        if each.kernel.startswith("matmul/gemm")
        else each
        for each in found
    ]


# Rows, columns, depth: ragged rows and columns, more steps than subgroups or fewer,
# a depth of half a step; and whether rows of the left operand are strided.
@pytest.mark.parametrize(
    ("rows", "columns", "depth", "strided"),
    [(9, 67, 96, True), (30, 100, 640, False)],
)
def test_products(
    rows: int,
    columns: int,
    depth: int,
    strided: bool,
    gpu: Any,
    discrete: DeviceInfo,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels: list[str] = []

    def rule(_: DeviceInfo, a: Any, b: Any, __: str, dtype: Any) -> Any:
        found = emulated(skinny_product(discrete, a, b, TENSOR_CORES, dtype))
        kernels.extend(each.kernel for each in found)
        return found

    monkeypatch.setattr(skinny, "LEAST_FLOATS", 1)
    monkeypatch.setattr(candidates, "skinny_product", rule)
    monkeypatch.setattr(candidates, "skinny_gemm", lambda *_: None)
    forget_plans()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, depth * (1 + strided)))
    weight, bias = rng.standard_normal((columns, depth)), rng.standard_normal(columns)
    left, right, last = (fw.tensor(each, "float16", gpu) for each in (x, weight, bias))
    left = left[:, ::2] if strided else left
    found = fw.relu(left @ right.T + last).float().numpy()
    forget_plans()
    exact = [each.float().numpy().astype(float) for each in (left, right, last)]
    wanted = np.maximum(exact[0] @ exact[1].T + exact[2], 0)
    assert relative_error(found, wanted) < 1e-3
    wanted_kernels = ["matmul/pack"] * strided + ["matmul/gemm_skinny"]
    assert list(dict.fromkeys(kernels)) == wanted_kernels


@pytest.mark.parametrize("rows", [9, 40])
def test_rows_of_a_linear_layer(rows: int, half_place: Device) -> None:
    """On tensor cores where there are some."""
    rng = np.random.default_rng(rows)
    for dtype, most in (("float16", 1e-3), ("bfloat16", 4e-3)):
        x = fw.tensor(rng.standard_normal((rows, 1056)), dtype, half_place)
        weight = fw.tensor(rng.standard_normal((1000, 1056)), dtype, half_place)
        found = fw.nn.functional.linear(x, weight).float().numpy()
        wanted = x.float().numpy().astype(float) @ weight.float().numpy().T
        assert relative_error(found, wanted) < most


def test_tiles(discrete: DeviceInfo) -> None:
    gpu = dataclasses.replace(
        discrete, max_workgroup_invocations=1024, max_shared_memory=49_152
    )
    assert skinny_tile(gpu, 32, 14336, 4096, 8) == (32, 64, 64, 3)
    assert skinny_tile(gpu, 32, 1024, 64, 8) == (32, 32, 64, 1)
    assert skinny_tile(gpu, 9, 1024, 96, 8) == (16, 32, 32, 3)
    assert skinny_tile(gpu, 65, 1024, 4096, 8) is None
    assert skinny_tile(gpu, 9, 1024, 40, 8) is None
    wave = dataclasses.replace(gpu, subgroup_size=64)
    found = skinny_tile(wave, 16, 64, 4096, 32)
    assert found is not None
    assert found.columns * found.step // 32 % 64 == 0


def test_what_it_takes(discrete: DeviceInfo) -> None:
    def takes(
        m: int,
        n: int = 1024,
        k: int = 1024,
        dtype: Any = float16,
        mode: str = TENSOR_CORES,
        turned: bool = True,
        offset: int = 0,
        batch: int = 1,
    ) -> bool:
        a = Layout.contiguous((batch, m, k))
        strides = (n * k, 1, k) if turned else (n * k, n, 1)
        b = StridedSpec((batch, k, n), dtype, Layout((batch, k, n), strides, offset))
        found = skinny_product(discrete, StridedSpec(a.shape, dtype, a), b, mode, dtype)
        return found is not None

    assert takes(9)
    assert takes(skinny.MOST_ROWS_OF_FLOATS, dtype=bfloat16)
    assert not takes(skinny.MOST_ROWS_OF_FLOATS + 1)
    assert not takes(9, turned=False)
    assert not takes(9, offset=1)
    assert not takes(9, batch=2)
    assert not takes(9, n=64, k=64)
    assert not takes(9, k=1016)
    assert not takes(9, dtype=float32, mode=SIMT)


@pytest.mark.parametrize("dtype", ["FLOAT16", "BFLOAT16"])
@pytest.mark.parametrize("form", [{}, {"FORMAT": "FORMAT_Q6_K"}])
def test_cooperative_matrices_are_valid(dtype: str, form: dict[str, str]) -> None:
    source, _ = compiler.load_kernel_source("matmul/gemm_skinny")
    defines = {"DTYPE": f"DTYPE_{dtype}", **form}
    words = compiler.compile_glsl(source, name="gemm_skinny.comp", defines=defines)
    assert compiler.validate_spirv(words) is None
