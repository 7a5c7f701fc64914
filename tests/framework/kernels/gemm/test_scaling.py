"""Operands scaled to float16: their numbers, and products of them."""

from collections.abc import Iterator

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.kernels.gemm.test_pack import emulate
from tests.framework.ops.large import change_costs, operands, relative_error
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ir.kernel_call import Dispatch
from vkbackend.framework.kernels.gemm import scaling, select
from vkbackend.framework.kernels.gemm.tiles import SCALED_FLOAT16, TileConfig
from vkbackend.framework.kernels.gpu_model import TENSOR_CORE_TILES

ROWS = ["matmul/scale_rows"]
COLUMNS = ["matmul/largest_columns", "matmul/scale_columns"]


@pytest.fixture
def scaled(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Dispatch]]:
    """Let products of float32 be scaled, on tensor cores that shaders emulate."""
    monkeypatch.setattr(select, "is_scaling_worthwhile", lambda *_: True)
    change_costs(monkeypatch, (SCALED_FLOAT16,), simt_below=0)
    yield from emulate(gpu, monkeypatch, SCALED_FLOAT16, {})


def rounded(x: np.ndarray, axis: int) -> np.ndarray:
    """Return what is left of numbers whose scales are along an axis."""
    finite = np.where(np.isfinite(x), np.abs(x), 0)
    largest = finite.max(axis, keepdims=True)
    exponent = np.maximum(np.frexp(largest)[1] - 1, 15 - 127)
    scale = np.ldexp(1.0, 14 - exponent)
    with np.errstate(invalid="ignore"):
        return (x * scale).astype(np.float16).astype(np.float64) / scale


SIZES = [
    # A step, uneven parts of K, edges of tiles in a batch, and less than a tile.
    ((1, 64, 64, 64), ""),
    ((1, 64, 72, 224), "b"),
    ((2, 132, 72, 104), "a"),
    ((2, 133, 71, 97), "ab"),
    ((2, 67, 70, 98), ""),
    ((1, 40, 20, 30), "a"),
    ((1, 65, 140, 700), "a"),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("sizes", "turned"), SIZES)
def test_products(
    gpu: GpuDevice,
    scaled: list[Dispatch],
    sizes: tuple[int, int, int, int],
    turned: str,
) -> None:
    a, b, want = operands(gpu, sizes, turned, "float32")
    # Rows and columns whose largest elements lie far apart, and one of zeros.
    rows = 2.0 ** np.linspace(-60, 60, sizes[1]).round()[:, None]
    columns = 2.0 ** np.linspace(55, -55, sizes[2]).round()
    rows[1] = 0
    left, right = (
        a * fw.tensor(rows, "float32", gpu),
        b * fw.tensor(columns, "float32", gpu),
    )
    if "a" in turned:
        left = left.mT.contiguous().mT
    if "b" in turned:
        right = right.mT.contiguous().mT
    got = (left @ right).numpy() / rows.clip(2.0**-60) / columns
    exact = rounded(a.numpy(), 2) @ rounded(b.numpy(), 1)
    exact[:, 1], want[:, 1] = 0, 0
    assert relative_error(got, exact) < 1e-6
    assert 1e-4 < relative_error(got, want) < 4e-4
    kernels = [each.kernel for each in scaled]
    packing = (COLUMNS if "a" in turned else ROWS) + (
        ROWS if "b" in turned else COLUMNS
    )
    assert kernels[: len(packing)] == packing
    assert kernels[len(packing)] == "matmul/gemm_coopmat"


@pytest.mark.parametrize("sizes", [(2, 72, 140, 330), (1, 131, 70, 330)])
def test_largest_elements_in_stages(
    gpu: GpuDevice,
    scaled: list[Dispatch],
    sizes: tuple[int, int, int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scaling, "LEAST_IN_STAGES", 0)
    monkeypatch.setattr(scaling, "MOST_SLICES", 2)
    a, b, _ = operands(gpu, sizes, "a", "float32")
    exact = rounded(a.numpy(), 2) @ rounded(b.numpy(), 1)
    assert relative_error((a @ b).numpy(), exact) < 1e-6
    kernels = [each.kernel for each in scaled]
    assert kernels[:6] == [COLUMNS[0], *COLUMNS] * 2


@pytest.mark.parametrize("turned", ["", "ab"])
def test_what_is_not_finite(
    gpu: GpuDevice, scaled: list[Dispatch], turned: str
) -> None:
    """It stays in its row or column, and leaves the scale to the other elements."""
    a, b, _ = operands(gpu, (1, 64, 64, 64), turned, "float32")
    left, right = a.numpy()[0], np.abs(b.numpy()[0])
    left[3, 5], left[9, 1], right[7, 11] = np.inf, np.nan, -np.inf
    place = {"a": left, "b": right}
    tensors = [
        fw.tensor(np.ascontiguousarray(each.T), device=gpu).mT
        if name in turned
        else fw.tensor(each, device=gpu)
        for name, each in place.items()
    ]
    got = (tensors[0] @ tensors[1]).numpy()
    with np.errstate(invalid="ignore"):
        want = rounded(left, 1) @ rounded(right, 0)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want)
    assert relative_error(got[finite], want[finite]) < 1e-6


@pytest.mark.parametrize(
    ("left", "right"), [(1e38, 2e-38), (1e-30, 1e30), (3e38, 1e-3)]
)
def test_scales_of_any_range(
    gpu: GpuDevice, scaled: list[Dispatch], left: float, right: float
) -> None:
    """No intermediate product overflows or vanishes where the result does not."""
    a = fw.full((64, 64), left, device=gpu)
    b = fw.full((64, 64), right, device=gpu)
    want = 64 * float(np.float32(left)) * float(np.float32(right))
    got = (a @ b).numpy()
    np.testing.assert_allclose(got, np.full((64, 64), want), rtol=1e-3)


def test_views_and_repeated_batches(gpu: GpuDevice, scaled: list[Dispatch]) -> None:
    rng = np.random.default_rng(0)
    x = fw.tensor(rng.standard_normal((3, 70, 150)).astype(np.float32), device=gpu)
    y = fw.tensor(rng.standard_normal((140, 80)).astype(np.float32), device=gpu)
    for i in (1, 4):
        left, right = x[:, i:, i : i + 128], y[i : i + 128, i:]
        got = (left @ right).numpy()
        want = left.numpy().astype(np.float64) @ right.numpy().astype(np.float64)
        assert relative_error(got, want) < 4e-4
        left = x[:, 2:66, ::2]
        right = y[:75:1, ::2]
        want = left.numpy().astype(np.float64) @ right.numpy().astype(np.float64)
        assert relative_error((left @ right).numpy(), want) < 4e-4


@pytest.mark.parametrize("splits", [1, 3])
def test_slices_of_k(
    gpu: GpuDevice,
    scaled: list[Dispatch],
    splits: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = TileConfig(TENSOR_CORE_TILES[3], splits, True, 1 if splits > 1 else 0)
    monkeypatch.setattr(select, "_ranked_configs", lambda *_: [config])
    a, b, _ = operands(gpu, (1, 192, 68, 200), "", "float32")
    exact = rounded(a.numpy(), 2) @ rounded(b.numpy(), 1)
    assert relative_error((a @ b).numpy(), exact) < 1e-6
    kernels = [each.kernel for each in scaled]
    assert kernels.count("matmul/gemm_coopmat") == (2 if splits > 1 else 1)
