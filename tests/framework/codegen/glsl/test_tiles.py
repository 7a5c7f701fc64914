"""Kernels that read operands across rows: each vector once, whatever the shape."""

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.codegen.graphs import apply, memory
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DType, float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen.glsl import tiles
from vkbackend.framework.codegen.lower import Tile, build_kernel


@pytest.fixture
def tiled(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuDevice]:
    """Return the device, which is taken for one that coalesces loads."""
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, uniform_loads=False, coalesces_loads=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    gpu.plans.clear()
    yield gpu
    fw.eval()
    gpu.plans.clear()


SHAPES = ((64, 48), (33, 47), (300, 18), (129, 260), (5, 33, 20), (3, 17, 19, 24))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int64"])
def test_permuted_operands(
    shape: tuple[int, ...], dtype: str, tiled: GpuDevice
) -> None:
    rng = np.random.default_rng(1)
    base = rng.integers(0, 9, shape)
    x = fw.tensor(base, device=tiled).to(dtype)
    for dims in itertools.islice(itertools.permutations(range(len(shape))), 1, None):
        other = rng.integers(0, 5, [shape[dim] for dim in dims])
        y = fw.tensor(other, device=tiled).to(dtype)
        found = x.permute(dims) * y + x.permute(dims)[..., :1]
        turned = base.transpose(dims)
        wanted = turned * other + turned[..., :1]
        np.testing.assert_array_equal(found.numpy(), wanted.astype(found.numpy().dtype))


def test_several_orders_in_one_kernel(tiled: GpuDevice) -> None:
    rng = np.random.default_rng(2)
    a, b, c = (rng.standard_normal((40, 40, 40)).astype("f4") for _ in range(3))
    x, y, z = (fw.tensor(each, device=tiled) for each in (a, b, c))
    found = x.permute(2, 1, 0) * y.permute(0, 2, 1) + z
    wanted = a.transpose(2, 1, 0) * b.transpose(0, 2, 1) + c
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


def test_several_at_once(tiled: GpuDevice) -> None:
    data = np.random.default_rng(3).standard_normal((6, 40, 52)).astype("f4")
    parts = [fw.tensor(each, device=tiled) for each in data]
    found = [part.T * 2 for part in parts]
    fw.eval(*found)
    for each, part in zip(found, data, strict=True):
        np.testing.assert_array_equal(each.numpy(), part.T * 2)


def _tile(
    shape: tuple[int, int], strides: tuple[int, int], dtype: DType, coalesces: bool
) -> tuple[int, ...]:
    """Return the operands that the kernel of one operand reads across rows."""
    operand = memory(shape, dtype, Layout(shape, strides))
    node = apply("neg", operand)
    built = build_kernel([node], {id(node.outputs[0])}, coalesces=coalesces)
    assert not built.program.tile or built.workgroup == tiles.WORKGROUP
    return built.program.tile


def test_what_is_not_read_across_rows() -> None:
    assert _tile((48, 64), (1, 48), float32, True) == (0,)
    assert not _tile((48, 64), (64, 1), float32, True)
    assert not _tile((48, 64), (65, 1), float32, True)
    assert not _tile((8, 64), (1, 8), float32, True)
    assert not _tile((48, 8), (1, 48), float32, True)
    assert not _tile((48, 64), (1, 48), float32, False)


def test_workgroups_cover_all_tiles() -> None:
    assert Tile((0,), (32, 32), 64, 3, 64).grid(2 * 3 * 64 * 64) == (2 * 2 * 6, 1, 1)
    assert Tile((0,), (32, 32), 33, 1, 33).grid(33 * 33) == (4, 1, 1)
    assert Tile((0,), (64, 64), 33, 1, 65).grid(33 * 65) == (2, 1, 1)


def test_what_shared_memory_holds() -> None:
    """Of many operands some are read as without tiles, with the same results."""
    assert tiles.shared_bytes(4, (32, 32)) <= tiles.MOST_SHARED // 4
    assert tiles.shared_bytes(8, (64, 64)) > tiles.MOST_SHARED
    assert tiles.size_of([8, 4]) == (32, 32)
    assert tiles.size_of([4, 1]) == (64, 64)


@pytest.mark.parametrize("columns", [64, 47])
def test_more_operands_than_shared_memory_holds(columns: int, tiled: GpuDevice) -> None:
    rng = np.random.default_rng(4)
    data = [rng.integers(0, 9, (columns, 70)) for _ in range(7)]
    dtypes = ["float32", "float16", "int64", "float32", "uint8", "int64", "float32"]
    given = [
        fw.tensor(x, device=tiled).to(t) for x, t in zip(data, dtypes, strict=True)
    ]
    fw.eval(*given)
    found = given[0].T
    for each in given[1:]:
        found = found * 2 + each.T
    wanted = data[0].T.astype("f8")
    for each in data[1:]:
        wanted = wanted * 2 + each.T
    np.testing.assert_array_equal(found.numpy(), wanted)
