"""Attention in large register tiles, as GPUs run it, on any device."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import draw
from vkbackend import DeviceInfo
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ir.kernel_call import Dispatch
from vkbackend.framework.kernels.attention import simt
from vkbackend.framework.kernels.attention.flash import AttentionCall
from vkbackend.framework.kernels.attention.simt import SimtTile, simt_tile
from vkbackend.framework.ops.attention import flash, sdpa

SMALL = SimtTile(64, 8, rows=4, columns=4, slab=4)
"""Few products to unroll, for software compiles each."""

SHAPES = {
    # Queries, keys and values; more than one tile, block and slab each.
    "quads": ((1, 2, 70, 24), (1, 2, 131, 24), (1, 2, 131, 36)),
    "odd": ((1, 4, 37, 13), (1, 2, 65, 13), (1, 2, 65, 7)),
    "long": ((1, 1, 70, 128), (1, 1, 70, 128), (1, 1, 70, 128)),
    "one": ((2, 1, 1, 1), (2, 1, 1, 1), (2, 1, 1, 1)),
}


@pytest.fixture
def kernels(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Have attention take the device for a discrete one; return the kernels it takes.

    Tiles are small.
    """
    chosen, seen = flash.flash_dispatch, []

    def dispatch(kernel: str, own: Any, call: AttentionCall) -> Dispatch:
        info = dataclasses.replace(call.gpu, kind="discrete", min_subgroup_size=1)
        found = chosen(kernel, own, call._replace(gpu=info))
        seen.append(found.kernel)
        return found

    monkeypatch.setattr(flash, "flash_dispatch", dispatch)
    monkeypatch.setattr(sdpa, "_wants_matrix", lambda *_: False)
    small = {simt.MOST_HEAD: SMALL}
    monkeypatch.setattr(simt, "TILES", dict.fromkeys(simt.TILES, small))
    monkeypatch.setattr(simt, "FEW_TILES", ())
    gpu.plans.clear()
    yield seen
    fw.eval()
    gpu.plans.clear()


def compare_with_torch(device: GpuDevice, shape: str, dtype: str, causal: bool) -> None:
    own = [
        fw.tensor(draw(*each, seed=k), dtype, device).requires_grad_()
        for k, each in enumerate(SHAPES[shape])
    ]
    theirs = [
        torch.from_numpy(x.detach().float().numpy()).double().requires_grad_()
        for x in own
    ]
    given = {"enable_gqa": shape == "odd", "is_causal": causal}
    out = ops.scaled_dot_product_attention(*own, **given)
    expected = F.scaled_dot_product_attention(*theirs, **given)
    weights = draw(*expected.shape, seed=9).astype(np.float16).astype(np.float32)
    out.backward(fw.tensor(weights, dtype, device))
    expected.backward(torch.from_numpy(weights).double())
    pairs = [(out.detach(), expected.detach())]
    for one, other in zip(own, theirs):
        assert one.grad is not None
        assert other.grad is not None
        pairs.append((one.grad, other.grad))
    for found, wanted in pairs:
        if dtype == "float32":  # sums of a hundred terms
            assert_close(found, wanted.float().numpy(), scale=10)
        else:
            error = np.abs(found.float().numpy() - wanted.numpy()).max()
            assert error <= 4e-3 * np.abs(wanted.numpy()).max()


# The others are combinations, whose kernels software compiles for seconds.
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("shape", "dtype", "causal"),
    [
        ("quads", "float32", False),
        ("odd", "float32", True),
        pytest.param("one", "float32", False, marks=pytest.mark.wide),
        pytest.param("long", "float32", True, marks=pytest.mark.wide),
        pytest.param("quads", "float16", True, marks=pytest.mark.wide),
    ],
)
def test_is_as_in_torch(
    shape: str, dtype: str, causal: bool, gpu: GpuDevice, kernels: list[str]
) -> None:
    compare_with_torch(gpu, shape, dtype, causal)
    assert sorted(kernels) == sorted(simt.KERNELS.values())


