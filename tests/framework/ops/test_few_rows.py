"""Products of few rows or columns with a matrix, in every layout and dtype."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.large import as_discrete, operands, relative_error
from tests.hardware import skip_where_it_crashes
from vkbackend.framework.device import Device
from vkbackend.framework.dispatch import Placed
from vkbackend.framework.dtype import float32
from vkbackend.framework.ops import few_rows as module
from vkbackend.framework.ops import integer_product, linalg
from vkbackend.framework.ops.few_rows import few_rows
from vkbackend.framework.shape import Layout

# batch, m, n, k
SIZES = [
    (1, 1, 256, 64),
    (2, 3, 200, 96),
    (1, 8, 1000, 1024),
    (2, 200, 5, 64),
    (1, 1024, 1, 256),
    (3, 1, 16, 2048),
]
# The same, of whole vectors of int8.
BYTE_SIZES = [
    (1, 1, 256, 64),
    (2, 3, 208, 96),
    (1, 5, 1008, 512),
    (2, 208, 5, 64),
    (1, 1024, 1, 256),
    (3, 1, 16, 2048),
]
BOUNDS = {"float32": 1e-6, "float16": 4e-4, "bfloat16": 3e-3}


@pytest.fixture
def kernels(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    skip_where_it_crashes(device.info)
    monkeypatch.setattr(module, "SMALLEST", 1)
    monkeypatch.setattr(module, "MIN_PART", 32)
    for kernels in as_discrete(monkeypatch, "few_rows", few_rows):
        monkeypatch.setattr(integer_product, "few_rows", linalg.few_rows)
        yield kernels


@pytest.mark.parametrize(
    "dtype", [pytest.param("float32", marks=pytest.mark.core), "float16", "bfloat16"]
)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_against_numpy(
    gpu: Device,
    kernels: list[str],
    dtype: str,
    sizes: tuple[int, int, int, int],
    turned: str,
) -> None:
    a, b, want = operands(gpu, sizes, turned, dtype)
    assert relative_error((a @ b).numpy(), want) < BOUNDS[dtype]
    assert kernels[0] == "matmul/few_rows"


@pytest.mark.parametrize("sizes", BYTE_SIZES)
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("sums", [True, False])
def test_int8(
    gpu: Device,
    kernels: list[str],
    sums: bool,
    sizes: tuple[int, int, int, int],
    turned: str,
) -> None:
    """With sums in int32, and of int8 that wrap."""
    rng = np.random.default_rng(sum(sizes))
    batch, m, n, k = sizes
    shapes = {"a": (batch, m, k), "b": (batch, k, n)}
    x, y = (rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes.values())
    a, b = (
        fw.tensor(np.ascontiguousarray(each.swapaxes(1, 2)), None, gpu).mT
        if name in turned
        else fw.tensor(each, None, gpu)
        for name, each in (("a", x), ("b", y))
    )
    want = x.astype(np.int32) @ y.astype(np.int32)
    got = fw.int_mm(a, b) if sums else a @ b
    np.testing.assert_array_equal(got.numpy(), want if sums else want.astype(np.int8))
    assert kernels[0] == "matmul/few_rows"


def test_what_is_left_to_other_kernels(device: vkbackend.Device) -> None:
    discrete = dataclasses.replace(device.info, kind="discrete")
    software = dataclasses.replace(device.info, kind="software")

    def placed(*shape: int) -> Placed:
        return Placed(shape, float32, Layout.contiguous(shape))

    row, matrix = placed(1, 1, 512), placed(1, 512, 512)
    assert few_rows(discrete, row, matrix, float32) is not None
    assert few_rows(software, row, matrix, float32) is None
    assert few_rows(discrete, matrix, matrix, float32) is None
    assert few_rows(discrete, row, placed(1, 512, 510), float32) is None
    assert few_rows(discrete, placed(1, 1, 32), placed(1, 32, 512), float32) is None
