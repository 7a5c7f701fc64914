"""Attention: options, memory, dropout, and the ways that need the whole matrix."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import as_in_torch, draw
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.ops.attention import sdpa

Make = Callable[..., fw.Tensor]
attend = ops.scaled_dot_product_attention


def test_batches_of_several_dimensions(make: Make) -> None:
    shapes = [(2, 3, 2, 7, 4), (3, 2, 5, 4), (2, 1, 2, 5, 6)]
    as_in_torch(make, attend, F.scaled_dot_product_attention, *shapes)


def test_views_are_read_in_place(make: Make) -> None:
    """Heads that lie inside of rows, as a linear map gives them."""

    def call(x: Any, function: Any) -> Any:
        q, k, v = (x[:, :, at].transpose(1, 2) for at in range(3))
        return function(q, k, v).transpose(1, 2)

    as_in_torch(
        make,
        lambda x: call(x, attend),
        lambda x: call(x, F.scaled_dot_product_attention),
        (2, 7, 3, 4, 5),
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [1, 100, 300])
def test_sizes_of_vectors(size: int, make: Make) -> None:
    shapes = [(1, 2, 11, size), (1, 2, 13, size), (1, 2, 13, size)]
    as_in_torch(make, attend, F.scaled_dot_product_attention, *shapes, scale=20)


@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 0, 4), (2, 3, 4), (2, 3, 5)],
        [(2, 3, 4), (2, 0, 4), (2, 0, 5)],
        [(0, 3, 4), (0, 2, 4), (0, 2, 5)],
    ],
)
def test_nothing_to_see(shapes: list[tuple[int, ...]], make: Make) -> None:
    inputs = [make(np.zeros(shape, np.float32), grad=True) for shape in shapes]
    out = attend(*inputs)
    assert out.shape == (*shapes[0][:2], 5)
    out.sum().backward()
    assert (out.detach().numpy() == 0).all()
    assert [each.grad.shape for each in inputs] == shapes


@pytest.mark.parametrize("queries", [9, 200])
def test_queries_that_see_no_key(queries: int, make: Make) -> None:
    mask = np.ones((queries, 11), bool)
    mask[3] = False
    inputs = [make(draw(2, n, 8, seed=n), grad=True) for n in (queries, 11, 11)]
    out = attend(*inputs, make(mask))
    out.sum().backward()
    assert (out.detach().numpy()[:, 3] == 0).all()
    assert np.isfinite(out.detach().numpy()).all()
    assert all(np.isfinite(each.grad.numpy()).all() for each in inputs)
    assert (inputs[0].grad.numpy()[:, 3] == 0).all()


def test_large_scores_do_not_overflow(make: Make) -> None:
    q, k, v = (make(draw(3, 5, 4, seed=s) * np.float32(100)) for s in range(3))
    twins = [torch.from_numpy(each.numpy()).double() for each in (q, k, v)]
    expected = F.scaled_dot_product_attention(*twins)
    # Scores up to 10^4 are known to 6e-4, and their exponentials with them.
    assert_close(attend(q, k, v), expected.float().numpy(), scale=1000)


@pytest.mark.parametrize(
    ("dtype", "masked"),
    [
        ("float16", True),
        ("bfloat16", False),
        pytest.param("float16", False, marks=pytest.mark.wide),
        pytest.param("bfloat16", True, marks=pytest.mark.wide),
    ],
)
def test_halves(dtype: str, masked: bool, half_place: Device) -> None:
    def make(array: np.ndarray) -> fw.Tensor:
        return fw.tensor(array, device=half_place)

    kind = getattr(torch, dtype)
    arrays = [draw(2, n, 16, seed=n) for n in (7, 37, 37)]
    ours = [make(each).to(dtype).detach().requires_grad_() for each in arrays]
    theirs = [torch.from_numpy(each).to(kind).double() for each in arrays]
    theirs = [each.requires_grad_() for each in theirs]
    mask = draw(7, 37)
    given = [make(mask).to(dtype)] if masked else []
    twin = torch.from_numpy(mask).to(kind).double() if masked else None
    found = attend(*ours, *given)
    expected = F.scaled_dot_product_attention(*theirs, twin)
    as_found = found.detach().numpy().dtype
    assert found.dtype.name == dtype
    assert_close(found, expected.detach().float().numpy().astype(as_found))
    found.sum().backward()
    expected.sum().backward()
    for one, other in zip(ours, theirs):
        assert other.grad is not None
        # The gradient's products are sums over keys of what was rounded before.
        wanted = other.grad.float().numpy().astype(as_found)
        assert_close(one.grad, wanted, scale=2)


def test_dropout_keeps_the_mean(make: Make) -> None:
    q, k = (make(np.zeros((2, 8, 4), np.float32)) for _ in range(2))
    v = make(np.ones((2, 8, 4), np.float32), grad=True)
    total = np.zeros((2, 8, 4))
    for _ in range(100):
        total += attend(q, k, v, dropout_p=0.25).detach().numpy()
    # 1,600 x 8 weights, each of variance 1 / 3 about 1.
    assert abs(total.mean() / 100 - 1) < 0.03
    assert np.ptp(total[..., 0]) > 0


def test_dropout_is_the_same_on_every_device(gpu: GpuDevice) -> None:
    found = []
    for device in ("cpu", gpu):
        fw.manual_seed(5)
        inputs = [
            fw.tensor(draw(2, n, 8, seed=n), device=device, requires_grad=True)
            for n in (70, 37, 37)
        ]
        out = attend(*inputs, dropout_p=0.3)
        out.sum().backward()
        found.append([out.detach(), *(each.grad for each in inputs)])
    for one, other in zip(*found):
        assert_close(one, other.numpy(), scale=10)


def test_everything_dropped(make: Make) -> None:
    x = make(draw(2, 5, 4), grad=True)
    out = attend(x, x, x, dropout_p=1.0)
    out.sum().backward()
    assert (out.detach().numpy() == 0).all()
    assert (x.grad.numpy() == 0).all()


@pytest.mark.parametrize("causal", [pytest.param(False, marks=pytest.mark.wide), True])
def test_long_sequences(causal: bool, gpu: GpuDevice) -> None:
    """More keys than software devices take a matrix of."""
    arrays = [draw(1, n, 4, seed=n) for n in (1100, 8000, 8000)]
    x = [fw.tensor(each, device=gpu, requires_grad=True) for each in arrays]
    twins = [torch.from_numpy(each).double().requires_grad_() for each in arrays]
    out = attend(*x, is_causal=causal)
    expected = F.scaled_dot_product_attention(*twins, is_causal=causal)
    assert_close(out, expected.detach().float().numpy(), scale=4)
    out.sum().backward()
    expected.sum().backward()
    for one, other in zip(x, twins):
        assert other.grad is not None
        # Sums of a thousand terms.
        assert_close(one.grad, other.grad.float().numpy(), scale=20)


@pytest.mark.usefixtures("_no_collector")
def test_memory_is_linear_in_the_length(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, keys = 2000, 5000
    statistics = gpu.gpu.pool.counts
    before = statistics.in_use
    monkeypatch.setattr(statistics, "peak_in_use", before)
    x = [
        fw.tensor(draw(1, n, 4, seed=n), device=gpu, requires_grad=True)
        for n in (queries, keys, keys)
    ]
    attend(*x).sum().backward()
    fw.eval()
    matrix = queries * keys * 4
    assert statistics.peak_in_use - before < matrix / 8


@pytest.mark.wide
def test_parts_of_queries(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    if not gpu.gpu.info.target.prefers_composition:
        pytest.skip("flash attention is the quickest")
    monkeypatch.setattr(sdpa, "LEAST_MATRIX", 0)
    monkeypatch.setattr(sdpa, "MOST_MATRIX", 2 * 3 * 9 * 4)
    monkeypatch.setattr(sdpa, "LEAST_QUERIES", 1)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 3, 9, 4), np.float32) for _ in range(3))
    bias = rng.standard_normal((3, 9, 9), np.float32)
    for options in ({}, {"is_causal": True}, {"attn_mask": bias}):
        ours = {
            name: fw.tensor(each, device=gpu) if name == "attn_mask" else each
            for name, each in options.items()
        }
        theirs = {
            name: torch.from_numpy(each) if name == "attn_mask" else each
            for name, each in options.items()
        }
        found = ops.scaled_dot_product_attention(
            *(fw.tensor(each, device=gpu) for each in (q, k, v)), **ours
        )
        wanted = torch.nn.functional.scaled_dot_product_attention(
            *(torch.from_numpy(each) for each in (q, k, v)), **theirs
        )
        assert np.allclose(found.numpy(), wanted.numpy(), atol=1e-5)
