"""Products of few rows or columns with a matrix, in every layout and dtype."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.large import (
    as_discrete,
    change_model,
    operands,
    relative_error,
)
from tests.hardware import skip_where_it_crashes
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.gemm import register_gemv
from vkbackend.framework.kernels.gemm.gemv import skinny_gemm

GemmSize = tuple[int, int, int, int]

# batch, m, n, k
SIZES = [
    (1, 1, 256, 64),
    (2, 3, 200, 96),
    (1, 8, 1000, 1024),
    (2, 200, 3, 64),
    (1, 1024, 1, 256),
    (3, 1, 16, 2048),
]


def narrow_sizes(rows: int) -> pytest.MarkDecorator:
    """Give products of few rows that share two kernels: of `rows` rows, and of one.

    Of shorter elements a vector has more, each of which is unrolled for each row.
    """
    few = [
        (1, 1, 256, 64),
        (2, rows, 208, 96),
        (1, rows, 1008, 512),
        (2, 208, rows, 64),
        (1, 1024, 1, 256),
        (3, 1, 16, 2048),
    ]
    more = [(2, 3, 208, 96), (1, 8, 1008, 1024), (2, 208, 5, 64)]
    return pytest.mark.parametrize(
        "sizes", [few, pytest.param(more, marks=pytest.mark.gpu)], ids=["few", "more"]
    )


# The matrix across beside rows in vectors, and along the depth beside others.
narrow_turned = pytest.mark.parametrize(
    "turned",
    [
        "",
        "ab",
        pytest.param("a", marks=pytest.mark.gpu),
        pytest.param("b", marks=pytest.mark.gpu),
    ],
)
WIDE = pytest.mark.wide
BOUNDS = {"float16": 4e-4, "bfloat16": 3e-3}


@pytest.fixture
def kernels(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    skip_where_it_crashes(device.info)
    change_model(monkeypatch, gemv_smallest=1, gemv_min_split_depth=32)
    monkeypatch.setattr(register_gemv, "MOST_DEFAULT_ROWS", 0)
    yield from as_discrete(monkeypatch, "skinny_gemm", skinny_gemm)


def mirrored(sizes: GemmSize, turned: str) -> str:
    """Return what is turned of a product of few columns for the kernel of few rows."""
    if sizes[1] < sizes[2]:
        return turned
    return {"": "ab", "ab": ""}.get(turned, turned)


def check(
    gpu: Device,
    kernels: list[str],
    sizes: list[GemmSize],
    turned: str,
    dtype: str,
    bound: float,
) -> None:
    """Compute products of sizes that share kernels, which take long to compile."""
    for each in sizes:
        kernels.clear()
        a, b, want = operands(gpu, each, mirrored(each, turned), dtype)
        assert relative_error((a @ b).numpy(), want) < bound
        assert kernels[0] == "matmul/gemv"


@pytest.mark.core
@pytest.mark.parametrize(
    "turned",
    ["", "ab", *(pytest.param(each, marks=pytest.mark.wide) for each in ("a", "b"))],
)
def test_against_numpy(gpu: Device, kernels: list[str], turned: str) -> None:
    check(gpu, kernels, SIZES, turned, "float32", 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("turned", [False, True])
def test_the_order_of_sums_is_the_same_wherever_they_begin(
    gpu: Device, kernels: list[str], dtype: str, turned: bool
) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(2, 3, 64)).astype("f4")
    matrix = rng.normal(size=(2, 64, 64)).astype("f4")

    def found(start: int) -> bytes:
        flat = np.concatenate([np.zeros(start, "f4"), matrix.ravel()])
        given = fw.tensor(flat, dtype, gpu)[start:].reshape(matrix.shape)
        kernels.clear()
        out = fw.tensor(x, dtype, gpu) @ (given.mT if turned else given)
        answer = out.numpy().tobytes()
        assert kernels[0] == "matmul/gemv"
        return answer

    expected = found(0)
    assert found(1) == found(2) == expected


ODD = [(1, 203, 1, 131), (1, 1, 131, 203), (1, 3, 61, 1023), (2, 40, 1, 65)]
ODD += [(1, 3, 1, 2051), (1, 5, 2, 7), (1, 300, 1, 5)]


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-6), ("float16", 6e-4)])
@pytest.mark.parametrize("turned", ["", "ab"])
@pytest.mark.parametrize("start", [0, 1, 3])
def test_lines_that_begin_anywhere(
    gpu: Device, kernels: list[str], start: int, turned: str, dtype: str, bound: float
) -> None:
    """What lies around the operands is NaN."""
    rng, few = np.random.default_rng(0), ODD[:: 1 if dtype == "float32" else 3]
    for batch, m, n, k in few:
        kernels.clear()
        given = []
        for name, shape in (("a", (batch, m, k)), ("b", (batch, k, n))):
            shape = shape[0], *sorted(shape[1:], reverse=name in turned)
            around = np.full((shape[0] + 2, shape[1] + 2, shape[2] + 5), np.nan, "f4")
            inner = np.s_[1:-1, 1:-1, start : start + shape[2]]
            around[inner] = rng.standard_normal(shape)
            part = fw.tensor(around, dtype, gpu)[inner]
            wanted = {"a": (m, k), "b": (k, n)}[name]
            given.append(part if part.shape[1:] == wanted else part.mT)
        a, b = given
        want = a.numpy().astype(np.float64) @ b.numpy().astype(np.float64)
        assert relative_error((a @ b).numpy(), want) < bound
        assert kernels[0] == "matmul/gemv"


@pytest.mark.parametrize("dtype", ["float16", pytest.param("bfloat16", marks=WIDE)])
@narrow_sizes(3)
@narrow_turned
def test_16_bit_floats(
    gpu: Device, kernels: list[str], dtype: str, sizes: list[GemmSize], turned: str
) -> None:
    check(gpu, kernels, sizes, turned, dtype, BOUNDS[dtype])


@narrow_sizes(2)
@narrow_turned
def test_int8(
    gpu: Device, kernels: list[str], sizes: list[GemmSize], turned: str
) -> None:
    """With sums in int32, and of int8 that wrap."""
    for each in sizes:
        kernels.clear()
        rng = np.random.default_rng(sum(each))
        batch, m, n, k = each
        shapes = {"a": (batch, m, k), "b": (batch, k, n)}
        x, y = (
            rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes.values()
        )
        a, b = (
            fw.tensor(np.ascontiguousarray(part.swapaxes(1, 2)), None, gpu).mT
            if name in mirrored(each, turned)
            else fw.tensor(part, None, gpu)
            for name, part in (("a", x), ("b", y))
        )
        want = x.astype(np.int32) @ y.astype(np.int32)
        np.testing.assert_array_equal(fw.int_mm(a, b).numpy(), want)
        np.testing.assert_array_equal((a @ b).numpy(), want.astype(np.int8))
        assert kernels[0] == "matmul/gemv"


def test_what_is_left_to_other_kernels(device: vkbackend.Device) -> None:
    discrete = dataclasses.replace(device.info, kind="discrete")
    software = dataclasses.replace(device.info, kind="software")

    def placed(*shape: int) -> StridedSpec:
        return StridedSpec(shape, float32, Layout.contiguous(shape))

    row, matrix = placed(1, 1, 512), placed(1, 512, 512)
    assert skinny_gemm(discrete, row, matrix, float32) is not None
    assert skinny_gemm(software, row, matrix, float32) is None
    assert skinny_gemm(discrete, matrix, matrix, float32) is None
    assert skinny_gemm(discrete, row, placed(1, 512, 510), float32) is not None
    assert skinny_gemm(discrete, placed(1, 1, 32), placed(1, 32, 512), float32) is None


@pytest.mark.parametrize("rows", [1, 3])
def test_products_of_one_operand_are_one_launch(
    rows: int, kernels: list[str], gpu: GpuDevice
) -> None:
    """Of different widths, on both sides of a workgroup's."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 40), np.float32)
    matrices = [rng.standard_normal((n, 40), np.float32) for n in (37, 4, 130)]
    tensors = [fw.tensor(each, device=gpu) for each in (x, *matrices)]
    fw.eval()
    before = gpu.gpu.counters.snapshot()
    found = [tensors[0] @ each.T for each in tensors[1:]]
    fw.eval()
    assert (gpu.gpu.counters.snapshot() - before).dispatches == 1
    assert set(kernels) == {"matmul/gemv"}
    for one, matrix in zip(found, matrices, strict=True):
        np.testing.assert_allclose(one.numpy(), x @ matrix.T, rtol=1e-4, atol=1e-4)
