"""Matrices of a whole workgroup: who has them, and products on them.

Few devices have them, so what the kernel would read and write is followed here.
"""

import dataclasses
import itertools

import numpy as np
import pytest

import vkbackend
from tests.framework.ops.large import (
    WORKGROUP_FLAGS,
    operands,
    relative_error,
    with_workgroups,
)
from vkbackend.driver.features import missing_features
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DTYPES, DType, bfloat16, float16
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import Dispatch, Scratch, StridedSpec
from vkbackend.framework.kernels.gemm import select
from vkbackend.framework.kernels.gemm.select import large_tile_gemm
from vkbackend.framework.kernels.gemm.tiles import (
    TENSOR_CORES,
    WORKGROUP_MATRICES,
    WORKGROUP_TILES,
    Tile,
    TileConfig,
)
from vkbackend.framework.kernels.tensor_cores import offers, product_mode
from vkbackend.framework.ops.matmul import matmul
from vkbackend.shader import compiler
from vkbackend.shader.reflection import read_module

pytestmark = pytest.mark.core

GemmSize = tuple[int, int, int, int]


@pytest.fixture(scope="module")
def able(device: vkbackend.Device) -> vkbackend.DeviceInfo:
    return with_workgroups(device.info)


def placed(
    dtype: DType, batch: int, rows: int, columns: int, turned: bool
) -> StridedSpec:
    shape = (batch, columns, rows) if turned else (batch, rows, columns)
    layout = Layout.contiguous(shape)
    if turned:
        layout = layout.permute([0, 2, 1])
    return StridedSpec(layout.shape, dtype, layout)


def test_offers_matrices_of_a_workgroup(gpu: GpuDevice) -> None:
    info = with_workgroups(gpu.gpu.info)
    bare = dataclasses.replace(info, flexible_matrix=())
    for dtype in (float16, bfloat16):
        assert offers(info, dtype, WORKGROUP_MATRICES)
        assert not offers(bare, dtype, WORKGROUP_MATRICES)
        assert (
            not offers(gpu.gpu.info, dtype, WORKGROUP_MATRICES)
            or gpu.gpu.info.flexible_matrix
        )
    # Elements are stored one by one only where results are bfloat16.
    lost = {
        flag
        for flag in WORKGROUP_FLAGS
        if not offers(
            dataclasses.replace(info, supported=info.supported - {flag}),
            float16,
            WORKGROUP_MATRICES,
        )
    }
    assert WORKGROUP_FLAGS - lost == {
        *("bfloat16", "bfloat16_cooperative_matrix", "matrix_per_element")
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("m", 48),
        ("k", 128),
        ("scope", "subgroup"),
        ("saturating", True),
        ("invocations", 512),
        ("largest", 128),
        ("result", "float64"),
    ],
)
def test_what_cannot_hold_each_tile_is_not_offered(
    gpu: GpuDevice, field: str, value: object
) -> None:
    info = with_workgroups(gpu.gpu.info)
    rows = tuple(
        dataclasses.replace(row, **{field: value})  # type: ignore[arg-type]
        for row in info.flexible_matrix
    )
    other = dataclasses.replace(info, flexible_matrix=rows)
    assert not offers(other, bfloat16, WORKGROUP_MATRICES)


def in_memory(
    x: np.ndarray, name: str, found: list[Dispatch], turned: bool
) -> np.ndarray:
    """Return the elements of an operand where a product's kernel reads it."""
    product = found[-1]
    stored = x.swapaxes(1, 2) if turned else x
    memory = product.push[name]
    if not isinstance(memory, Scratch):
        return np.ascontiguousarray(stored).reshape(-1)
    (pack,) = (
        row
        for row in found
        if row.kernel == "matmul/pack" and getattr(row.push["x"], "memory", "") == name
    )
    lines, vectors = pack.push["padded_lines"], pack.push["padded_vectors"]
    held = np.zeros((len(x), lines, 8 * vectors))  # type: ignore[arg-type,operator]
    held[:, : stored.shape[1], : stored.shape[2]] = stored
    return held.reshape(-1)


def followed(
    found: list[Dispatch], a: np.ndarray, b: np.ndarray, turned: str
) -> np.ndarray:
    """Return what matmul/gemm_coopmat2 computes by its text; parts are added up."""
    product = found[-1]
    push, constants = product.push, product.constants
    memories = {
        "a": in_memory(a, "a", found, "a" in turned),
        "b": in_memory(b.swapaxes(1, 2), "b", found, "b" not in turned),
    }
    m, n, k, total, batches = (
        int(push[x]) for x in ("m", "n", "k", "total", "batches")
    )  # type: ignore[arg-type]
    blocks = {"a": int(constants["BLOCK_M"]), "b": int(constants["BLOCK_N"])}
    out = np.zeros((product.grid[2], m, n))
    groups = range(product.grid[0] * product.grid[1])
    across = (n - 1) // blocks["b"] + 1
    for z, group in itertools.product(range(product.grid[2]), groups):
        row, column = group // across * blocks["a"], group % across * blocks["b"]
        if row >= m:
            continue
        row = min(row, int(push["last_row"]))  # type: ignore[arg-type]
        column = min(column, int(push["last_column"]))  # type: ignore[arg-type]
        part, batch = divmod(z, batches)
        own = min(k, total - part * k) if constants["UNEVEN_SPLITS"] else k
        tiles = {}
        for side, first in (("a", row), ("b", column)):
            stride = 8 * int(push[f"{side}_stride"])  # type: ignore[arg-type]
            start = 8 * batch * int(push[f"{side}_batch"])  # type: ignore[arg-type]
            steps = np.arange(part * k, part * k + own)
            lines = np.arange(first, first + blocks[side])
            along = constants[f"{side.upper()}_ALONG_K"]
            assert along or first % 8 == 0
            places = (
                lines[:, None] * stride + steps
                if along
                else steps * stride + lines[:, None]
            )
            tiles[side] = memories[side][
                start + places
            ]  # raises where there is nothing
        sums = tiles["a"] @ tiles["b"].T
        inside = sums[: m - row, : n - column]
        if constants["DIRECT_STORE"]:
            assert inside.shape == sums.shape
            assert n % 8 == 0
        out[z, row : row + blocks["a"], column : column + blocks["b"]] = inside
    return out.reshape(-1, batches, m, n).sum(axis=0)


