"""Sums of split-K slices: which kernel, and that it is right."""

import dataclasses

import numpy as np
import pytest

import vkbackend
from tests.kernel_run import run
from vkbackend import DeviceInfo
from vkbackend.framework.base.dtype import DTYPES, DType, decode, float32, int8
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.ir.kernel_call import Scratch
from vkbackend.framework.kernels.gemm import slice_sum
from vkbackend.framework.kernels.gemm.slice_sum import sum_slices


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize(("rows", "columns", "slices"), [(3, 44, 5), (1, 4, 1)])
def test_slices_are_added(
    device: vkbackend.Device,
    discrete: DeviceInfo,
    dtype: str,
    rows: int,
    columns: int,
    slices: int,
) -> None:
    if "16" in dtype and not device.info.storage_16bit:
        pytest.skip("the device cannot store 16-bit floats")
    kind = DTYPES[dtype]
    rng = np.random.default_rng(rows)
    draws = rng.integers(-50, 50, (slices, rows, columns))
    partial = draws.astype(np.int32 if dtype == "int32" else np.float32)
    step = sum_slices(
        discrete, Scratch("x", 0), TensorSpec((1, rows, columns), kind), slices
    )
    assert step.kernel == "matmul/sum_slices"
    (found,) = run(
        device,
        step.kernel,
        step.grid,
        {"out_": ((rows * columns,), kind.storage)},
        {name: int(value) for name, value in step.constants.items()},
        {**step.push, "partial": partial},
        defines=step.defines,
    )
    np.testing.assert_array_equal(decode(found, kind), draws.sum(0).reshape(-1))


def test_what_another_kernel_sums(discrete: DeviceInfo) -> None:
    partial = Scratch("x", 0)

    def kernel(
        columns: int, slices: int, dtype: DType = float32, info: DeviceInfo = discrete
    ) -> str:
        out = TensorSpec((1, 3, columns), dtype)
        return sum_slices(info, partial, out, slices).kernel

    assert kernel(8, 2) == "matmul/sum_slices"
    assert kernel(7, 2) == "reduce/reduce"
    assert kernel(8, slice_sum.MOST_SLICES + 1) == "reduce/reduce"
    assert kernel(8, 2, int8) == "reduce/reduce"
    software = dataclasses.replace(discrete, kind="software")
    assert kernel(8, 2, info=software) == "reduce/reduce"
