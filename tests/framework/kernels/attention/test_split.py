"""Split-KV attention of few queries, which only hardware chooses."""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.framework.ops.twin import draw
from vkbackend import DeviceInfo
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import float16, float32, float64
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.kernels.attention import split
from vkbackend.framework.ops.attention import flash, sdpa

BOUND = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}


@pytest.fixture
def splitting(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuDevice]:
    """Return the device, which is taken for hardware and splits small calls too."""
    monkeypatch.setattr(sdpa, "_wants_matrix", lambda *_: False)
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, hides_latency=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    monkeypatch.setattr(split, "LEAST_KEYS", 8)
    monkeypatch.setattr(split, "LEAST_SLICE", 16)
    monkeypatch.setattr(split, "TILE_BYTES", 1 << 11)
    gpu.plans.clear()
    yield gpu
    fw.eval()
    gpu.plans.clear()


@pytest.fixture
def counts(splitting: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of slices that are computed."""
    seen: list[int] = []
    own = split.split_dispatches

    def noted(call: split.AttentionCall) -> list[split.Dispatch]:
        found = own(call)
        slices = found[1].push["slices"]
        assert isinstance(slices, int)
        seen.append(slices)
        return found

    monkeypatch.setattr(flash, "split_dispatches", noted)
    return seen


def check(
    device: GpuDevice,
    dtype: str,
    shape: tuple[int, ...],
    mask: np.ndarray | None = None,
    rows: int = 3,
) -> None:
    """Compare with PyTorch; keys and values are views of a longer cache."""
    batch, heads, key_heads, queries, keys, head, value_head = shape
    q, k, v = (
        fw.tensor(draw(*size, seed=seed), dtype, device)
        for seed, size in enumerate(
            (
                (batch, heads, queries, head),
                (batch, key_heads, keys + rows, head),
                (batch, key_heads, keys + rows, value_head),
            )
        )
    )
    given = exact = None
    if mask is not None:
        kind = "bool" if mask.dtype == bool else dtype
        given = fw.tensor(mask, kind, device)
        exact = torch.from_numpy(mask if kind == "bool" else given.float().numpy())
    k, v = k[:, :, rows:], v[:, :, :keys]
    out = ops.scaled_dot_product_attention(q, k, v, given, enable_gqa=True)
    assert out.dtype.name == dtype
    wide = (torch.from_numpy(x.float().numpy()).double() for x in (q, k, v))
    if exact is not None and exact.dtype != torch.bool:
        exact = exact.double()
    expected = F.scaled_dot_product_attention(*wide, exact, enable_gqa=True)
    np.testing.assert_allclose(
        out.float().numpy(), expected.nan_to_num().numpy(), rtol=0, atol=BOUND[dtype]
    )


# Batch, heads, heads of keys, queries, keys, sizes of a key and of a value.
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("float32", (2, 4, 4, 1, 64, 16, 16)),
        ("float32", (1, 2, 1, 5, 37, 12, 20)),
        ("float16", (2, 4, 2, 2, 41, 24, 24)),
        ("bfloat16", (1, 3, 1, 3, 50, 17, 9)),
        pytest.param("float32", (1, 2, 2, 16, 300, 128, 128), marks=pytest.mark.wide),
        pytest.param("float16", (1, 2, 2, 1, 300, 80, 80), marks=pytest.mark.wide),
        pytest.param("float32", (3, 1, 1, 1, 131, 256, 256), marks=pytest.mark.wide),
        pytest.param("bfloat16", (1, 8, 2, 4, 97, 256, 64), marks=pytest.mark.wide),
        pytest.param("float16", (2, 2, 2, 2, 300, 1, 3), marks=pytest.mark.wide),
        pytest.param("float32", (1, 2, 1, 2, 97, 65, 67), marks=pytest.mark.wide),
    ],
)
def test_is_as_in_torch(
    dtype: str, shape: tuple[int, ...], splitting: GpuDevice, counts: list[int]
) -> None:
    if dtype != "float32" and not splitting.gpu.info.storage_16bit:
        pytest.skip("the device has no 16-bit storage")
    check(splitting, dtype, shape)
    assert counts
    assert counts[0] > 1


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks(kind: str, splitting: GpuDevice, counts: list[int]) -> None:
    """The first query sees nothing, and one of the slices is seen by no query."""
    shape = (2, 4, 2, 3, 53, 16, 16)
    mask = draw(2, 1, 3, 53, seed=3).astype(np.float32)
    seen = np.asarray(mask > -0.3)
    seen[:, :, 0] = False
    seen[:, :, :, 16:32] = False
    whole = np.where(seen, mask, np.float32(-math.inf))
    check(splitting, "float32", shape, seen if kind == "bool" else whole)
    assert counts
    assert counts[0] > 1


def test_nan_stays_in_its_head(splitting: GpuDevice, counts: list[int]) -> None:
    key = draw(1, 2, 40, 16, seed=1)
    key[0, 0, 3] = math.nan
    given = (draw(1, 2, 1, 16, seed=0), key)
    q, k = (fw.tensor(x, "float32", splitting) for x in given)
    out = ops.scaled_dot_product_attention(q, k, fw.ones_like(k)).numpy()
    assert counts
    assert np.isnan(out[0, 0]).all()
    np.testing.assert_allclose(out[0, 1], 1.0, rtol=1e-6)


def test_great_scores_do_not_overflow(splitting: GpuDevice, counts: list[int]) -> None:
    arrays = [60 * draw(1, 1, n, 16, seed=n) for n in (2, 40, 40)]
    out = ops.scaled_dot_product_attention(
        *(fw.tensor(x, "float32", splitting) for x in arrays)
    )
    exact = (torch.from_numpy(x).double() for x in arrays)
    expected = F.scaled_dot_product_attention(*exact).numpy()
    np.testing.assert_allclose(out.numpy(), expected, rtol=0, atol=2e-3)
    assert counts


def test_gradients_are_as_in_torch(splitting: GpuDevice, counts: list[int]) -> None:
    """The logarithms of the sums come from the combination."""
    arrays = [draw(1, 2, n, 16, seed=n) for n in (1, 40, 41)]
    arrays[2] = arrays[2][:, :, 1:]
    own = [fw.tensor(x, "float32", splitting).requires_grad_() for x in arrays]
    theirs = [torch.from_numpy(x).requires_grad_() for x in arrays]
    (ops.scaled_dot_product_attention(*own) ** 2).sum().backward()
    (F.scaled_dot_product_attention(*theirs) ** 2).sum().backward()
    for x, y in zip(own, theirs):
        assert x.grad is not None
        assert y.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), atol=1e-5)
    assert counts


def test_replays_under_jit(splitting: GpuDevice, counts: list[int]) -> None:
    """And gradients are not lost after calls without."""
    step = fw.jit(ops.scaled_dot_product_attention)
    arrays = [[draw(1, 2, n, 16, seed=s + n) for n in (1, 40, 40)] for s in range(4)]
    for each in arrays:
        given = [fw.tensor(x, "float32", splitting) for x in each]
        expected = F.scaled_dot_product_attention(*map(torch.from_numpy, each))
        np.testing.assert_allclose(
            step(*given).numpy(), expected.numpy(), rtol=2e-5, atol=2e-6
        )
    assert step.replays > 0
    plain = [fw.tensor(x, "float32", splitting) for x in arrays[0]]
    for _ in range(3):
        ops.scaled_dot_product_attention(*plain)
    for x in plain:
        x.requires_grad_()
    ops.scaled_dot_product_attention(*plain).sum().backward()
    assert counts
    assert all(x.grad is not None for x in plain)


def test_what_is_split(discrete: DeviceInfo) -> None:
    def chosen(
        queries: int,
        keys: int,
        head: int = 128,
        dtype: fw.dtype = float16,
        causal: bool = False,
        dropout: float = 0.0,
    ) -> bool:
        q, k = (TensorSpec((2, 4, n, head), dtype) for n in (queries, keys))
        return split.splits_keys(discrete, q, k, k, causal, dropout)

    assert chosen(1, 4096)
    assert chosen(split.MOST_QUERIES, 4096, dtype=float32)
    assert not chosen(split.MOST_QUERIES + 1, 4096)
    assert not chosen(1, split.LEAST_KEYS - 1)
    assert not chosen(1, 4096, head=257)
    assert not chosen(1, 4096, dtype=float64)
    assert not chosen(1, 4096, causal=True)
    assert not chosen(1, 4096, dropout=0.1)
    software = dataclasses.replace(discrete, kind="software")
    q, k = (TensorSpec((2, 4, n, 64), float32) for n in (1, 4096))
    assert not split.splits_keys(software, q, k, k, False, 0.0)


def test_many_queries_of_many_heads_are_left_to_tensor_cores(
    discrete: DeviceInfo,
) -> None:
    def filled(batch: int, queries: int) -> bool:
        q = TensorSpec((batch, 32, queries, 128), float16)
        return split.fills_tensor_cores(discrete, q)

    assert filled(8, split.QUERIES_WITH_TENSOR_CORES + 1)
    assert not filled(1, split.QUERIES_WITH_TENSOR_CORES + 1)
    assert not filled(8, split.QUERIES_WITH_TENSOR_CORES)


@pytest.mark.parametrize("head", [1, 7, 64, 80, 128, 256])
@pytest.mark.parametrize("queries", [1, 3, 16])
def test_tiles_fit(head: int, queries: int) -> None:
    for dtype in (float32, float16):
        q, k = (TensorSpec((1, 4, n, head), dtype) for n in (queries, 999))
        tile = split.split_tile(q, k, k)
        assert tile.shared_memory <= 49152
        assert tile.words * tile.vector >= head
        assert tile.words <= tile.invocations
        for number in (tile.span, tile.rows):
            assert number & (number - 1) == 0
            assert 0 < number <= tile.invocations
