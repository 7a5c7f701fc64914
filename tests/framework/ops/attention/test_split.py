"""Attention of few queries, whose keys are split into slices."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.framework.ops.twin import draw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.attention import sdpa, split


@pytest.fixture
def splitting(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuDevice]:
    """Return the device, which splits small calls too."""
    monkeypatch.setattr(sdpa, "_wants_matrix", lambda *_: False)
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, prefers_composition=False)
    monkeypatch.setitem(info.__dict__, "target", target)
    monkeypatch.setattr(split, "LEAST_KEYS", 8)
    gpu.plans.clear()
    yield gpu
    fw.eval()
    gpu.plans.clear()


@pytest.fixture
def counts(splitting: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of slices that are computed."""
    seen: list[int] = []
    own = split.split_attention

    def noted(*call: Any) -> fw.Tensor:
        seen.append(call[-1])
        return own(*call)

    monkeypatch.setattr(sdpa, "split_attention", noted)
    return seen


@pytest.mark.parametrize(
    ("heads", "key_heads", "queries", "keys", "masked"),
    [(4, 4, 1, 64, False), (4, 2, 3, 37, True), (3, 1, 1, 41, True)],
)
def test_is_as_in_torch(
    heads: int,
    key_heads: int,
    queries: int,
    keys: int,
    masked: bool,
    gpu: GpuDevice,
    counts: list[int],
) -> None:
    """The first query of a mask sees nothing; views of a longer cache are read."""
    arrays = [
        draw(1, heads, queries, 16, seed=0),
        draw(1, key_heads, keys + 5, 16, seed=1),
        draw(1, key_heads, keys + 5, 16, seed=2),
    ]
    mask = np.asarray(draw(1, heads, queries, keys, seed=3) > -0.3)
    mask[:, 0, 0] = False
    q, k, v = (fw.tensor(x, "float32", gpu) for x in arrays)
    given = fw.tensor(mask, "bool", gpu) if masked else None
    out = ops.scaled_dot_product_attention(
        q, k[:, :, :keys], v[:, :, :keys], given, enable_gqa=True
    ).numpy()
    q, k, v = (torch.from_numpy(x).double() for x in arrays)
    exact = torch.from_numpy(mask) if masked else None
    expected = F.scaled_dot_product_attention(
        q, k[:, :, :keys], v[:, :, :keys], exact, enable_gqa=True
    ).nan_to_num()
    assert counts
    assert counts[0] > 1
    np.testing.assert_allclose(out, expected.numpy(), rtol=2e-5, atol=2e-6)


def test_nan_stays_in_its_head(gpu: GpuDevice, counts: list[int]) -> None:
    key = draw(1, 2, 40, 16, seed=1)
    key[0, 0, 3] = math.nan
    q, k = (fw.tensor(x, "float32", gpu) for x in (draw(1, 2, 1, 16, seed=0), key))
    out = ops.scaled_dot_product_attention(q, k, fw.ones_like(k)).numpy()
    assert counts
    assert np.isnan(out[0, 0]).all()
    np.testing.assert_allclose(out[0, 1], 1.0, rtol=1e-6)


def test_gradients_are_not_split(gpu: GpuDevice, counts: list[int]) -> None:
    x = fw.tensor(draw(1, 2, 40, 16), "float32", gpu).requires_grad_()
    ops.scaled_dot_product_attention(x[:, :, :1], x, x).sum().backward()
    assert not counts
    assert x.grad is not None


def test_replays_under_jit(splitting: GpuDevice) -> None:
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
    assert all(x.grad is not None for x in plain)
