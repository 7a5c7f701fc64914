"""Weighted sums of named elements, beside PyTorch; the rest is in the op table."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.agree import need
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.ops.indexing.tap_sum import tap_sum

BATCH, CHANNELS, SIZE, PLACES = 2, 19, 40, 500


def operands(taps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return elements, of which one that nothing names is NaN, indices and weights."""
    rng = np.random.default_rng(taps)
    x = rng.standard_normal((BATCH, CHANNELS, SIZE), np.float32)
    x[:, :, 0] = np.nan
    index = rng.integers(1, SIZE, (BATCH, taps, PLACES), np.int32)
    index[rng.random(index.shape) < 0.2] = -1
    return x, index, rng.standard_normal(index.shape, np.float32)


@pytest.mark.parametrize("taps", [1, 4, 5, 16])
def test_sums_and_gradients(taps: int, place: Device) -> None:
    """Also gradients of gradients, with more taps than are added at once."""
    x, index, weights = operands(taps)
    seed = np.random.default_rng(9).standard_normal((BATCH, CHANNELS, PLACES))
    found = []
    for lib in (fw, torch):
        options = {"device": place} if lib is fw else {}
        a, w, g = (
            lib.tensor(each.astype(np.float32), **options).requires_grad_()
            for each in (x, weights, seed)
        )
        named = lib.tensor(index, **options)
        if lib is fw:
            out = tap_sum(a, named, w)
        else:
            rows = named.clamp(min=0).long()[:, None].expand(-1, CHANNELS, -1, -1)
            taken = a.gather(2, rows.flatten(2)).unflatten(2, (taps, PLACES))
            taken = torch.where(named[:, None] < 0, 0.0, taken)
            out = (taken * w[:, None]).sum(2)
        first = lib.autograd.grad(out, (a, w), g, create_graph=True)
        second = lib.autograd.grad(
            (first[0].sin().sum() + first[1].cos().sum()), (a, w, g)
        )
        found.append([each.detach().cpu().numpy() for each in (out, *first, *second)])
    for ours, theirs in zip(*found, strict=True):
        assert_close(np.nan_to_num(ours), np.nan_to_num(theirs), scale=200)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("channels", "places"), [(5, 47), (16, 130), (3, 400)])
def test_images_in_shared_memory(
    channels: int, places: int, dtype: str, quads: GpuDevice
) -> None:
    """Of an odd number of channels too, and places divided among workgroups."""
    need(dtype, quads)
    rng = np.random.default_rng(places)
    x = rng.integers(-4, 5, (140, channels, 33))
    index = rng.integers(-1, 33, (140, 4, places), np.int32)
    weights = rng.integers(-3, 4, index.shape).astype(np.float32)
    given = fw.tensor(x, device=quads, dtype=DTYPES[dtype])
    named, shares = (fw.tensor(each, device=quads) for each in (index, weights))
    fw.eval(given, named, shares)
    with quads.gpu.profile() as profile:
        found = tap_sum(given, named, shares)
        fw.eval(found)
    (span,) = profile.spans
    assert span.name.startswith("index/tap_sum_shared")
    taken = np.take_along_axis(x[:, :, None], np.maximum(index, 0)[:, None], 3)
    wanted = (taken * np.where(index < 0, 0, weights)[:, None]).sum(2)
    assert np.array_equal(found.cpu().double().numpy(), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("channels", [5, 40])
def test_gradients_in_shared_memory(
    channels: int, dtype: str, quads: GpuDevice
) -> None:
    """Of one channel of a workgroup and of several, and of places that coincide."""
    need(dtype, quads)
    rng = np.random.default_rng(channels)
    index = rng.integers(-1, 33, (140, 4, 60), np.int32)
    index[:, :, 5:9] = 3
    weights = rng.integers(-3, 4, index.shape).astype(np.float32)
    slope = rng.integers(-4, 5, (140, channels, 60))
    x = fw.zeros(140, channels, 33, device=quads, dtype=DTYPES[dtype])
    x.requires_grad_()
    named, shares = (fw.tensor(each, device=quads) for each in (index, weights))
    seed = fw.tensor(slope, device=quads, dtype=DTYPES[dtype])
    out = tap_sum(x, named, shares)
    fw.eval(out, seed)
    with quads.gpu.profile() as profile:
        out.backward(seed)
        fw.eval(x.grad)
    assert [span.name.split()[0] for span in profile.spans] == ["index/tap_scatter"]
    wanted = np.zeros(x.shape)
    batch, tap, place = np.nonzero(index >= 0)
    added = slope[batch, :, place] * weights[batch, tap, place, None]
    np.add.at(wanted, (batch, slice(None), index[batch, tap, place]), added)
    assert np.array_equal(x.grad.cpu().double().numpy(), wanted)
