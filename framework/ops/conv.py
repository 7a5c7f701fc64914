"""Convolution over images, in NCHW order: the kernels, each the gradient of another."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..dispatch import SOFTWARE_ROUNDS, Argument, Dispatch, Placed, Scratch, divisor
from ..dtype import FLOAT
from ..primitive import primitive
from ..shape import TensorSpec, ceil_div
from . import conv_direct, conv_pointwise, conv_product
from .conv_direct import sizes
from .element import acc_size, check_same_dtype
from .reduce import sum
from .reducing import sum_rows
from .tiling import Product, product_dispatch, tile_count
from .window import Pair, Window

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor import Tensor

# The gradient of a filter sums over a whole batch but has few elements, so the batch is
# cut into chunks until there are tiles for every core.
SOFTWARE_TILES = 32
GPU_TILES = 512
MIN_CHUNK = 256

Ways = dict[str, Callable[[], Dispatch | Sequence[Dispatch] | None]]
TILES, DIRECT = "tiles of images as they lie", "each result alone"
IN_PLACE, COPIED = "products of images as they lie", "channels last, "
"""What measuring calls the ways to compute a convolution; see `conv_product` and
others."""


@primitive(dtypes=FLOAT, typed="x")
def _conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    window: Window,
    groups: int,
    mode: str,
) -> Tensor:
    """Cross-correlate images with filters; `conv2d` checks the arguments.

    `mode` is what `matrix_units.convolution_mode` says.
    """


_conv2d.line_dims = 2


@_conv2d.spec
def _conv2d_spec(
    x: TensorSpec,
    weight: TensorSpec,
    bias: TensorSpec | None,
    window: Window,
    groups: int,
    mode: str,
) -> TensorSpec:
    check_same_dtype("conv2d", x=x, weight=weight, bias=bias)
    size = window.output(*x.shape[2:])
    return TensorSpec((x.shape[0], weight.shape[0], *size), x.dtype)


@_conv2d.vjp
def _conv2d_vjp(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    window: Window,
    groups: int,
    mode: str,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, ...]:
    height, width = x.shape[2:]
    return (
        _conv2d_input_vjp(grad, weight, (height, width), window, groups, mode)
        if needs[0]
        else None,
        _conv2d_weight_vjp(grad, x, window, groups, mode) if needs[1] else None,
        sum(grad, (0, 2, 3)) if needs[2] else None,
    )


@_conv2d.reference
def _conv2d_reference(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    window: Window,
    groups: int,
    mode: str,
) -> np.ndarray:
    patches = _grouped(window.patches(x, 0), groups)
    filters = weight.reshape(groups, -1, *weight.shape[1:])
    out = np.einsum("bgchwij,gocij->bgohw", patches, filters, optimize=True)
    out = out.reshape(x.shape[0], weight.shape[0], *out.shape[3:])
    return out if bias is None else out + bias[:, None, None]


@_conv2d.kernel
def _conv2d_kernel(
    gpu: DeviceInfo,
    x: Placed,
    weight: Placed,
    bias: Placed | None,
    window: Window,
    groups: int,
    mode: str,
) -> Dispatch | list[Dispatch]:
    found = (
        conv_pointwise.forward(gpu, x, weight, bias, window, mode)
        or conv_product.forward(gpu, x, weight, bias, window, mode)
        if groups == 1
        else conv_direct.forward(gpu, x, weight, bias, window, groups)
    )
    return found or _conv2d_tiles(gpu, x, weight, bias, window, groups)


@_conv2d.candidates
def _conv2d_candidates(
    gpu: DeviceInfo,
    x: Placed,
    weight: Placed,
    bias: Placed | None,
    window: Window,
    groups: int,
    mode: str,
) -> Ways:
    given = gpu, x, weight, bias, window
    ways: Ways = {TILES: functools.partial(_conv2d_tiles, *given, groups)}
    if groups > 1:
        return ways | {DIRECT: functools.partial(conv_direct.forward, *given, groups)}
    ways[IN_PLACE] = functools.partial(conv_pointwise.forward, *given, mode)
    for name, cut in conv_product.forward_cuts(*given, mode).items():
        ways[COPIED + name] = functools.partial(conv_product.forward, *given, mode, cut)
    return ways


def _conv2d_tiles(
    gpu: DeviceInfo,
    x: Placed,
    weight: Placed,
    bias: Placed | None,
    window: Window,
    groups: int,
) -> Dispatch:
    size = window.output(*x.shape[2:])
    product = Product(
        weight.shape[0] // groups,
        x.shape[0] * size[0] * size[1],
        math.prod(weight.shape[1:]),
        x.dtype,
    )
    # Without a bias its address is not read; any will do.
    push: dict[str, Argument] = {
        "x": "x", "weight": "weight", "out_": "out",
        "bias": "weight" if bias is None else "bias",
        **sizes(x.shape, (weight.shape[0], *size), groups),
    }  # fmt: skip
    constants = {**window.constants(), "HAS_BIAS": int(bias is not None)}
    kernel = ("conv/conv2d", "conv/conv2d_subgroup")
    return product_dispatch(gpu, kernel, product, groups, push, constants)


def _grouped(x: np.ndarray, groups: int) -> np.ndarray:
    """Split the channel dimension into (groups, channels of a group)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


