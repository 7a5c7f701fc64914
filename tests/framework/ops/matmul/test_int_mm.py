"""Products of int8 with sums in int32, on every kernel that may run them."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.large import as_discrete, change_costs
from tests.hardware import as_hardware, skip_where_it_crashes
from vkbackend import DeviceInfo
from vkbackend.driver.device_info import MatrixShape
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import int8
from vkbackend.framework.base.errors import GradError
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import Dispatch, StridedSpec
from vkbackend.framework.kernels import tensor_cores
from vkbackend.framework.kernels.gemm import candidates
from vkbackend.framework.kernels.gemm.select import large_tile_gemm
from vkbackend.framework.kernels.gemm.tiles import (
    DP4A,
    INT8_TENSOR_CORES,
    TileConfig,
)
from vkbackend.framework.kernels.gpu_model import INT8_TILES, SIMT_TILES
from vkbackend.framework.ops.matmul import int_mm
from vkbackend.shader import compiler

Make = Callable[..., fw.Tensor]
GemmSize = tuple[int, int, int, int]

# batch, m, n, k: whole tiles, ragged ones, less than a tile, a depth that is cut.
SIZES = [
    (1, 64, 64, 64),
    (2, 70, 90, 33),
    (3, 131, 257, 77),
    (1, 64, 96, 1100),
    (5, 33, 33, 16),
]
# Of larger tiles software compiles each variant for seconds.
WHOLE = TileConfig(SIMT_TILES[3], 1)
CONFIGS = [
    pytest.param(TileConfig(SIMT_TILES[3], 3), marks=pytest.mark.core),
    TileConfig(SIMT_TILES[7], 2),
    pytest.param(TileConfig(SIMT_TILES[1], 1), marks=pytest.mark.gpu),
    pytest.param(TileConfig(SIMT_TILES[2], 3), marks=pytest.mark.gpu),
]
SHAPE = MatrixShape(16, 16, 32, "int8", "int8", "int32", "int32", "subgroup", False)
FLAGS = {"vulkan_memory_model", "subgroup_size_control", "full_subgroups"}
FLAGS |= {"cooperative_matrices", "storage_8bit", "shader_int8"}


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed + sum(shape))
    return rng.integers(-128, 128, shape).astype(np.int8)


@pytest.fixture
def fill(make: Make) -> Make:
    """Make tensors of int8 on the host, and on the device if it can store bytes."""
    place = make(np.zeros(1, np.float32)).device
    if isinstance(place, GpuDevice) and not place.gpu.info.storage_8bit:
        pytest.skip("int8 needs storage_8bit")
    return make


def operands(
    place: Device, sizes: GemmSize, turned: str
) -> tuple[fw.Tensor, fw.Tensor, np.ndarray]:
    """Return the operands of a product, some stored turned, and what NumPy makes."""
    batch, m, n, k = sizes
    a, b = draw(batch, m, k), draw(batch, k, n, seed=1)
    pair = [
        fw.tensor(np.ascontiguousarray(x.swapaxes(1, 2)), None, place).transpose(1, 2)
        if name in turned
        else fw.tensor(x, None, place)
        for name, x in (("a", a), ("b", b))
    ]
    return pair[0], pair[1], a.astype(np.int32) @ b.astype(np.int32)


each_cut = pytest.mark.parametrize(
    "config",
    CONFIGS,
    ids=lambda config: f"{config.tile.m}x{config.tile.n}/{config.splits}",
)


@pytest.fixture
def kernels(
    config: TileConfig,
    device: vkbackend.Device,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[list[str]]:
    """Let products run as words of four on tiles for discrete devices."""
    skip_where_it_crashes(device.info)
    change_costs(monkeypatch, smallest=1, packed_smallest=1)
    monkeypatch.setattr(int_mm, "integer_mode", lambda _: DP4A)

    def rule(
        gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str
    ) -> list[Dispatch] | None:
        return large_tile_gemm(gpu, a, b, mode, config)

    yield from as_discrete(monkeypatch, "large_tile_gemm", rule)


@each_cut
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("sizes", SIZES)
def test_words_of_four(
    gpu: Device, kernels: list[str], sizes: GemmSize, turned: str
) -> None:
    a, b, want = operands(gpu, sizes, turned)
    np.testing.assert_array_equal(fw.int_mm(a, b).numpy(), want)
    assert "matmul/gemm_simt" in kernels


@pytest.mark.parametrize("config", [WHOLE], ids=["32x32"])
def test_words_of_four_without_the_instruction(
    gpu: GpuDevice, kernels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    info = gpu.gpu.info
    less = dataclasses.replace(info, supported=info.supported - {"integer_dot_product"})
    monkeypatch.setattr(gpu.gpu, "info", less)
    a, b, want = operands(gpu, (2, 70, 90, 33), "b")
    np.testing.assert_array_equal(fw.int_mm(a, b).numpy(), want)
    assert "matmul/gemm_simt" in kernels


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("turned", ["", "ab"])
def test_against_torch(fill: Make, sizes: GemmSize, turned: str) -> None:
    place = fill(np.zeros(1, np.int8)).device
    a, b, _ = operands(place, sizes, turned)
    got = fw.int_mm(a[0], b[0])
    assert got.dtype is fw.int32
    want = torch._int_mm(*(torch.from_numpy(x[0].numpy().copy()) for x in (a, b)))
    np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_deep_sums_wrap(fill: Make) -> None:
    # 2 ** 14 each, 2 ** 17 + 3 of them.
    x = fill(np.full((1, (1 << 17) + 3), -128, np.int8))
    assert fw.int_mm(x, x.mT).item() == -(1 << 31) + 3 * (1 << 14)


def test_a_matmul_of_int8_stays_int8(fill: Make) -> None:
    a, b = draw(5, 7), draw(7, 3)
    got = fill(a) @ fill(b)
    assert got.dtype is fw.int8
    np.testing.assert_array_equal(got.numpy(), a @ b)


def test_there_is_no_gradient() -> None:
    x = fw.ones((2, 3), "int8", "cpu")
    out = fw.int_mm(x, x.mT)
    assert not out.requires_grad
    with pytest.raises(GradError, match="int_mm has no gradient rule"):
        int_mm._int_mm.rule(out)


def with_integers(info: DeviceInfo) -> DeviceInfo:
    return as_hardware(info, cooperative_matrix=(SHAPE,), supported=frozenset(FLAGS))


@pytest.mark.parametrize("tile", INT8_TILES)
@pytest.mark.parametrize("turned", [False, True])
def test_matrix_units_read_along_the_depth(
    device: vkbackend.Device, tile: object, turned: bool
) -> None:
    def placed(rows: int, columns: int, turn: bool) -> StridedSpec:
        layout = Layout.contiguous((1, columns, rows) if turn else (1, rows, columns))
        layout = layout.permute([0, 2, 1]) if turn else layout
        return StridedSpec(layout.shape, int8, layout)

    info = with_integers(device.info)
    a, b = placed(512, 1024, False), placed(1024, 640, turned)
    found = large_tile_gemm(info, a, b, INT8_TENSOR_CORES, TileConfig(tile, 1))  # type: ignore[arg-type]
    assert found is not None
    packed = [dispatch.kernel for dispatch in found[:-1]]
    assert packed == ([] if turned else ["matmul/pack"])
    product = found[-1]
    assert product.kernel == "matmul/gemm_coopmat"
    assert (product.constants["A_ALONG_K"], product.constants["B_ALONG_K"]) == (1, 1)
    assert (product.constants["EDGE_K"], product.push["k"]) == (32, 1024)
    assert product.push["a_stride"] == product.push["b_stride"] == 1024 // 16


@pytest.mark.parametrize("defines", [{}, {"INTEGER_DOT": "1"}])
@pytest.mark.parametrize("kernel", ["gemm_coopmat", "gemm_simt", "pack"])
def test_kernels_are_valid(kernel: str, defines: dict[str, str]) -> None:
    source, _ = compiler.load_kernel_source(f"matmul/{kernel}")
    macros = {"DTYPE": "DTYPE_INT8", "OUT_ACC": "1", **defines}
    words = compiler.compile_glsl(source, name=f"{kernel}.comp", defines=macros)
    assert compiler.validate_spirv(words) is None


def test_what_a_device_offers(gpu: GpuDevice) -> None:
    info = with_integers(gpu.gpu.info)
    assert tensor_cores.offers(info, int8, INT8_TENSOR_CORES)
    for shape in (
        dataclasses.replace(SHAPE, k=64),
        dataclasses.replace(SHAPE, n=8),
        dataclasses.replace(SHAPE, a="uint8"),
        dataclasses.replace(SHAPE, saturating=True),
    ):
        other = dataclasses.replace(info, cooperative_matrix=(shape,))
        assert not tensor_cores.offers(other, int8, INT8_TENSOR_CORES)
    for flag in FLAGS:
        less = dataclasses.replace(info, supported=info.supported - {flag})
        assert not tensor_cores.offers(less, int8, INT8_TENSOR_CORES)


@pytest.mark.gpu
def test_this_device_passes_what_it_offers(gpu: GpuDevice) -> None:
    offered = tensor_cores.offers(gpu.gpu.info, int8, INT8_TENSOR_CORES)
    assert tensor_cores.integer_mode(gpu) == (INT8_TENSOR_CORES if offered else DP4A)


@pytest.mark.gpu
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize(
    "sizes", [(1, 256, 384, 128), (3, 331, 457, 577), (1, 64, 64, 8192)]
)
@pytest.mark.parametrize("mode", [DP4A, INT8_TENSOR_CORES])
def test_hardware(
    gpu: GpuDevice,
    mode: str,
    sizes: GemmSize,
    turned: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if mode == INT8_TENSOR_CORES and not tensor_cores.offers(
        gpu.gpu.info, int8, INT8_TENSOR_CORES
    ):
        pytest.skip("the device multiplies no matrices of int8")
    monkeypatch.setattr(int_mm, "integer_mode", lambda _: mode)
    change_costs(monkeypatch, smallest=1, packed_smallest=1)
    gpu.plans.clear()
    a, b, want = operands(gpu, sizes, turned)
    np.testing.assert_array_equal(fw.int_mm(a, b).numpy(), want)
    gpu.plans.clear()


@pytest.mark.gpu
@pytest.mark.parametrize("tile", INT8_TILES)
@pytest.mark.parametrize("splits", [1, 3])
def test_every_tile_of_matrix_units(
    gpu: GpuDevice, tile: object, splits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not tensor_cores.offers(gpu.gpu.info, int8, INT8_TENSOR_CORES):
        pytest.skip("the device multiplies no matrices of int8")
    tensor_cores.integer_mode(gpu)  # tried before its kernels are others

    def rule(
        info: DeviceInfo, a: StridedSpec, b: StridedSpec, _: str
    ) -> list[Dispatch] | None:
        return large_tile_gemm(info, a, b, INT8_TENSOR_CORES, TileConfig(tile, splits))  # type: ignore[arg-type]

    monkeypatch.setattr(candidates, "large_tile_gemm", rule)
    gpu.plans.clear()
    for m, n in itertools.product((256, 331), (384, 457)):
        a, b, want = operands(gpu, (2, m, n, 1000), "b")
        np.testing.assert_array_equal(fw.int_mm(a, b).numpy(), want)
    gpu.plans.clear()