@pytest.mark.parametrize("tile", WORKGROUP_TILES)
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize(
    "sizes",
    [(1, 256, 256, 128), (2, 131, 257, 77), (1, 40, 300, 96), (1, 300, 264, 425)],
)
def test_matrices_of_a_workgroup_cover_a_product(
    able: vkbackend.DeviceInfo,
    monkeypatch: pytest.MonkeyPatch,
    tile: Tile,
    turned: str,
    splits: int,
    sizes: GemmSize,
) -> None:
    monkeypatch.setattr(select, "SMALLEST", 1)
    monkeypatch.setattr(select, "PACKED_SMALLEST", 1)
    batch, m, n, k = sizes
    a = placed(float16, batch, m, k, "a" in turned)
    b = placed(float16, batch, k, n, "b" in turned)
    found = large_tile_gemm(able, a, b, WORKGROUP_MATRICES, TileConfig(tile, splits))
    assert found is not None
    if splits > 1:
        assert found.pop().kernel == "reduce/reduce" or k <= tile.k
    product = found[-1]
    assert product.kernel == "matmul/gemm_coopmat2"
    threads = tile.m * tile.n // (tile.sub_m * tile.sub_n) * 32
    assert (product.constants["LOCAL_X"], product.constants["BLOCK_K"]) == (threads, 64)
    rng = np.random.default_rng(0)
    # Small integers, so that sums are exact.
    left = rng.integers(-4, 5, (batch, m, k)).astype(np.float64)
    right = rng.integers(-4, 5, (batch, k, n)).astype(np.float64)
    got = followed(found, left, right, turned)
    np.testing.assert_array_equal(got, left @ right)


def test_workgroups_leave_alone_what_they_cannot_count(
    able: vkbackend.DeviceInfo,
) -> None:
    def ways(k: int) -> list[bool]:
        # Of the 33 columns a whole tile is packed.
        a, b = placed(float16, 1, 33, k, False), placed(float16, 1, k, 33, False)
        modes = TENSOR_CORES, WORKGROUP_MATRICES
        return [large_tile_gemm(able, a, b, mode) is not None for mode in modes]

    assert ways(1 << 20) == [True, True]
    assert ways(1 << 24) == [True, False]


@pytest.mark.parametrize("dtype", ["FLOAT16", "BFLOAT16"])
@pytest.mark.parametrize("sums", [{}, {"OUT_ACC": "1"}])
def test_kernels_on_matrices_of_a_workgroup_are_valid(
    able: vkbackend.DeviceInfo, dtype: str, sums: dict[str, str]
) -> None:
    """By the validator that comes with glslang: Debian 12's spirv-val is older."""
    source, _ = compiler.load_kernel_source("matmul/gemm_coopmat2")
    defines = {"DTYPE": f"DTYPE_{dtype}", **sums}
    words = compiler.compile_glsl(source, name="workgroup.comp", defines=defines)
    assert compiler.validate_spirv(words) is None
    module = read_module(words)
    a, b = placed(float16, 1, 512, 512, False), placed(float16, 1, 512, 512, False)
    found = large_tile_gemm(able, a, b, WORKGROUP_MATRICES)
    assert found is not None
    (product,) = found
    assert module.push is not None
    assert {field.name for field in module.push.fields} == product.push.keys()
    assert product.constants.keys() <= {row.name for row in module.spec_constants}
    # What `tensor_cores.offers` asks for is all that the module needs.
    assert (
        missing_features(module.capabilities, WORKGROUP_FLAGS | {"buffer_device_address"}) == []
    )


WORKGROUP_CUTS = [
    TileConfig(tile, splits) for tile in WORKGROUP_TILES for splits in (1, 3)
]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("config", WORKGROUP_CUTS, ids=lambda config: config.name)
def test_on_matrices_of_a_workgroup(
    gpu: GpuDevice,
    dtype: str,
    turned: str,
    config: TileConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not offers(gpu.gpu.info, DTYPES[dtype], WORKGROUP_MATRICES):
        pytest.skip("the device has no matrices of a workgroup")
    product_mode(gpu, DTYPES[dtype])  # tried before its kernels are others
    monkeypatch.setattr(select, "SMALLEST", 1)
    monkeypatch.setattr(select, "PACKED_SMALLEST", 1)
    monkeypatch.setattr(
        matmul,
        "large_tile_gemm",
        lambda info, a, b, _: large_tile_gemm(info, a, b, WORKGROUP_MATRICES, config),
    )
    gpu.plans.clear()
    bound = {"float16": 3e-4, "bfloat16": 2.4e-3}[dtype]
    for sizes in ((1, 512, 384, 448), (2, 331, 460, 600), (2, 300, 264, 1001)):
        a, b, want = operands(gpu, sizes, turned, dtype)
        assert relative_error((a @ b).numpy(), want) < bound
    gpu.plans.clear()