@primitive(dtypes=FLOAT, typed="grad_out")
def _conv2d_input_vjp(
    grad_out: Tensor, weight: Tensor, size: Pair, window: Window, groups: int, mode: str
) -> Tensor:
    """Return the gradient of a convolution with respect to its images."""


@_conv2d_input_vjp.spec
def _conv2d_input_vjp_spec(
    grad_out: TensorSpec,
    weight: TensorSpec,
    size: Pair,
    window: Window,
    groups: int,
    mode: str,
) -> TensorSpec:
    check_same_dtype("conv2d_input_vjp", grad_out=grad_out, weight=weight)
    channels = weight.shape[1] * groups
    return TensorSpec((grad_out.shape[0], channels, *size), grad_out.dtype)


@_conv2d_input_vjp.vjp
def _conv2d_input_vjp_vjp(
    grad: Tensor,
    grad_out: Tensor,
    weight: Tensor,
    window: Window,
    groups: int,
    mode: str,
    needs: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    return (
        _conv2d(grad, weight, None, window, groups, mode) if needs[0] else None,
        _conv2d_weight_vjp(grad_out, grad, window, groups, mode) if needs[1] else None,
    )


@_conv2d_input_vjp.kernel
def _conv2d_input_vjp_kernel(
    gpu: DeviceInfo,
    grad_out: Placed,
    weight: Placed,
    size: Pair,
    window: Window,
    groups: int,
    mode: str,
) -> Dispatch | list[Dispatch]:
    given = gpu, grad_out, weight, size, window
    found = (
        conv_pointwise.input_vjp(*given, mode) or conv_product.input_vjp(*given, mode)
        if groups == 1
        else conv_direct.input_vjp(*given, groups)
    )
    return found or _conv2d_input_vjp_tiles(*given, groups)


@_conv2d_input_vjp.candidates
def _conv2d_input_vjp_candidates(
    gpu: DeviceInfo,
    grad_out: Placed,
    weight: Placed,
    size: Pair,
    window: Window,
    groups: int,
    mode: str,
) -> Ways:
    given = gpu, grad_out, weight, size, window
    ways: Ways = {TILES: functools.partial(_conv2d_input_vjp_tiles, *given, groups)}
    if groups > 1:
        return ways | {DIRECT: functools.partial(conv_direct.input_vjp, *given, groups)}
    ways[IN_PLACE] = functools.partial(conv_pointwise.input_vjp, *given, mode)
    for name, cut in conv_product.input_cuts(*given, mode).items():
        way = functools.partial(conv_product.input_vjp, *given, mode, cut)
        ways[COPIED + name] = way
    return ways


def _conv2d_input_vjp_tiles(
    gpu: DeviceInfo,
    grad_out: Placed,
    weight: Placed,
    size: Pair,
    window: Window,
    groups: int,
) -> Dispatch:
    batch, *out = grad_out.shape
    channels = weight.shape[1]
    product = Product(
        channels,
        batch * size[0] * size[1],
        weight.shape[0] // groups * math.prod(window.kernel),
        weight.dtype,
    )
    push: dict[str, Argument] = {
        "grad": "grad_out", "weight": "weight", "out_": "out",
        **sizes((batch, channels * groups, *size), tuple(out), groups),
    }  # fmt: skip
    kernel = ("conv/conv2d_input_vjp", "conv/conv2d_input_vjp_subgroup")
    return product_dispatch(gpu, kernel, product, groups, push, window.constants())


@_conv2d_input_vjp.reference
def _conv2d_input_vjp_reference(
    grad_out: np.ndarray,
    weight: np.ndarray,
    size: Pair,
    window: Window,
    groups: int,
    mode: str,
) -> np.ndarray:
    filters = weight.reshape(groups, -1, *weight.shape[1:])
    patches = np.einsum(
        "bgohw,gocij->bgchwij", _grouped(grad_out, groups), filters, optimize=True
    )
    channels = weight.shape[1] * groups
    shape = (grad_out.shape[0], channels, *grad_out.shape[2:], *window.kernel)
    return window.added_up(patches.reshape(shape), size)


@primitive(dtypes=FLOAT, typed="grad_out")
def _conv2d_weight_vjp(
    grad_out: Tensor, x: Tensor, window: Window, groups: int, mode: str
) -> Tensor:
    """Return the gradient of a convolution with respect to its filters."""


@_conv2d_weight_vjp.spec
def _conv2d_weight_vjp_spec(
    grad_out: TensorSpec, x: TensorSpec, window: Window, groups: int, mode: str
) -> TensorSpec:
    check_same_dtype("conv2d_weight_vjp", grad_out=grad_out, x=x)
    shape = (grad_out.shape[1], x.shape[1] // groups, *window.kernel)
    return TensorSpec(shape, grad_out.dtype)


@_conv2d_weight_vjp.vjp
def _conv2d_weight_vjp_vjp(
    grad: Tensor,
    grad_out: Tensor,
    x: Tensor,
    window: Window,
    groups: int,
    mode: str,
    needs: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    height, width = x.shape[2:]
    return (
        _conv2d(x, grad, None, window, groups, mode) if needs[0] else None,
        _conv2d_input_vjp(grad_out, grad, (height, width), window, groups, mode)
        if needs[1]
        else None,
    )


@_conv2d_weight_vjp.kernel
def _conv2d_weight_vjp_kernel(
    gpu: DeviceInfo, grad_out: Placed, x: Placed, window: Window, groups: int, mode: str
) -> list[Dispatch]:
    found = (
        conv_product.weight_vjp(gpu, grad_out, x, window, mode)
        if groups == 1
        else conv_direct.weight_vjp(gpu, grad_out, x, window, groups)
    )
    return found or _conv2d_weight_vjp_tiles(gpu, grad_out, x, window, groups)


@_conv2d_weight_vjp.candidates
def _conv2d_weight_vjp_candidates(
    gpu: DeviceInfo,
    grad_out: Placed,
    x: Placed,
    window: Window,
    groups: int,
    mode: str,
) -> Ways:
    given = gpu, grad_out, x, window
    ways: Ways = {TILES: functools.partial(_conv2d_weight_vjp_tiles, *given, groups)}
    if groups > 1:
        way = functools.partial(conv_direct.weight_vjp, *given, groups)
        return ways | {DIRECT: way}
    for name, cut in conv_product.weight_cuts(*given, mode).items():
        way = functools.partial(conv_product.weight_vjp, *given, mode, cut)
        ways[COPIED + name] = way
    return ways


def _conv2d_weight_vjp_tiles(
    gpu: DeviceInfo, grad_out: Placed, x: Placed, window: Window, groups: int
) -> list[Dispatch]:
    _, *out = grad_out.shape
    weights = (out[0], x.shape[1] // groups, *window.kernel)
    depth = x.shape[0] * out[1] * out[2]
    product = Product(
        out[0] // groups, math.prod(weights[1:]), depth, x.dtype, b_along_k=True
    )
    wanted = SOFTWARE_TILES if gpu.kind == "software" else GPU_TILES
    tiles = tile_count(gpu, product) * groups
    chunks = max(1, min(ceil_div(wanted, tiles), depth // MIN_CHUNK))
    if gpu.kind == "software":
        chunks = max(chunks, ceil_div(depth, SOFTWARE_ROUNDS))
    numel = math.prod(weights)
    partial = Scratch("partial", acc_size(x.dtype) * numel * chunks)
    plane_magic, plane_shift = divisor(out[1] * out[2])
    width_magic, width_shift = divisor(out[2])
    push: dict[str, Argument] = {
        "x": "x", "grad": "grad_out", "out_": "out" if chunks == 1 else partial,
        **sizes(x.shape, tuple(out), groups),
        "chunks": chunks,
        "plane_magic": plane_magic, "plane_shift": plane_shift,
        "width_magic": width_magic, "width_shift": width_shift,
    }  # fmt: skip
    kernel = ("conv/conv2d_weight_vjp", "conv/conv2d_weight_vjp_subgroup")
    first = product_dispatch(
        gpu,
        kernel,
        product,
        groups * chunks,
        push,
        window.constants(),
        depth=ceil_div(depth, chunks),
        partial=chunks > 1,
    )
    if chunks == 1:
        return [first]
    return [first, sum_rows(gpu, partial, grad_out, chunks, numel)]


@_conv2d_weight_vjp.reference
def _conv2d_weight_vjp_reference(
    grad_out: np.ndarray, x: np.ndarray, window: Window, groups: int, mode: str
) -> np.ndarray:
    patches = _grouped(window.patches(x, 0), groups)
    out = np.einsum(
        "bgohw,bgchwij->gocij", _grouped(grad_out, groups), patches, optimize=True
    )
    return out.reshape(-1, *out.shape[2:])
