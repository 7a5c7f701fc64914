"""Convolution over images, in NCHW order: the kernels, each the gradient of another."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT
from ...base.shape import Shape, TensorSpec, ceil_div
from ...dispatch.declare import primitive
from ...ir.kernel_call import Argument, Dispatch, Scratch, StridedSpec, least_chunks
from ...kernels.conv import direct as conv_direct
from ...kernels.conv import implicit_gemm, pointwise, stacked_planes, winograd
from ...kernels.conv.problem import ConvCall, Convolution, divisors
from ...kernels.gemm.slice_sum import sum_slices
from ...kernels.gemm.small import (
    TiledGemm,
    slice_depth,
    tile_count,
    tiled_gemm_dispatch,
)
from ...kernels.gemm.tiles import SCALED_FLOAT16, SIMT, TileConfig
from ...kernels.gpu_model import model_of
from ...kernels.reduce import sum_rows
from ...kernels.shader_types import acc_size, check_same_dtype
from ..reduce.sum import sum

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

# wgrad reduces over a whole batch but has few results, so K is split into chunks of the
# batch until there are tiles for every core.
MIN_CHUNK = 256

Found = Dispatch | Sequence[Dispatch]
Candidates = dict[str, Callable[[], Found | None]]
IMPLICIT_GEMM_NCHW, DIRECT = "implicit GEMM, NCHW", "direct"
GEMM_NCHW, IMPLICIT_GEMM_NHWC = "GEMM, NCHW", "implicit GEMM, NHWC, "
WINOGRAD, STACKED = "Winograd", "stacked planes"
"""Names of the convolution candidates in the autotune cache; see `kernels.conv`."""


@primitive(dtypes=FLOAT, typed="x", epilogue_dims=2)
def _conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, how: Convolution) -> Tensor:
    """Cross-correlate images, or planes of volumes, with filters.

    `conv2d` and `conv3d` check the arguments.
    """


@_conv2d.spec
def _conv2d_spec(
    x: TensorSpec, weight: TensorSpec, bias: TensorSpec | None, how: Convolution
) -> TensorSpec:
    check_same_dtype("conv2d", x=x, weight=weight, bias=bias)
    return how.out(x, weight)


@_conv2d.vjp
def _conv2d_vjp(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    how: Convolution,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, ...]:
    size = how.size(x.layout.shape)
    return (
        _conv2d_input_vjp(grad, weight, None, size, how) if needs[0] else None,
        _conv2d_weight_vjp(grad, x, how) if needs[1] else None,
        sum(grad, _beside_channels(grad)) if needs[2] else None,
    )


def _beside_channels(grad: Tensor) -> tuple[int, ...]:
    return (0, *range(2, len(grad.layout.shape)))


@_conv2d.reference
def _conv2d_reference(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, how: Convolution
) -> np.ndarray:
    stacks = _stacks(x, how)
    images = _as_images(stacks)
    patches = _grouped(how.window.patches(images, 0), how.groups)
    filters = _grouped_filters(weight, how)
    out = np.einsum("bgchwij,gocij->bgohw", patches, filters, optimize=True)
    out = out.reshape(images.shape[0], weight.shape[0], *out.shape[3:])
    return _as_volumes(out if bias is None else out + bias[:, None, None], stacks)


@_conv2d.kernel
def _conv2d_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    weight: StridedSpec,
    bias: StridedSpec | None,
    how: Convolution,
) -> Found:
    return _forward_dispatches(_forward_call(gpu, x, weight, bias, how))


def _forward_dispatches(call: ConvCall) -> Found:
    """Return what computes a convolution, by the cost model."""
    found: Found | None
    if call.how.depth is not None:
        found = _deep_product(call, implicit_gemm.forward, "forward")
        return found or stacked_planes.forward(call, _forward_dispatches)
    few = conv_direct.forward(call) if call.how.groups > 1 else None
    if few is not None:
        return few
    own, limit = winograd.microseconds(call, "forward"), math.inf
    product = pointwise.forward(call) if call.how.groups == 1 else None
    if product is not None:
        limit = pointwise.microseconds(call, for_input=False)
    found = (
        implicit_gemm.forward(call, None, min(limit, own))
        or (winograd.forward(call) if own < math.inf else None)
        or product
    )
    return found or _conv2d_tiles(call)


@_conv2d.candidates
def _conv2d_candidates(
    gpu: DeviceInfo,
    x: StridedSpec,
    weight: StridedSpec,
    bias: StridedSpec | None,
    how: Convolution,
) -> Candidates:
    call = _forward_call(gpu, x, weight, bias, how)
    if how.depth is not None:
        configs = implicit_gemm.forward_configs(call)
        by_images = functools.partial(stacked_planes.forward, call, _forward_dispatches)
        return _deep_candidates(call, implicit_gemm.forward, configs, by_images)
    candidates = _nchw_candidates(call, _conv2d_tiles, conv_direct.forward)
    if how.groups == 1:
        candidates[GEMM_NCHW] = functools.partial(pointwise.forward, call)
    candidates[WINOGRAD] = functools.partial(winograd.forward, call)
    tile_configs = implicit_gemm.forward_configs(call)
    candidates |= _nhwc_candidates(call, implicit_gemm.forward, tile_configs)
    return candidates


def _forward_call(
    gpu: DeviceInfo,
    x: StridedSpec,
    weight: StridedSpec,
    bias: StridedSpec | None,
    how: Convolution,
) -> ConvCall:
    return ConvCall.of(gpu, how, x, weight, how.out(x, weight), bias is not None)


def _nchw_candidates(
    call: ConvCall,
    tiles: Callable[[ConvCall], Found],
    direct: Callable[[ConvCall], Found | None],
) -> Candidates:
    """Return the candidates without packing, by name."""
    candidates: Candidates = {IMPLICIT_GEMM_NCHW: functools.partial(tiles, call)}
    if call.how.groups > 1:
        candidates[DIRECT] = functools.partial(direct, call)
    return candidates


def _nhwc_candidates(
    call: ConvCall,
    product: Callable[..., Found | None],
    tile_configs: Mapping[str, TileConfig],
) -> Candidates:
    """Return the implicit GEMM candidates on packed operands, by name."""
    candidates: Candidates = {
        IMPLICIT_GEMM_NHWC + name: functools.partial(product, call, config)
        for name, config in tile_configs.items()
    }
    if call.how.mode == SCALED_FLOAT16:
        exact = call._replace(how=call.how._replace(mode=SIMT))
        candidates[IMPLICIT_GEMM_NHWC + "float32"] = functools.partial(product, exact)
    return candidates


def _deep_product(
    call: ConvCall, rule: Callable[..., list[Dispatch] | None], name: str
) -> list[Dispatch] | None:
    """Return the implicit GEMM of volumes, or None where kernels of images are quicker.

    `name` is that of the pass, as `winograd.microseconds` takes it.
    """
    stacked = stacked_planes.stacked(call)
    few = call.how.groups > 1 and getattr(conv_direct, name)(stacked)
    if few:
        return None
    limit = winograd.microseconds(stacked, name)
    if call.how.groups == 1:
        limit = min(limit, _pointwise_microseconds(stacked, name))
    return rule(call, None, limit + stacked_planes.microseconds(call))


def _pointwise_microseconds(call: ConvCall, name: str) -> float:
    """Return the modelled time of a GEMM of plain images; infinite without one."""
    if getattr(pointwise, name)(call) is None:
        return math.inf
    if name == "weight_vjp":
        return pointwise.weight_microseconds(call)
    return pointwise.microseconds(call, for_input=name == "input_vjp")


def _deep_candidates(
    call: ConvCall,
    rule: Callable[..., Found | None],
    tile_configs: Mapping[str, TileConfig],
    stacked: Callable[[], Found],
) -> Candidates:
    """Return the candidates for windows along depth, by name."""
    return {STACKED: stacked, **_nhwc_candidates(call, rule, tile_configs)}


def _sliced_tiles(
    call: ConvCall,
    kernel: tuple[str, str],
    product: TiledGemm,
    push: Mapping[str, Argument],
    out: TensorSpec,
) -> list[Dispatch]:
    """Return the tiled GEMM of a convolution or of dgrad, and the sum of its slices."""
    gpu, groups = call.gpu, call.how.groups
    depth = slice_depth(gpu, product, groups)
    slices = ceil_div(product.k, depth) if depth else 1
    partial = Scratch("partial", acc_size(out.dtype) * out.numel * slices)
    # Without a bias its address is not read; any will do.
    bias = "bias" if call.bias else "weight"
    first = tiled_gemm_dispatch(
        gpu,
        kernel,
        product,
        groups * slices,
        {
            **push,
            "bias": bias,
            "out_": "out" if slices == 1 else partial,
            **call.sizes(),
            "slice_depth": depth,
        },
        {**call.constants(), "HAS_BIAS": int(call.bias)},
        depth=depth,
        partial=slices > 1,
    )
    if slices == 1:
        return [first]
    return [
        first,
        sum_slices(gpu, partial, TensorSpec((out.numel,), out.dtype), slices),
    ]


def _conv2d_tiles(call: ConvCall) -> list[Dispatch]:
    product = TiledGemm(
        call.weight.shape[0] // call.how.groups,
        call.x.shape[0] * math.prod(call.output_size),
        math.prod(call.weight.shape[1:]),
        call.x.dtype,
    )
    kernel = ("conv/igemm_tiled", "conv/igemm_subgroup")
    push: dict[str, Argument] = {"x": "x", "weight": "weight"}
    return _sliced_tiles(call, kernel, product, push, call.out)


def _as_images(x: np.ndarray) -> np.ndarray:
    """Return the planes of volumes as images; images as they are."""
    if x.ndim == 4:
        return x
    planes = x.swapaxes(1, 2)
    return planes.reshape(-1, *planes.shape[2:])


def _as_volumes(x: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Undo `_as_images`, as what it was made of asks for."""
    if like.ndim == 4:
        return x
    return x.reshape(like.shape[0], like.shape[2], *x.shape[1:]).swapaxes(1, 2)


