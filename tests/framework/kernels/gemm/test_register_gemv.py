"""GEMV with activations in registers: which products, and with what result."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.large import as_discrete, change_model, relative_error
from tests.hardware import skip_where_it_crashes
from vkbackend import DeviceInfo
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DType, bfloat16, float16, float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import Dispatch, StridedSpec
from vkbackend.framework.kernels import quantized
from vkbackend.framework.kernels.gemm import register_gemv as module
from vkbackend.framework.kernels.gemm.register_gemv import register_gemv, takes_gate

BOUND = {"float16": 1e-3, "bfloat16": 8e-3}


@pytest.fixture(
    params=[
        None,
        (True, True, 0),
        (True, True, 2),
        (False, False, 1),
    ],
    ids=["default", "ahead-shuffles", "ahead-shuffles-turns", "turns"],
)
def kernels(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[list[str]]:
    """Return the kernels of products of few rows, which are taken without a search."""
    if request.param:
        ahead, shuffles, turns = request.param
        for kind in ("FLOATS", "GATED_FLOATS", "OF_ROWS"):
            tuning = getattr(quantized, kind)._replace(ahead=ahead, resident=turns)
            monkeypatch.setattr(quantized, kind, tuning)
        if shuffles:
            monkeypatch.setattr(
                quantized, "full_subgroup", lambda gpu, _: gpu.subgroup_size
            )
            monkeypatch.setattr(quantized, "OUTPUTS", (12, 4))
        change_model(monkeypatch, multiprocessors=1)
    skip_where_it_crashes(gpu.gpu.info)
    if not gpu.gpu.info.storage_16bit:
        pytest.skip("the device cannot store 16-bit floats")
    change_model(monkeypatch, gemv_smallest=1)
    monkeypatch.setattr(module, "MOST_DEFAULT_ROWS", 8)
    yield from as_discrete(monkeypatch, "register_gemv", register_gemv)


@pytest.mark.parametrize("dtype", [*BOUND])
@pytest.mark.parametrize(("rows", "columns", "k"), [(1, 37, 264), (3, 20, 4104)])
def test_products(
    dtype: str, rows: int, columns: int, k: int, gpu: GpuDevice, kernels: list[str]
) -> None:
    rng = np.random.default_rng(0)
    x, weight = (rng.standard_normal((n, k)) / 8 for n in (rows, columns + 2))
    bias = rng.standard_normal(columns)
    left, whole, last = (fw.tensor(each, dtype, gpu) for each in (x, weight, bias))
    right = whole[2:]
    found = (left @ right.T).float().numpy(), fw.relu(left @ right.T + last)
    assert kernels == ["quantized/gemv"] * len(kernels) != []
    wide = left.float().numpy().astype(np.float64) @ right.float().numpy().T
    assert relative_error(found[0], wide) < BOUND[dtype]
    more = np.maximum(wide + last.float().numpy(), 0)
    assert relative_error(found[1].float().numpy(), more) < BOUND[dtype]


def test_projections_of_a_normed_row_are_one_dispatch(
    gpu: GpuDevice, kernels: list[str]
) -> None:
    rng = np.random.default_rng(0)
    norm = fw.nn.RMSNorm(256, 1e-3).to(gpu)
    x, *weights = (
        fw.tensor(rng.standard_normal((n, 256)), "bfloat16", gpu) for n in (1, 256, 32)
    )
    with fw.no_grad():
        norm.weight.copy_(fw.tensor(rng.uniform(-2, 2, 256).astype(np.float32)))
        # A device tries its matrix units before the first product.
        fw.eval(x, *weights, norm.weight, x @ weights[0].T)
        with gpu.gpu.profile() as profile:
            y = norm(x)
            found = [y @ each.T for each in weights]
            del y
            fw.eval(*found)
    assert [span.name.split(" ")[0] for span in profile.spans] == ["quantized/gemv"]
    row = x.float().numpy().astype(np.float64)
    row = row / np.sqrt((row**2).mean() + 1e-3) * norm.weight.detach().numpy()
    for one, weight in zip(found, weights, strict=True):
        wanted = row @ weight.float().numpy().T
        assert relative_error(one.float().numpy(), wanted) < BOUND["bfloat16"]


def spec(dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...]) -> StridedSpec:
    return StridedSpec(shape, dtype, Layout(shape, strides, 0))


def answered(
    info: DeviceInfo, dtype: DType = bfloat16, k: int = 4096, line: int = 4096, **a: Any
) -> list[Dispatch] | None:
    rows = a.get("rows", 1)
    left = spec(dtype, (1, rows, k), (k * rows, a.get("row", k), 1))
    right = spec(dtype, (1, k, 4096), (0, 1, line))
    return register_gemv(info, left, right, a.get("out", dtype))


def test_which_products(discrete: DeviceInfo) -> None:
    (dispatch,) = answered(discrete) or []
    assert dispatch.kernel == "quantized/gemv"
    assert dispatch.constants["OUTPUTS"] == 8
    assert dispatch.constants["BATCH"] == 8
    assert dispatch.constants["LOCAL_X"] == 256
    assert dispatch.push["row_size"] == 512
    assert answered(discrete, line=4104) is not None
    assert answered(discrete, line=4100) is None
    assert answered(discrete, float32) is None
    assert answered(discrete, k=4092) is None
    assert answered(discrete, rows=9) is None
    assert answered(discrete, rows=2, row=4104) is None
    assert answered(discrete, out=float32) is None
    software = dataclasses.replace(discrete, kind="software")
    assert answered(software) is None


def test_gates_are_taken_where_products_are(
    discrete: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes_gate.cache_clear()
    assert takes_gate(discrete, float16, 1, 14336, 4096)
    assert not takes_gate(discrete, float16, 2, 14336, 4096)
    monkeypatch.setattr(module, "MOST_DEFAULT_ROWS", 2)
    takes_gate.cache_clear()
    assert takes_gate(discrete, float16, 2, 14336, 4096)
    assert not takes_gate(discrete, float16, 3, 14336, 4096)
    assert not takes_gate(discrete, float32, 1, 14336, 4096)
    takes_gate.cache_clear()
