"""Skinny GEMM on tensor cores, which shaders emulate here, and its tiles."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.large import forget_plans, relative_error
from tests.hardware import skip_where_it_crashes
from vkbackend import DeviceInfo
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.dtype import bfloat16, float16, float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import Dispatch, StridedSpec
from vkbackend.framework.kernels.gemm import candidates, skinny
from vkbackend.framework.kernels.gemm.skinny import (
    skinny_product,
    skinny_tile,
    takes_gate,
)
from vkbackend.framework.kernels.gemm.tiles import SIMT, TENSOR_CORES
from vkbackend.framework.models.activation import gated_product
from vkbackend.framework.ops.matmul import gated
from vkbackend.framework.ops.quantized import product
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
# a depth of half a step; whether rows of the left operand are strided; and chunks of a
# share: none, less than a tile, some tiles and a part of one, and whole tiles.
@pytest.mark.parametrize(
    ("rows", "columns", "depth", "strided", "share"),
    [
        (9, 67, 96, True, None),
        (30, 100, 640, False, None),
        (20, 100, 640, False, 3),
        (20, 200, 640, False, 23),
        (30, 200, 640, False, 11),
        (9, 100, 640, True, 20),
    ],
)
def test_products(
    rows: int,
    columns: int,
    depth: int,
    strided: bool,
    share: int | None,
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
    give_shares(monkeypatch, share)
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


def give_shares(monkeypatch: pytest.MonkeyPatch, share: int | None) -> None:
    """Let workgroups take so many chunks."""
    for name in ("_equal_share", "_part_of_tile"):
        monkeypatch.setattr(skinny, name, lambda *_: share)


@pytest.mark.parametrize("share", [None, 5])
@pytest.mark.parametrize("format", [None, "q8_0"])
def test_gates(
    format: str | None,
    share: int | None,
    gpu: Any,
    discrete: DeviceInfo,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, columns, depth = 11, 70, 512
    kernels: list[Dispatch] = []

    def rule(_: DeviceInfo, *given: Any, **more: Any) -> Any:
        kernels.extend(emulated(skinny.skinny_coopmat(discrete, *given, **more)))
        return kernels[-1:]

    for module in (gated, product):
        monkeypatch.setattr(module, "offers", lambda *_: True)
        monkeypatch.setattr(module, "skinny_coopmat", rule)
        monkeypatch.setattr(module, "decoding_device", lambda _: discrete)
    monkeypatch.setattr(skinny, "LEAST_FLOATS", 1)
    give_shares(monkeypatch, share)
    takes_gate.cache_clear()
    forget_plans()
    fw.manual_seed(0)
    layers = [nn.Linear(depth, columns, bias=False) for _ in range(2)]
    if format is not None:
        layers = [nn.QLinear.from_linear(each, format) for each in layers]
    layers = [each.to(gpu, fw.float16) for each in layers]
    x = fw.tensor(np.random.default_rng(0).standard_normal((rows, depth)), "float16")
    with fw.no_grad():
        weights = [
            each.weight if format is None else each.weight.dequantize()
            for each in layers
        ]
        g, u = (x.float() @ each.cpu().float().T for each in weights)
        found = gated_product(x.to(gpu), *layers, "silu") + 1.0
        wanted = (fw.nn.functional.silu(g) * u + 1.0).numpy()
        assert relative_error(found.float().numpy(), wanted) < 2e-3
    forget_plans()
    takes_gate.cache_clear()
    assert {each.kernel for each in kernels} == {"matmul/gemm_skinny"}
    assert kernels[0].push.get("share") == share


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


def test_workgroups_take_equal_shares(discrete: DeviceInfo) -> None:
    gpu = dataclasses.replace(
        discrete, max_workgroup_invocations=1024, max_shared_memory=49_152
    )
    for n, k, groups in (
        (4096, 14336, 264),
        (4096, 4096, 256),
        (16384, 4096, 261),
        (1 << 18, 4096, 4096),
        (1024, 1024, 32),
    ):
        a = Layout.contiguous((1, 32, k))
        b = Layout((1, k, n), (n * k, 1, k), 0)
        left, right = (StridedSpec(x.shape, bfloat16, x) for x in (a, b))
        found = skinny_product(gpu, left, right, TENSOR_CORES, bfloat16)
        assert found is not None
        (dispatch,) = found
        assert (n, k, dispatch.grid[0]) == (n, k, groups)


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
@pytest.mark.parametrize(
    "form", [{}, {"FORMAT": "FORMAT_Q6_K"}, {"GATED": "1", "STREAMED": "1"}]
)
def test_cooperative_matrices_are_valid(dtype: str, form: dict[str, str]) -> None:
    source, _ = compiler.load_kernel_source("matmul/gemm_skinny")
    defines = {"DTYPE": f"DTYPE_{dtype}", **form}
    words = compiler.compile_glsl(source, name="gemm_skinny.comp", defines=defines)
    assert compiler.validate_spirv(words) is None


def test_products_that_share_k_are_one_dispatch(
    gpu: Any, discrete: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rule(_: DeviceInfo, a: Any, b: Any, __: str, dtype: Any) -> Any:
        return emulated(skinny_product(discrete, a, b, TENSOR_CORES, dtype))

    monkeypatch.setattr(skinny, "LEAST_FLOATS", 1)
    give_shares(monkeypatch, 7)
    monkeypatch.setattr(candidates, "skinny_product", rule)
    monkeypatch.setattr(candidates, "skinny_gemm", lambda *_: None)
    forget_plans()
    rng = np.random.default_rng(0)
    x, *weights = (
        fw.tensor(rng.standard_normal((n, 512)), "float16", gpu) for n in (10, 64, 40)
    )
    fw.eval(x, *weights)
    for _ in range(2):
        with gpu.gpu.profile() as profile:
            found = [x @ each.T for each in weights]
            fw.eval(*found)
        assert len(profile.spans) == 1
        for one, weight in zip(found, weights, strict=True):
            wanted = x.float().numpy() @ weight.float().numpy().T
            assert relative_error(one.float().numpy(), wanted) < 1e-3
    forget_plans()