@pytest.mark.wide
@pytest.mark.parametrize(
    "tile",
    [
        SimtTile(64, 8),
        SimtTile(128, 8, columns=4),
        SimtTile(128, 16, columns=4, slab=4),
        SimtTile(256, 32, rows=4, columns=4),
        simt.FEW_TILES[1],
    ],
)
def test_other_tiles(
    tile: SimtTile,
    gpu: GpuDevice,
    kernels: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tiles = {simt.MOST_HEAD: tile}
    monkeypatch.setattr(simt, "TILES", dict.fromkeys(simt.TILES, tiles))
    compare_with_torch(gpu, "quads", "float32", True)
    assert sorted(kernels) == sorted(simt.KERNELS.values())


@pytest.mark.long
def test_mask_and_dropout(gpu: GpuDevice, kernels: list[str]) -> None:
    """The fourth query sees nothing; the vectors of a row are strided."""
    arrays = [draw(1, n, 2, 8, seed=n) for n in (37, 70, 70)]
    mask = draw(2, 37, 70) > -0.5
    mask[:, 3] = False
    found = []
    for device in ("cpu", gpu):
        fw.manual_seed(3)
        x = [fw.tensor(each, device=device, requires_grad=True) for each in arrays]
        seen = fw.tensor(mask, device=device)
        turned = [each.transpose(1, 2) for each in x]
        out = ops.scaled_dot_product_attention(*turned, seen, dropout_p=0.2)
        (out * out).sum().backward()
        found.append([out.detach(), *(each.grad for each in x)])
    for one, other in zip(*found):
        assert_close(one, other.numpy(), scale=10)
    assert not found[1][0].numpy()[:, :, 3].any()
    assert sorted(kernels) == sorted(simt.KERNELS.values())


@pytest.mark.parametrize("kernel", simt.KERNELS)
def test_tiles_fit(kernel: str, discrete: DeviceInfo) -> None:
    # As much shared memory as every device has (Vulkan 1.0, limits table).
    small = dataclasses.replace(discrete, max_shared_memory=16384)
    common = dataclasses.replace(discrete, max_shared_memory=49152)
    for head in (1, 64, 80, 96, 128, 129, 256):
        tile = simt_tile(common, kernel, head, 4096, 64)
        assert tile is not None
        assert tile.block <= tile.invocations
        assert simt_tile(small, kernel, head, 4096, 64) is None
    assert simt_tile(common, kernel, 257, 4096, 64) is None


def test_few_vectors_have_smaller_tiles(discrete: DeviceInfo) -> None:
    common = dataclasses.replace(discrete, max_shared_memory=49152)

    def block(own: int, heads: int, head: int = 80) -> int:
        tile = simt_tile(common, "attention/flash", head, own, heads)
        assert tile is not None
        return tile.block

    assert [block(4096, 64), block(512, 20), block(333, 15)] == [128, 64, 32]
    # Long vectors have no registers for others.
    assert block(333, 15, 256) == block(4096, 64, 256)


def test_the_shape_of_tiles() -> None:
    """The kernels rely on it."""
    own = [tile for tiles in simt.TILES.values() for tile in tiles.values()]
    for tile in (*simt.CANDIDATES, *simt.FEW_TILES, *own):
        assert tile.lanes % 8 == 0
        assert tile.invocations // tile.lanes % 4 == 0
        assert tile.block % 32 == 0
        assert tile.block <= tile.invocations
        assert (tile.rows % 4, tile.columns % 4, tile.slab % 4) == (0, 0, 0)


def test_a_kernel_that_is_off(
    discrete: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(simt.USED, "attention/flash", False)
    assert simt_tile(discrete, "attention/flash", 64, 512, 8) is None
    assert simt_tile(discrete, "attention/flash_dq", 64, 512, 8) is not None
