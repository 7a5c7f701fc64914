"""Products of few rows or columns with a matrix, in every layout and dtype."""

import dataclasses
from collections.abc import Iterator

import pytest

import vkbackend
from tests.framework.ops.large import as_discrete, operands, relative_error
from tests.hardware import skip_where_it_crashes
from vkbackend.framework.device import Device
from vkbackend.framework.dispatch import Placed
from vkbackend.framework.dtype import float32
from vkbackend.framework.ops import few_rows as module
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
BOUNDS = {"float32": 1e-6, "float16": 4e-4, "bfloat16": 3e-3}


@pytest.fixture
def kernels(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    skip_where_it_crashes(device.info)
    monkeypatch.setattr(module, "SMALLEST", 1)
    monkeypatch.setattr(module, "MIN_PART", 32)
    yield from as_discrete(monkeypatch, "few_rows", few_rows)


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


def test_what_is_left_to_other_kernels(device: vkbackend.Device) -> None:
    discrete = dataclasses.replace(device.info, kind="discrete")
    software = dataclasses.replace(device.info, kind="software")

    def placed(*shape: int) -> Placed:
        return Placed(shape, float32, Layout.contiguous(shape))

    row, matrix = placed(1, 1, 512), placed(1, 512, 512)
    assert few_rows(discrete, row, matrix) is not None
    assert few_rows(software, row, matrix) is None
    assert few_rows(discrete, matrix, matrix) is None
    assert few_rows(discrete, row, placed(1, 512, 510)) is None
    assert few_rows(discrete, placed(1, 1, 32), placed(1, 32, 512)) is None
