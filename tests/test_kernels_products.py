"""Kernels that are matrix products, against NumPy, at awkward sizes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.kernel_run import (
    Array,
    close,
    division,
    geometry,
    linear,
    random,
    run,
    windows,
)
from vkbackend import Device

SUBGROUP_TILES = ({"ROWS": 16, "COLUMNS": 4}, {"ROWS": 3, "COLUMNS": 2})
SHARED_TILES = (
    {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 8, "QUADS_M": 2, "QUADS_N": 2},
    {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "QUADS_M": 1, "QUADS_N": 1},
    {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16, "QUADS_M": 1, "QUADS_N": 1},
)
IMPLICIT_GEMM_NCHW = [*SHARED_TILES, *SUBGROUP_TILES]
# The smallest of each kind, which compile soonest.
CORE_TILES = [SHARED_TILES[-1], SUBGROUP_TILES[-1]]


def marks_of(tile: Mapping[str, int]) -> list[pytest.MarkDecorator]:
    """Return what says whether other drivers run a tile too."""
    return [pytest.mark.core] if tile in CORE_TILES else []


def product(
    device: Device, kernels: tuple[str, str], tile: Mapping[str, int], m: int, n: int
) -> tuple[str, int, dict[str, int]]:
    """Return the kernel, the workgroups and the constants of a tiled product."""
    shared, subgroup = kernels
    if "ROWS" in tile and not (
        device.info.kind == "software" and device.info.subgroup_shuffle
    ):
        pytest.skip("the subgroup variant is for software devices with shuffle")
    if "ROWS" not in tile:
        block = tile["BLOCK_M"] * tile["BLOCK_N"]
        lanes = block // (16 * tile["QUADS_M"] * tile["QUADS_N"])
        groups = -(-m // tile["BLOCK_M"]) * -(-n // tile["BLOCK_N"])
        return shared, groups, {**tile, "LOCAL_X": lanes}
    lanes = device.info.subgroup_size
    groups = -(-m // tile["ROWS"]) * -(-n // (tile["COLUMNS"] * lanes))
    return subgroup, groups, {**tile, "LOCAL_X": lanes}


@pytest.mark.parametrize(
    "tile", [pytest.param(tile, marks=marks_of(tile)) for tile in IMPLICIT_GEMM_NCHW]
)
@pytest.mark.parametrize(
    ("batch", "m", "n", "k"),
    [(1, 1, 1, 1), (2, 3, 7, 5), (3, 37, 29, 113), (1, 131, 65, 8), (2, 1, 67, 64)],
)
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_matmul(
    device: Device,
    tile: dict[str, int],
    batch: int,
    m: int,
    n: int,
    k: int,
    turned: str,
) -> None:
    a = random(batch, m, k)
    b = random(1, k, n)
    kernels = ("matmul/gemm_tiled", "matmul/gemm_subgroup")
    kernel, groups, constants = product(device, kernels, tile, m, n)
    if kernel == "matmul/gemm_tiled":
        constants |= {"A_ALONG_K": "a" not in turned, "B_ALONG_K": "b" in turned}
    arguments = {
        "a": a.swapaxes(1, 2) if "a" in turned else a,
        "b": b.swapaxes(1, 2) if "b" in turned else b,
        **dict(zip("mnk", (m, n, k), strict=True)),
        **dict(zip(("a_row", "a_column"), (1, m) if "a" in turned else (k, 1))),
        **dict(zip(("b_row", "b_column"), (1, k) if "b" in turned else (n, 1))),
        "a_batch": m * k,
        "b_batch": 0,
        "batches": batch,
    }
    outputs = {"out_": ((batch, m, n), np.float32)}
    (out,) = run(device, kernel, linear(groups, batch), outputs, constants, arguments)
    close(out, a.astype(np.float64) @ b, k)


# batch, in channels, out channels, groups, (height, width), kernel, stride, padding,
# dilation
CONVOLUTIONS = [
    (1, 1, 1, 1, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
    (2, 3, 37, 1, (7, 5), (3, 3), (1, 1), (1, 1), (1, 1)),
    (3, 4, 6, 2, (11, 13), (3, 2), (2, 1), (1, 0), (1, 2)),
    (2, 5, 7, 1, (9, 10), (5, 3), (3, 2), (2, 2), (2, 1)),
    (1, 6, 6, 6, (8, 8), (3, 3), (1, 1), (1, 1), (1, 1)),
]
# All with the smallest tiles; one with groups, strides and gaps with each other tile.
TILED_CONVOLUTIONS = [
    pytest.param(tile, case, marks=marks_of(tile))
    for tile in IMPLICIT_GEMM_NCHW
    for case in CONVOLUTIONS
    if tile in CORE_TILES or case is CONVOLUTIONS[2]
]
# One of them also with K in slices.
SLICED_CONVOLUTIONS = [
    pytest.param(*each.values, chunks, marks=each.marks)
    for each in TILED_CONVOLUTIONS
    for chunks in ((1, 3) if each.values[1] is CONVOLUTIONS[2] else (1,))
]


class Convolution:
    """One case: its operands, its sizes and what NumPy makes of it."""

    def __init__(self, case: Any) -> None:
        batch, ins, outs, groups, size, kernel, stride, padding, dilation = case
        self.case = case
        self.x = random(batch, ins, *size)
        self.weight = random(outs, ins // groups, *kernel)
        self.bias = random(outs)
        self.patches = windows(self.x, kernel, stride, padding, dilation)
        *_, height, width = self.patches.shape
        self.grad = random(batch, outs, height, width, seed=1)
        self.groups = groups
        self.depth = ins // groups * kernel[0] * kernel[1]
        self.constants = geometry(kernel, stride, padding, dilation)
        names = "batch in_channels in_height in_width out_channels out_height out_width"
        sizes = (batch, ins, *size, outs, height, width)
        self.sizes = {**dict(zip(names.split(), sizes)), "groups": groups}

    def split(self, array: Array, dim: int) -> Array:
        """Return float64 with a dimension divided into groups."""
        shape = array.shape
        divided = (*shape[:dim], self.groups, -1, *shape[dim + 1 :])
        return np.reshape(array.astype(np.float64), divided)

    def out(self) -> Array:
        patches = self.split(self.patches, 1)
        weight = self.split(self.weight, 0)
        out: Array = np.einsum("bgcijhw,gocij->bgohw", patches, weight)
        return np.reshape(out, self.grad.shape) + self.bias[:, None, None]

    def grad_weight(self) -> Array:
        patches = self.split(self.patches, 1)
        grad = self.split(self.grad, 1)
        out: Array = np.einsum("bgcijhw,bgohw->gocij", patches, grad)
        return np.reshape(out, self.weight.shape)

    def grad_x(self) -> Array:
        """Return the gradient, from the linearity of the windows in x."""
        grad = self.split(self.grad, 1)
        weight = self.split(self.weight, 0)
        patches = np.einsum("bgohw,gocij->bgcijhw", grad, weight)
        *_, kernel, stride, padding, dilation = self.case
        places = np.arange(1, self.x.size + 1).reshape(self.x.shape)
        from_x = windows(places, kernel, stride, padding, dilation)
        sums = np.bincount(from_x.ravel(), patches.ravel(), self.x.size + 1)
        return sums[1:].reshape(self.x.shape)


def run_convolution(
    device: Device,
    tile: Mapping[str, int],
    case: Convolution,
    kernel: str,
    m: int,
    n: int,
    output: Array,
    arguments: Mapping[str, Any],
    *,
    chunks: int = 1,
    **constants: int,
) -> Array:
    kernel, groups, sizes = product(
        device, (kernel, kernel.replace("tiled", "subgroup")), tile, m, n
    )
    if "ROWS" in tile:
        constants = {k: v for k, v in constants.items() if not k.endswith("ALONG_K")}
    (out,) = run(
        device,
        kernel,
        linear(groups, case.groups * chunks),
        {"out_": ((chunks, *output.shape), np.float32)},
        {**sizes, **case.constants, **constants},
        {**arguments, **case.sizes},
    )
    return np.sum(out, axis=0)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("tile", "case", "chunks"), SLICED_CONVOLUTIONS)
def test_conv2d(device: Device, tile: dict[str, int], case: Any, chunks: int) -> None:
    it = Convolution(case)
    m = it.weight.shape[0] // it.groups
    n = it.grad[:, 0].size
    arguments = {"x": it.x, "weight": it.weight, "bias": it.bias}
    arguments["slice_depth"] = -(-it.depth // chunks)
    options = {"HAS_BIAS": 1, "A_ALONG_K": 1, "chunks": chunks}
    out = run_convolution(
        device, tile, it, "conv/igemm_tiled", m, n, it.grad, arguments, **options
    )
    close(out, it.out(), it.depth)


@pytest.mark.parametrize(("tile", "case", "chunks"), SLICED_CONVOLUTIONS)
def test_conv2d_input_vjp(
    device: Device, tile: dict[str, int], case: Any, chunks: int
) -> None:
    it = Convolution(case)
    m = it.x.shape[1] // it.groups
    n = it.x[:, 0].size
    bias = np.arange(it.x.shape[1], dtype=np.float32)
    arguments = {"grad": it.grad, "weight": it.weight, "bias": bias}
    depth = it.weight.size // it.groups // it.weight.shape[1]
    arguments["slice_depth"] = -(-depth // chunks)
    options = {"HAS_BIAS": 1, "A_ALONG_K": 1, "chunks": chunks}
    out = run_convolution(
        device, tile, it, "conv/igemm_tiled_dgrad", m, n, it.x, arguments, **options
    )
    close(out, it.grad_x() + bias[:, None, None], it.weight.size)


@pytest.mark.parametrize(("tile", "case"), TILED_CONVOLUTIONS)
@pytest.mark.parametrize("chunks", [1, 5])
def test_conv2d_weight_vjp(
    device: Device, tile: dict[str, int], case: Any, chunks: int
) -> None:
    it = Convolution(case)
    m = it.weight.shape[0] // it.groups
    plane = it.grad[0, 0].size
    arguments = {
        "x": it.x,
        "grad": it.grad,
        "chunks": chunks,
        **division("plane", plane),
        **division("width", it.grad.shape[3]),
    }
    options = {"chunks": chunks, "A_ALONG_K": 1, "B_ALONG_K": 1}
    out = run_convolution(
        device,
        tile,
        it,
        "conv/igemm_tiled_wgrad",
        m,
        it.depth,
        it.weight,
        arguments,
        **options,
    )
    close(out, it.grad_weight(), it.grad[:, 0].size)
