"""GEMMs that decode weights on load, on tensor cores that shaders emulate."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.kernels.gemm.test_skinny import discrete, emulated
from tests.framework.ops.large import forget_plans, relative_error
from vkbackend import DeviceInfo
from vkbackend.framework.base.dtype import float16
from vkbackend.framework.base.quantized_format import FORMATS
from vkbackend.framework.kernels.gemm.decoding import (
    MOST_ROWS_OF_BYTES,
    MOST_ROWS_OF_NIBBLES,
    decoding_gemm,
    decoding_grouped_gemm,
    takes_decoding_gemm,
)
from vkbackend.framework.kernels.gemm.tiles import TENSOR_CORES
from vkbackend.framework.ops.quantized import grouped, product
from vkbackend.framework.ops.quantized.decode import decode
from vkbackend.framework.ops.quantized.encode import encode
from vkbackend.framework.ops.quantized.grouped import quantized_grouped_mm
from vkbackend.framework.ops.quantized.product import quantized_linear
from vkbackend.shader import compiler

__all__ = ["discrete"]  # a fixture

# Each way to lay out pieces, and to decode them; the others run with the wider tests.
FEW = ["q4_k", "q6_k", "q8_0", "int4_g64"]
OTHERS = [
    pytest.param(name, marks=pytest.mark.wide) for name in FORMATS if name not in FEW
]


@pytest.mark.parametrize("name", [*FEW, *OTHERS])
# With few rows, and with more than a tile.
@pytest.mark.parametrize(("rows", "columns"), [(20, 70), (130, 72)])
def test_products(
    name: str,
    rows: int,
    columns: int,
    gpu: Any,
    discrete: DeviceInfo,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels: list[str] = []

    def rule(_: DeviceInfo, x: Any, blocks: Any, kind: Any, has_bias: bool) -> Any:
        found = emulated(decoding_gemm(discrete, x, blocks, kind, has_bias))
        kernels.extend(each.kernel for each in found)
        return found

    monkeypatch.setattr(product, "decoding_gemm", rule)
    monkeypatch.setattr(product, "takes_decoding_gemm", lambda *_: True)
    monkeypatch.setattr(product, "offers", lambda *_: True)
    monkeypatch.setattr(product, "product_mode", lambda *_: TENSOR_CORES)
    forget_plans()
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((columns, 512)).astype(np.float32)
    weight = encode(drawn, FORMATS[name])
    x = fw.tensor(rng.standard_normal((rows, 512)), "float16", gpu)
    bias = fw.tensor(rng.standard_normal(columns), "float16", gpu)
    found = quantized_linear(x, fw.tensor(weight, device=gpu), bias, name)
    elements = decode(weight, FORMATS[name], 512)
    left, last = (each.float().numpy().astype(float) for each in (x, bias))
    assert relative_error(found.float().numpy(), left @ elements.T + last) < 1e-3
    forget_plans()
    wanted = "matmul/gemm_skinny" if rows == 20 else "matmul/gemm_coopmat_decoded"
    assert set(kernels) - {"matmul/pack"} == {wanted}


@pytest.mark.parametrize("rows", [20, 130])
def test_rounded_elements_are_not_smaller_on_average(
    rows: int, gpu: Any, discrete: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rule(_: DeviceInfo, x: Any, blocks: Any, kind: Any, has_bias: bool) -> Any:
        return emulated(decoding_gemm(discrete, x, blocks, kind, has_bias))

    monkeypatch.setattr(product, "decoding_gemm", rule)
    monkeypatch.setattr(product, "takes_decoding_gemm", lambda *_: True)
    monkeypatch.setattr(product, "offers", lambda *_: True)
    monkeypatch.setattr(product, "product_mode", lambda *_: TENSOR_CORES)
    forget_plans()
    check_mean(rows, gpu)
    forget_plans()


def check_mean(rows: int, place: Any) -> None:
    """Check that sums of many positive elements are those of the decoded ones."""
    rng = np.random.default_rng(0)
    kind = FORMATS["q8_0"]
    weight = encode(rng.uniform(0.5, 2, (72, 512)).astype(np.float32), kind)
    x = fw.ones(rows, 512, dtype=fw.bfloat16, device=place)
    found = quantized_linear(x, fw.tensor(weight, device=place), None, "q8_0")
    wanted = decode(weight, kind, 512).sum(1)
    assert abs((found.float().numpy() / wanted).mean() - 1) < 5e-4


def test_groups_of_rows(
    gpu: Any, discrete: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more than a tile, an empty one, and rows that have no group."""
    kernels: list[str] = []

    def rule(_: DeviceInfo, x: Any, blocks: Any, kind: Any) -> Any:
        found = emulated(decoding_grouped_gemm(discrete, x, blocks, kind))
        kernels.extend(each.kernel for each in found)
        return found

    monkeypatch.setattr(grouped, "decoding_grouped_gemm", rule)
    monkeypatch.setattr(grouped, "takes_decoding_grouped_gemm", lambda *_: True)
    monkeypatch.setattr(grouped, "offers", lambda *_: True)
    monkeypatch.setattr(product, "product_mode", lambda *_: TENSOR_CORES)
    forget_plans()
    rng = np.random.default_rng(0)
    ends = [70, 70, 75, 140]
    drawn = rng.standard_normal((4, 72, 128)).astype(np.float32)
    weight = encode(drawn, FORMATS["q4_0"])
    x = fw.tensor(rng.standard_normal((144, 128)), "float16", gpu)
    offs = fw.tensor(ends, dtype=fw.int32, device=gpu)
    blocks = fw.tensor(weight, device=gpu)
    found = quantized_grouped_mm(x, blocks, offs, "q4_0").float().numpy()
    forget_plans()
    elements, wanted = decode(weight, FORMATS["q4_0"], 128), np.zeros((144, 72))
    left = x.float().numpy().astype(float)
    for g, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        wanted[start:end] = left[start:end] @ elements[g].T
    assert relative_error(found, wanted) < 1e-3
    assert not found[140:].any()
    assert "matmul/gemm_coopmat_decoded" in kernels


