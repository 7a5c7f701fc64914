"""Settings of products, and the test that decides about matrix units."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend import config
from vkbackend.driver.device_info import MatrixShape
from vkbackend.errors import ShaderError
from vkbackend.framework.autotune import autotune
from vkbackend.framework.base.device import GpuDevice, begin_generation
from vkbackend.framework.base.dtype import bfloat16, float16, float32, float64
from vkbackend.framework.base.errors import TraceError
from vkbackend.framework.kernels import tensor_cores
from vkbackend.framework.kernels.gemm.tiles import (
    FP16_ACCUMULATE,
    SCALED_FLOAT16,
    SIMT,
    TENSOR_CORES,
)
from vkbackend.framework.kernels.tensor_cores import offers, product_mode


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(config.CACHE.name, str(tmp_path))
    for name in ("_settings", "_modes", "_verdicts"):
        monkeypatch.setattr(tensor_cores, name, dict(getattr(tensor_cores, name)))
    tensor_cores._modes.clear()
    tensor_cores._verdicts.clear()
    # Nor may plans of another test's devices come again with a precision.
    begin_generation()


def test_precision_is_checked_and_kept() -> None:
    assert fw.get_float32_matmul_precision() == "highest"
    fw.set_float32_matmul_precision("high")
    assert fw.get_float32_matmul_precision() == "high"
    fw.set_float32_matmul_precision("medium")
    assert fw.get_float32_matmul_precision() == "medium"
    with pytest.raises(ValueError, match=r"^set_float32_matmul_precision: 'low' is no"):
        fw.set_float32_matmul_precision("low")


def test_the_host_and_other_dtypes_have_no_mode(gpu: GpuDevice) -> None:
    assert product_mode(fw.device("cpu"), float16) == SIMT
    assert product_mode(gpu, float64) == SIMT
    assert product_mode(gpu, float32) == SIMT


def test_settings_choose_the_mode(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_cores, "offers", lambda *_: True)
    tried = []

    def passes(device: GpuDevice, dtype: object, mode: str) -> bool:
        tried.append(mode)
        return mode != FP16_ACCUMULATE

    monkeypatch.setattr(tensor_cores, "_passes", passes)
    assert product_mode(gpu, float32) == SIMT
    assert product_mode(gpu, float16) == TENSOR_CORES
    fw.set_float32_matmul_precision("high")
    fw.allow_float16_accumulation(True)
    assert product_mode(gpu, float32) == SCALED_FLOAT16
    fw.set_float32_matmul_precision("medium")
    assert product_mode(gpu, float32) == SCALED_FLOAT16
    # What failed its test is not used, and no test runs twice.
    assert [product_mode(gpu, float16) for _ in range(2)] == [
        TENSOR_CORES,
        TENSOR_CORES,
    ]
    assert tried == [TENSOR_CORES, SCALED_FLOAT16, FP16_ACCUMULATE]


def test_offers(gpu: GpuDevice) -> None:
    shape = MatrixShape(
        16, 16, 16, "bfloat16", "bfloat16", "float32", "float32", "subgroup", False
    )
    flags = {"vulkan_memory_model", "storage_16bit", "subgroup_size_control"}
    flags |= {"full_subgroups", "cooperative_matrices", "bfloat16"}
    flags |= {"bfloat16_cooperative_matrix", "shader_float16"}
    info = dataclasses.replace(
        gpu.gpu.info, cooperative_matrix=(shape,), supported=frozenset(flags)
    )
    assert offers(info, bfloat16, TENSOR_CORES)
    assert not offers(info, float32, SCALED_FLOAT16)
    halves = dataclasses.replace(shape, a="float16", b="float16")
    assert offers(
        dataclasses.replace(info, cooperative_matrix=(halves,)), float32, SCALED_FLOAT16
    )
    assert not offers(info, float16, TENSOR_CORES)
    assert not offers(info, float16, FP16_ACCUMULATE)
    for flag in ("bfloat16_cooperative_matrix", "vulkan_memory_model"):
        less = dataclasses.replace(info, supported=info.supported - {flag})
        assert not offers(less, bfloat16, TENSOR_CORES)
    wide = dataclasses.replace(shape, n=8)
    assert not offers(
        dataclasses.replace(info, cooperative_matrix=(wide,)), bfloat16, TENSOR_CORES
    )


def test_wrong_or_slow_or_failing_units_are_not_trusted(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_cores, "_TEST_SIZE", 64)
    honest = tensor_cores._timed

    def timed(wrong: float, seconds: float):  # type: ignore[no-untyped-def]
        def answer(device, operands, dtype, mode):  # type: ignore[no-untyped-def]
            out, _ = honest(device, operands, dtype, SIMT)
            if mode == SIMT:
                return out, 1.0
            return np.where(np.arange(out.size) < 8, wrong * out, out), seconds

        return answer

    verdicts = []
    for wrong, seconds in ((1.0, 1.0), (1.5, 1.0), (1.0, 2.0)):
        monkeypatch.setattr(tensor_cores, "_timed", timed(wrong, seconds))
        verdicts.append(tensor_cores._passes(gpu, float32, SCALED_FLOAT16))
    assert verdicts == [True, False, False]

    def refuses(*_: object) -> None:
        raise ShaderError("no such matrices")

    monkeypatch.setattr(tensor_cores, "_timed", refuses)
    assert not tensor_cores._passes(gpu, float32, SCALED_FLOAT16)


def test_what_passed_is_kept_and_what_failed_is_tested_again(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_cores, "offers", lambda *_: True)
    tried = []

    def passes(device: GpuDevice, dtype: object, mode: str) -> bool:
        tried.append(dtype)
        return dtype is float16

    def next_process() -> list[str]:
        tensor_cores._modes.clear()
        tensor_cores._verdicts.clear()
        autotune._tables.clear()
        return [product_mode(gpu, dtype) for dtype in (float16, bfloat16)]

    monkeypatch.setattr(tensor_cores, "_passes", passes)
    assert [next_process() for _ in range(2)] == [[TENSOR_CORES, SIMT]] * 2
    assert tried == [float16, bfloat16, bfloat16]
    monkeypatch.setattr(autotune, "_settings", None)
    monkeypatch.setenv(config.AUTOTUNE.name, "0")
    assert next_process() == [TENSOR_CORES, SIMT]
    assert tried[3:] == [float16, bfloat16]


@pytest.mark.gpu
def test_this_device_passes_what_it_offers(gpu: GpuDevice) -> None:
    for dtype in (float16, bfloat16):
        offered = offers(gpu.gpu.info, dtype, TENSOR_CORES)
        assert product_mode(gpu, dtype) == (TENSOR_CORES if offered else SIMT)


def test_a_step_with_a_precision_of_its_own_is_planned_once(gpu: GpuDevice) -> None:
    x = fw.ones((4, 4), device=gpu)

    def step() -> None:
        fw.set_float32_matmul_precision("high")
        assert (x @ x).sum().item() == 64
        fw.set_float32_matmul_precision("highest")
        assert (x @ x).sum().item() == 64

    step()
    plans, generation = len(gpu.plans), gpu.generation
    for _ in range(3):
        step()
    assert (len(gpu.plans), gpu.generation) == (plans, generation)


def test_what_was_called_keeps_its_precision(gpu: GpuDevice) -> None:
    x = fw.ones((4, 4), device=gpu)
    product = x @ x
    fw.set_float32_matmul_precision("highest")
    assert gpu.pending
    fw.set_float32_matmul_precision("high")
    assert not gpu.pending
    assert (product.numpy() == 4).all()


def test_precision_does_not_change_within_jit(gpu: GpuDevice) -> None:
    def halves(x: fw.Tensor) -> fw.Tensor:
        fw.set_float32_matmul_precision("high")
        return x @ x

    with pytest.raises(TraceError, match=r"precision of products is set"):
        fw.jit(halves)(fw.ones((4, 4), device=gpu))
    assert fw.get_float32_matmul_precision() == "highest"