def _stacks(x: np.ndarray, how: Convolution) -> np.ndarray:
    """Return volumes with the taps along depth as channels; others as they are."""
    if how.depth is None:
        return x
    batch, channels, planes, *size = x.shape
    lines = x.reshape(batch, channels, planes, math.prod(size))
    stacks = how.depth.patches(lines, 0).transpose(0, 1, 4, 5, 2, 3)
    return stacks.reshape(batch, channels * how.depth.kernel[0], -1, *size)


def _grouped_filters(weight: np.ndarray, how: Convolution) -> np.ndarray:
    """Return (groups, channels of a group, channels, height, width) of filters."""
    rows = weight.shape[0] // how.groups
    channels = math.prod(weight.shape[1:-2])
    return weight.reshape(how.groups, rows, channels, *weight.shape[-2:])


def _grouped(x: np.ndarray, groups: int) -> np.ndarray:
    """Split the channel dimension into (groups, channels of a group)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


@primitive(dtypes=FLOAT, typed="grad_out", epilogue_dims=2)
def _conv2d_input_vjp(
    grad_out: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    size: Shape,
    how: Convolution,
) -> Tensor:
    """Return the gradient of a convolution with respect to its images (dgrad).

    A transposed convolution has a bias, which is added to each channel.
    """


@_conv2d_input_vjp.spec
def _conv2d_input_vjp_spec(
    grad_out: TensorSpec,
    weight: TensorSpec,
    bias: TensorSpec | None,
    size: Shape,
    how: Convolution,
) -> TensorSpec:
    check_same_dtype("conv2d_input_vjp", grad_out=grad_out, weight=weight, bias=bias)
    return how.x(grad_out, weight, size)


@_conv2d_input_vjp.vjp
def _conv2d_input_vjp_vjp(
    grad: Tensor,
    grad_out: Tensor,
    weight: Tensor,
    how: Convolution,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, ...]:
    return (
        _conv2d(grad, weight, None, how) if needs[0] else None,
        _conv2d_weight_vjp(grad_out, grad, how) if needs[1] else None,
        sum(grad, _beside_channels(grad)) if needs[2] else None,
    )


@_conv2d_input_vjp.kernel
def _conv2d_input_vjp_kernel(
    gpu: DeviceInfo,
    grad_out: StridedSpec,
    weight: StridedSpec,
    bias: StridedSpec | None,
    size: Shape,
    how: Convolution,
) -> Found:
    return _input_dispatches(_input_call(gpu, grad_out, weight, bias, size, how))


def _input_dispatches(call: ConvCall) -> Found:
    """Return what computes the gradient by the images, by the cost model."""
    found: Found | None
    if call.how.depth is not None:
        found = _deep_product(call, implicit_gemm.input_vjp, "input_vjp")
        return found or stacked_planes.input_vjp(call, _input_dispatches)
    few = conv_direct.input_vjp(call) if call.how.groups > 1 else None
    if few is not None:
        return few
    own, limit = winograd.microseconds(call, "input_vjp"), math.inf
    product = pointwise.input_vjp(call) if call.how.groups == 1 else None
    if product is not None:
        limit = pointwise.microseconds(call, for_input=True)
    found = (
        implicit_gemm.input_vjp(call, None, min(limit, own))
        or (winograd.input_vjp(call) if own < math.inf else None)
        or product
    )
    return found or _conv2d_input_vjp_tiles(call)


@_conv2d_input_vjp.candidates
def _conv2d_input_vjp_candidates(
    gpu: DeviceInfo,
    grad_out: StridedSpec,
    weight: StridedSpec,
    bias: StridedSpec | None,
    size: Shape,
    how: Convolution,
) -> Candidates:
    call = _input_call(gpu, grad_out, weight, bias, size, how)
    if how.depth is not None:
        configs = implicit_gemm.input_vjp_configs(call)
        by_images = functools.partial(stacked_planes.input_vjp, call, _input_dispatches)
        return _deep_candidates(call, implicit_gemm.input_vjp, configs, by_images)
    candidates = _nchw_candidates(call, _conv2d_input_vjp_tiles, conv_direct.input_vjp)
    if how.groups == 1:
        candidates[GEMM_NCHW] = functools.partial(pointwise.input_vjp, call)
    candidates[WINOGRAD] = functools.partial(winograd.input_vjp, call)
    tile_configs = implicit_gemm.input_vjp_configs(call)
    candidates |= _nhwc_candidates(call, implicit_gemm.input_vjp, tile_configs)
    return candidates


def _input_call(
    gpu: DeviceInfo,
    grad_out: StridedSpec,
    weight: StridedSpec,
    bias: StridedSpec | None,
    size: Shape,
    how: Convolution,
) -> ConvCall:
    x = how.x(grad_out, weight, size)
    return ConvCall.of(gpu, how, x, weight, grad_out, bias is not None)


def _conv2d_input_vjp_tiles(call: ConvCall) -> list[Dispatch]:
    product = TiledGemm(
        call.weight.shape[1],
        call.x.shape[0] * math.prod(call.size),
        call.weight.shape[0] // call.how.groups * math.prod(call.window.kernel),
        call.weight.dtype,
    )
    kernel = ("conv/igemm_tiled_dgrad", "conv/igemm_subgroup_dgrad")
    push: dict[str, Argument] = {"grad": "grad_out", "weight": "weight"}
    return _sliced_tiles(call, kernel, product, push, call.x)


@_conv2d_input_vjp.reference
def _conv2d_input_vjp_reference(
    grad_out: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    size: Shape,
    how: Convolution,
) -> np.ndarray:
    filters = _grouped_filters(weight, how)
    images = _as_images(grad_out)
    grad = _grouped(images, how.groups)
    patches = np.einsum("bgohw,gocij->bgchwij", grad, filters, optimize=True)
    channels = filters.shape[2] * how.groups
    shape = (images.shape[0], channels, *images.shape[2:], *how.window.kernel)
    high, wide = size[-2:]
    out = how.window.overlap_add(patches.reshape(shape), (high, wide))
    out = _joined(_as_volumes(out, grad_out), size, how)
    ones = (1,) * (out.ndim - 2)
    return out if bias is None else out + bias.reshape(-1, *ones)


def _joined(stacks: np.ndarray, size: Shape, how: Convolution) -> np.ndarray:
    """Undo `_stacks`: each plane is the sum of those in windows along depth."""
    if how.depth is None:
        return stacks
    batch, channels, planes, *plane = stacks.shape
    taps, line = how.depth.kernel[0], math.prod(plane)
    windows = stacks.reshape(batch, channels // taps, taps, 1, planes, line)
    lines = how.depth.overlap_add(windows.transpose(0, 1, 4, 5, 2, 3), (size[0], line))
    return lines.reshape(batch, channels // taps, *size)


@primitive(dtypes=FLOAT, typed="grad_out")
def _conv2d_weight_vjp(grad_out: Tensor, x: Tensor, how: Convolution) -> Tensor:
    """Return the gradient of a convolution with respect to its filters (wgrad)."""


@_conv2d_weight_vjp.spec
def _conv2d_weight_vjp_spec(
    grad_out: TensorSpec, x: TensorSpec, how: Convolution
) -> TensorSpec:
    check_same_dtype("conv2d_weight_vjp", grad_out=grad_out, x=x)
    return how.weight(grad_out, x)


@_conv2d_weight_vjp.vjp
def _conv2d_weight_vjp_vjp(
    grad: Tensor,
    grad_out: Tensor,
    x: Tensor,
    how: Convolution,
    needs: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    size = how.size(x.layout.shape)
    return (
        _conv2d(x, grad, None, how) if needs[0] else None,
        _conv2d_input_vjp(grad_out, grad, None, size, how) if needs[1] else None,
    )


@_conv2d_weight_vjp.kernel
def _conv2d_weight_vjp_kernel(
    gpu: DeviceInfo, grad_out: StridedSpec, x: StridedSpec, how: Convolution
) -> Found:
    call = ConvCall.of(gpu, how, x, how.weight(grad_out, x), grad_out)
    return _weight_dispatches(call)


def _weight_dispatches(call: ConvCall) -> Found:
    """Return what computes the gradient by the filters, by the cost model."""
    if call.how.depth is not None:
        deep = _deep_product(call, implicit_gemm.weight_vjp, "weight_vjp")
        return deep or stacked_planes.weight_vjp(call, _weight_dispatches)
    few = conv_direct.weight_vjp(call) if call.how.groups > 1 else None
    own = winograd.microseconds(call, "weight_vjp")
    summed = pointwise.weight_vjp(call) if call.how.groups == 1 else None
    limit = pointwise.weight_microseconds(call) if summed else math.inf
    found: Found | None = few or implicit_gemm.weight_vjp(call, None, min(limit, own))
    if found is None and own < math.inf:
        found = winograd.weight_vjp(call)
    found = found or summed
    return found or _conv2d_weight_vjp_tiles(call)


@_conv2d_weight_vjp.candidates
def _conv2d_weight_vjp_candidates(
    gpu: DeviceInfo, grad_out: StridedSpec, x: StridedSpec, how: Convolution
) -> Candidates:
    call = ConvCall.of(gpu, how, x, how.weight(grad_out, x), grad_out)
    if how.depth is not None:
        configs = implicit_gemm.weight_vjp_configs(call)
        by_images = functools.partial(
            stacked_planes.weight_vjp, call, _weight_dispatches
        )
        return _deep_candidates(call, implicit_gemm.weight_vjp, configs, by_images)
    candidates = _nchw_candidates(
        call, _conv2d_weight_vjp_tiles, conv_direct.weight_vjp
    )
    if how.groups == 1:
        candidates[GEMM_NCHW] = functools.partial(pointwise.weight_vjp, call)
    candidates[WINOGRAD] = functools.partial(winograd.weight_vjp, call)
    tile_configs = implicit_gemm.weight_vjp_configs(call)
    candidates |= _nhwc_candidates(call, implicit_gemm.weight_vjp, tile_configs)
    return candidates


def _conv2d_weight_vjp_tiles(call: ConvCall) -> list[Dispatch]:
    gpu, weight, groups = call.gpu, call.weight, call.how.groups
    depth = call.x.shape[0] * math.prod(call.output_size)
    rows, columns = weight.shape[0] // groups, math.prod(weight.shape[1:])
    product = TiledGemm(rows, columns, depth, weight.dtype, b_along_k=True)
    tiles = tile_count(gpu, product) * groups
    chunks = max(1, min(ceil_div(model_of(gpu).wgrad_tiles, tiles), depth // MIN_CHUNK))
    chunks = max(chunks, least_chunks(gpu, depth))
    numel = weight.numel
    partial = Scratch("partial", acc_size(weight.dtype) * numel * chunks)
    push: dict[str, Argument] = {
        "x": "x", "grad": "grad_out", "out_": "out" if chunks == 1 else partial,
        **call.sizes(), "chunks": chunks, **divisors(call.output_size),
    }  # fmt: skip
    kernel = ("conv/igemm_tiled_wgrad", "conv/igemm_subgroup_wgrad")
    first = tiled_gemm_dispatch(
        gpu,
        kernel,
        product,
        groups * chunks,
        push,
        call.constants(),
        depth=ceil_div(depth, chunks),
        partial=chunks > 1,
    )
    if chunks == 1:
        return [first]
    return [first, sum_rows(gpu, partial, weight, chunks, numel)]


@_conv2d_weight_vjp.reference
def _conv2d_weight_vjp_reference(
    grad_out: np.ndarray, x: np.ndarray, how: Convolution
) -> np.ndarray:
    stacks = _stacks(x, how)
    patches = _grouped(how.window.patches(_as_images(stacks), 0), how.groups)
    grad = _grouped(_as_images(grad_out), how.groups)
    out = np.einsum("bgohw,bgchwij->gocij", grad, patches, optimize=True)
    specs = (TensorSpec(each.shape, FLOAT[0]) for each in (grad_out, x))
    return out.reshape(how.weight(*specs).shape)