@pytest.mark.parametrize("rows", [20, 130])
def test_on_tensor_cores(rows: int, half_place: Any) -> None:
    """Where there are some; elements are those of `dequantize` but for a last bit."""
    rng = np.random.default_rng(0)
    for dtype, most in (("float16", 1e-3), ("bfloat16", 5e-3)):
        for name in FEW:
            kind = FORMATS[name]
            weight = encode(rng.standard_normal((256, 512)).astype(np.float32), kind)
            x = fw.tensor(rng.standard_normal((rows, 512)), dtype, half_place)
            blocks = fw.tensor(weight, device=half_place)
            found = quantized_linear(x, blocks, None, name).float().numpy()
            wanted = x.float().numpy().astype(float) @ decode(weight, kind, 512).T
            assert relative_error(found, wanted) < most


@pytest.mark.parametrize("rows", [20, 130])
def test_elements_rounded_there_are_not_smaller_on_average(
    rows: int, half_place: Any
) -> None:
    check_mean(rows, half_place)


def test_groups_on_tensor_cores(half_place: Any) -> None:
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((3, 128, 256)).astype(np.float32)
    weight = encode(drawn, FORMATS["q4_k"])
    x = fw.tensor(rng.standard_normal((90, 256)), "bfloat16", half_place)
    offs = fw.tensor([40, 40, 90], dtype=fw.int32, device=half_place)
    blocks = fw.tensor(weight, device=half_place)
    found = quantized_grouped_mm(x, blocks, offs, "q4_k").float().numpy()
    elements, left = decode(weight, FORMATS["q4_k"], 256), x.float().numpy()
    wanted = np.concatenate([left[:40] @ elements[0].T, left[40:] @ elements[2].T])
    assert relative_error(found, wanted) < 5e-3


def test_scales_without_a_number_make_none(half_place: Any) -> None:
    weight = np.zeros((64, 34 * 32), np.uint8)
    weight[1, :2] = np.frombuffer(np.float16(np.nan).tobytes(), np.uint8)
    x = fw.ones(12, 1024, device=half_place, dtype=fw.bfloat16)
    found = quantized_linear(x, fw.tensor(weight, device=half_place), None, "q8_0")
    is_nan = np.isnan(found.float().numpy())
    assert (
        is_nan.all(0).tolist() == is_nan.any(0).tolist() == [k == 1 for k in range(64)]
    )


def test_what_it_takes(discrete: DeviceInfo) -> None:
    gpu = dataclasses.replace(
        discrete, max_workgroup_invocations=1024, max_shared_memory=49_152
    )

    def takes(rows: int, k: int, columns: int, name: str = "q4_0") -> bool:
        kind = FORMATS[name]
        sizes = rows, k, columns
        return takes_decoding_gemm(gpu, float16, sizes, kind.row_size(k), kind)

    assert takes(9, 1024, 100)
    assert takes(65, 1024, 1024)
    assert takes(MOST_ROWS_OF_NIBBLES, 1024, 1024)
    assert not takes(MOST_ROWS_OF_NIBBLES + 1, 1024, 1024)
    assert not takes(MOST_ROWS_OF_BYTES + 1, 1024, 1024, "q8_0")
    assert not takes(100, 1056, 1024)  # half a step
    assert not takes(100, 1024, 32)  # less than a tile


@pytest.mark.parametrize("dtype", ["FLOAT16", "BFLOAT16"])
def test_cooperative_matrices_are_valid(dtype: str) -> None:
    source, _ = compiler.load_kernel_source("matmul/gemm_coopmat_decoded")
    defines = {"DTYPE": f"DTYPE_{dtype}", "FORMAT": "FORMAT_Q4_K", "WIDE_STORES": "1"}
    words = compiler.compile_glsl(source, name="decoded.comp", defines=defines)
    assert compiler.validate_spirv(words) is None
