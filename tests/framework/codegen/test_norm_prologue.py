"""RMS norms in the products that read them: when, and with what result."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.large import as_discrete, change_model
from tests.hardware import skip_where_it_crashes
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.kernels.gemm.gemv import skinny_gemm
from vkbackend.framework.scheduler.scheduler import unfused

BOUND = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}
WIDTH = 256


@pytest.fixture
def skinny(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuDevice]:
    """Let products of few rows run on the kernels that GPUs have for them."""
    skip_where_it_crashes(gpu.gpu.info)
    change_model(monkeypatch, gemv_smallest=1)
    for _ in as_discrete(monkeypatch, "skinny_gemm", skinny_gemm):
        yield gpu


def counted(
    gpu: GpuDevice, call: Callable[[], tuple[fw.Tensor, ...]]
) -> tuple[list[np.ndarray], int]:
    """Return results, and how many kernels made them."""
    with fw.no_grad():
        fw.eval()
        before = gpu.gpu.counters.snapshot()
        results = call()
        fw.eval()
        count = (gpu.gpu.counters.snapshot() - before).dispatches
        return [each.float().numpy() for each in results], count


def normed(dtype: str, gpu: GpuDevice, rows: int) -> tuple[nn.Module, fw.Tensor]:
    """Return a norm with a weight of float32, and rows, some of them small."""
    rng = np.random.default_rng(1)
    norm = nn.RMSNorm(WIDTH, 1e-3).to(gpu)
    with fw.no_grad():
        norm.weight.copy_(fw.tensor(rng.uniform(-2, 2, WIDTH).astype(np.float32)))
    x = rng.standard_normal((rows, WIDTH)) * 10.0 ** -np.arange(rows)[:, None]
    return norm, fw.tensor(x.astype(np.float32), dtype, gpu)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("dtype", [*BOUND])
def test_products_of_few_rows_take_norms(
    skinny: GpuDevice, dtype: str, turned: bool, rows: int
) -> None:
    if dtype != "float32" and not skinny.gpu.info.storage_16bit:
        pytest.skip("the device cannot store 16-bit floats")
    norm, x = normed(dtype, skinny, rows)
    rng = np.random.default_rng(2)
    shapes = [(44, WIDTH), (20, WIDTH)] if turned else [(WIDTH, 40), (WIDTH, 24)]
    first, second = (
        fw.tensor(rng.standard_normal(shape).astype(np.float32) / 16, dtype, skinny)
        for shape in shapes
    )

    def call() -> tuple[fw.Tensor, ...]:
        y = norm(x)
        found = [y @ (each.T if turned else each) for each in (first, second)]
        return found[0], found[1] * 0.5 + 1.0

    got, kernels = counted(skinny, call)
    with unfused(skinny):
        wanted, _ = counted(skinny, call)
    assert kernels == 2
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=BOUND[dtype], atol=4 * BOUND[dtype])


@pytest.mark.parametrize("rows", [1, 9])
def test_quantized_products_take_norms(gpu: GpuDevice, rows: int) -> None:
    skip_where_it_crashes(gpu.gpu.info)
    norm, x = normed("float32", gpu, rows)
    linear = nn.Linear(WIDTH, 20).requires_grad_(False)
    layer = nn.QLinear.from_linear(linear, "q8_0").to(gpu)
    got, kernels = counted(gpu, lambda: (layer(norm(x)), layer(norm(x)) + 1.0))
    with unfused(gpu):
        wanted, _ = counted(gpu, lambda: (layer(norm(x)), layer(norm(x)) + 1.0))
    assert kernels == 2
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def kept(y: fw.Tensor, w: fw.Tensor) -> tuple[fw.Tensor, ...]:
    return y, y @ w


def read_elsewhere(y: fw.Tensor, w: fw.Tensor) -> tuple[fw.Tensor, ...]:
    return ((y @ w) * y[:, :24],)


def read_in_part(y: fw.Tensor, w: fw.Tensor) -> tuple[fw.Tensor, ...]:
    return (y[1:] @ w,)


def read_by_a_larger_product(y: fw.Tensor, w: fw.Tensor) -> tuple[fw.Tensor, ...]:
    return y @ w, y.T @ y


@pytest.mark.parametrize(
    "use", [kept, read_elsewhere, read_in_part, read_by_a_larger_product]
)
def test_what_keeps_a_norm_apart(
    use: Callable[[fw.Tensor, fw.Tensor], tuple[fw.Tensor, ...]], skinny: GpuDevice
) -> None:
    norm, x = normed("float32", skinny, 3)
    w = fw.tensor(np.eye(WIDTH, 24, dtype=np.float32), device=skinny)
    got, kernels = counted(skinny, lambda: use(norm(x), w))
    with unfused(skinny):
        wanted, _ = counted(skinny, lambda: use(norm(x), w))
    assert kernels >= 2
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_norm_that_is_trained_is_computed(skinny: GpuDevice) -> None:
    norm, x = normed("float32", skinny, 2)
    w = fw.tensor(np.eye(WIDTH, 24, dtype=np.float32), device=skinny)
    (norm(x) @ w).sum().backward()
    exact = (x * fw.rsqrt((x * x).mean(-1, keepdim=True) + 1e-3)).sum(0).numpy()
    grad = norm.weight.grad
    assert grad is not None
    np.testing.assert_allclose(grad.numpy()[:24], exact[:24], rtol=1e-4, atol=1e-5)
