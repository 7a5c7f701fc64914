"""RMS norms in the products that read them: when, and with what result."""

from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.hardware import skip_where_it_crashes
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.attention.decode import decode_attention
from vkbackend.framework.scheduler.scheduler import unfused

BOUND = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}
WIDTH = 256


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


def quantized(dtype: str, gpu: GpuDevice, rng: np.random.Generator) -> nn.Module:
    linear = nn.Linear(WIDTH, 20).requires_grad_(False)
    with fw.no_grad():
        weight = rng.standard_normal((20, WIDTH)).astype(np.float32) / 16
        linear.weight.copy_(fw.tensor(weight))
    return nn.QLinear.from_linear(linear, "q8_0").to(gpu, getattr(fw, dtype))


@pytest.mark.parametrize("rows", [1, 3, 7])
@pytest.mark.parametrize("dtype", [*BOUND])
def test_products_of_few_rows_take_norms(
    gpu: GpuDevice, dtype: str, rows: int, rng: np.random.Generator
) -> None:
    skip_where_it_crashes(gpu.gpu.info)
    if dtype != "float32" and not gpu.gpu.info.storage_16bit:
        pytest.skip("the device cannot store 16-bit floats")
    norm, x = normed(dtype, gpu, rows)
    layer = quantized(dtype, gpu, rng)

    def call() -> tuple[fw.Tensor, ...]:
        y = norm(x)
        return layer(y), layer(y) * 0.5 + 1.0

    got, kernels = counted(gpu, call)
    with unfused(gpu):
        wanted, _ = counted(gpu, call)
    assert kernels == 2
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=BOUND[dtype], atol=4 * BOUND[dtype])


def kept(y: fw.Tensor, layer: nn.Module) -> tuple[fw.Tensor, ...]:
    return y, layer(y)


def read_elsewhere(y: fw.Tensor, layer: nn.Module) -> tuple[fw.Tensor, ...]:
    return (layer(y) * y[:, :20],)


def read_in_part(y: fw.Tensor, layer: nn.Module) -> tuple[fw.Tensor, ...]:
    return (layer(y[1:]),)


def read_by_another_product(y: fw.Tensor, layer: nn.Module) -> tuple[fw.Tensor, ...]:
    return layer(y), y.T @ y


@pytest.mark.parametrize(
    "use", [kept, read_elsewhere, read_in_part, read_by_another_product]
)
def test_what_keeps_a_norm_apart(
    use: Callable[[fw.Tensor, nn.Module], tuple[fw.Tensor, ...]],
    gpu: GpuDevice,
    rng: np.random.Generator,
) -> None:
    norm, x = normed("float32", gpu, 3)
    layer = quantized("float32", gpu, rng)
    got, kernels = counted(gpu, lambda: use(norm(x), layer))
    with unfused(gpu):
        wanted, _ = counted(gpu, lambda: use(norm(x), layer))
    assert kernels >= 2
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_norm_that_is_trained_is_computed(
    gpu: GpuDevice, rng: np.random.Generator
) -> None:
    norm, x = normed("float32", gpu, 2)
    layer = quantized("float32", gpu, rng)
    layer(norm(x)).sum().backward()
    normal = x * fw.rsqrt((x * x).mean(-1, keepdim=True) + 1e-3)
    weight = layer(fw.eye(WIDTH, device=gpu)) - layer(fw.zeros(1, WIDTH, device=gpu))
    exact = normal.sum(0) * weight.sum(1)
    grad = norm.weight.grad
    assert grad is not None
    np.testing.assert_allclose(
        grad.numpy(), exact.detach().numpy(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("dtype", "head", "turned", "count"),
    [
        ("float32", 32, 32, 1),
        *(
            pytest.param(*each, marks=pytest.mark.wide)
            for each in (
                ("float16", 64, 16, 3),
                ("bfloat16", 10, 6, 2),
                ("bfloat16", 128, 0, 1),
            )
        ),
    ],
)
def test_attention_takes_norms_of_heads(
    gpu: GpuDevice,
    dtype: str,
    head: int,
    turned: int,
    count: int,
    rng: np.random.Generator,
) -> None:
    skip_where_it_crashes(gpu.gpu.info)
    if dtype != "float32" and not gpu.gpu.info.storage_16bit:
        pytest.skip("the device cannot store 16-bit floats")

    def drawn(*shape: int) -> fw.Tensor:
        return fw.tensor(rng.standard_normal(shape), dtype, gpu)

    norms = [nn.RMSNorm(head, eps).to(gpu) for eps in (1e-3, 1e-1)]
    with fw.no_grad():
        for each in norms:
            each.weight.copy_(fw.tensor(rng.uniform(0.5, 2, head).astype(np.float32)))
    q, k, v = (drawn(2, count, heads, head) * 3 for heads in (6, 2, 2))
    angles = (drawn(2, count, turned), drawn(2, count, turned)) if turned else None
    cache = [drawn(2, 2, 150, head) for _ in range(2)]
    at = fw.tensor(130, device=gpu)

    def call() -> tuple[fw.Tensor, ...]:
        vectors = norms[0](q), norms[1](k), v
        return decode_attention(
            *(each.transpose(1, 2) for each in vectors),
            angles,
            *cache,
            at,
            None,
            head**-0.5,
        )

    fw.eval(q, k, v, *cache, at, *(angles or ()), *(each.weight for each in norms))
    got, kernels = counted(gpu, call)
    with unfused(gpu):
        wanted, more = counted(gpu, call)
    # The norms; the cache that is still needed is copied in both.
    assert kernels == more - 2
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=BOUND[dtype], atol=4 * BOUND[dtype])
