"""Gathers by an index map per dimension: flip, roll, pad; and repeat, tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...autograd.tape import shown_as
from ...base.dtype import STORED, encode, int32
from ...base.errors import ShapeError
from ...base.shape import Layout, Shape, TensorSpec, normalize_dim, normalize_dims
from ...base.validation import as_int, as_int_or_ints, as_ints, as_shape, check_numel
from ...dispatch.autocast_policy import autocast_float32_on_host
from ...dispatch.declare import primitive
from ...dispatch.replayable import replayable
from ...dispatch.scalar import number
from ...ir.kernel_call import Dispatch, StridedSpec, divisor
from ...kernels.gemm.pack import VECTOR_SIZE
from ...kernels.linear import copy_dispatch, words_of
from ...kernels.transpose import transpose_dispatch
from ..elementwise.binary import add
from ..elementwise.compare import eq, where
from ..elementwise.unary import copy, lazy_copy, unshared
from ..source import arange_like
from ..view import expand, flatten, reshape, transpose
from .concat import cat
from .slice import narrow
from .transpose import transposes

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

REMAP_DIMS = 6
"""Dimensions of the shader `copy/remap`."""

REMAP_DIVISORS = 3
"""Those of them, the innermost, that it divides by without a division."""

MODES = ("constant", "circular", "reflect", "replicate", "flip")
"""Boundary modes, in the order of the shader's constants."""


class Mapped(NamedTuple):
    """Index map of one dimension, from the result to the input.

    Attributes
    ----------
    size : int
        Of the result.
    start : int
        Place in the input of the result's first element; of a flipped dimension the
        last place.
    """

    size: int
    start: int


Maps = tuple[Mapped, ...]


@primitive(dtypes=STORED)
def _remap(x: Tensor, maps: Maps, mode: str, fill: float = 0) -> Tensor:
    """Return a gather by an index map for each dimension."""


@_remap.spec
def _remap_spec(x: TensorSpec, maps: Maps, mode: str, fill: float) -> TensorSpec:
    return TensorSpec(tuple(each.size for each in maps), x.dtype)


def _merged(shape: Shape, maps: Maps) -> list[tuple[int, Mapped]]:
    """Return (size, map) from the innermost out; runs of identity maps are merged."""
    merged_dims: list[tuple[int, Mapped]] = []
    joins = False
    for size, each in zip(reversed(shape), reversed(maps)):
        kept = each == (size, 0)
        if kept and joins:
            joined = merged_dims[-1][0] * size
            merged_dims[-1] = joined, Mapped(joined, 0)
        else:
            merged_dims.append((size, each))
        joins = kept
    return merged_dims


@_remap.kernel
def _remap_kernel(
    gpu: DeviceInfo, x: StridedSpec, maps: Maps, mode: str, fill: float
) -> Dispatch:
    out = TensorSpec(tuple(each.size for each in maps), x.dtype)
    dims = _merged(x.shape, maps)
    words, width = words_of("remap", out), VECTOR_SIZE // x.dtype.itemsize
    words_of("remap", x)
    if not dims or dims[0][1] != (dims[0][0], 0) or dims[0][0] % width:
        width = 1
    else:
        inner = dims[0][0] // width
        dims[0] = inner, Mapped(inner, 0)
    used = max(1, len(dims))
    dims += [(1, Mapped(1, 0))] * (REMAP_DIMS - len(dims))
    push: dict[str, int | str] = {"x": "x", "out_": "out", "count": out.numel // width}
    element = encode(np.asarray(fill), x.dtype).tobytes()
    filled = np.frombuffer(element * (VECTOR_SIZE // len(element)), "<u4")
    # Alone, an element narrower than a word is in the lowest bits.
    mask = (1 << 8 * min(4, len(element))) - 1 if width == 1 else ~0
    push |= {"fill[0]": int(filled[0]) & mask, "fill[1]": int(filled[1])}
    for dim, (size, each) in enumerate(dims):
        push |= {
            f"in_size[{dim}]": size,
            f"out_size[{dim}]": each.size,
            f"start[{dim}]": each.start,
        }
    for dim, (_, each) in enumerate(dims[:REMAP_DIVISORS]):
        push[f"magic[{dim}]"], push[f"shift[{dim}]"] = divisor(max(1, each.size))
    constants = {"MODE": MODES.index(mode), "DIMS": used, "SIZE": x.dtype.itemsize}
    items, defines = (
        (out.numel // width, {"VECTORS": "1"}) if width > 1 else (words, {})
    )
    return copy_dispatch(gpu, "copy/remap", items, push, constants, defines)


@_remap.vjp
def _remap_vjp(grad: Tensor, x_spec: TensorSpec, maps: Maps, mode: str) -> Tensor:
    if mode == "flip":
        return _remap(grad, maps, mode)
    back = tuple(Mapped(size, -each.start) for size, each in zip(x_spec.shape, maps))
    if mode == "constant":
        return _remap(grad, back, mode)
    if mode == "circular" and grad.layout.shape == x_spec.shape:
        back = tuple(Mapped(m.size, m.start % m.size) for m in back)
        return _remap(grad, back, mode)
    for dim, (size, each) in enumerate(zip(x_spec.shape, maps)):
        if each != (size, 0):
            grad = _unpadded(grad, dim, size, -each.start, mode)
    return grad


def _unpadded(grad: Tensor, dim: int, size: int, before: int, mode: str) -> Tensor:
    """Add the gradients of padding along one dimension to those of its sources."""
    after = grad.layout.shape[dim] - size - before
    total = narrow(grad, dim, before, size)
    left = narrow(grad, dim, 0, before)
    right = narrow(grad, dim, before + size, after)
    if mode == "replicate":
        numbers = arange_like(grad, (size, *(1,) * (grad.ndim - dim - 1)), 0, 1, int32)
        for part, place in ((left, 0), (right, size - 1)):
            if part.shape[dim]:
                summed = add(total, part.sum(dim, keepdim=True))
                total = where(eq(numbers, place), summed, total)
        return total
    if mode == "reflect":
        left, right = flip(left, dim), flip(right, dim)
        places = 1, size - 1 - after
    else:
        places = size - before, 0
    parts = sorted(zip(places, (left, right)), key=lambda each: each[0])
    parts = [(place, part) for place, part in parts if part.shape[dim]]
    if len(parts) == 2 and parts[0][0] + parts[0][1].shape[dim] > parts[1][0]:
        for place, part in parts:
            total = add(total, _zero_padded(part, dim, place, size))
        return total
    return _added_along(total, dim, parts)


def _added_along(x: Tensor, dim: int, parts: Sequence[tuple[int, Tensor]]) -> Tensor:
    """Return a tensor with parts added from places along a dimension, in order."""
    pieces, at = [], 0
    for place, part in parts:
        pieces.append(narrow(x, dim, at, place - at))
        at = place + part.layout.shape[dim]
        pieces.append(add(narrow(x, dim, place, at - place), part))
    pieces.append(narrow(x, dim, at, x.layout.shape[dim] - at))
    return cat([each for each in pieces if each.layout.shape[dim]], dim)


def _zero_padded(x: Tensor, dim: int, start: int, size: int) -> Tensor:
    """Return zeros of `size` along a dimension, with `x` from `start` on."""
    maps = [Mapped(each, 0) for each in x.layout.shape]
    maps[dim] = Mapped(size, -start)
    return _remap(x, tuple(maps), "constant")


@_remap.reference
def _remap_reference(x: np.ndarray, maps: Maps, mode: str, fill: float) -> np.ndarray:
    out = x
    for dim, (size, each) in enumerate(zip(x.shape, maps)):
        if each == (size, 0):
            continue
        at = each.start + np.arange(each.size)
        if mode == "flip":
            at = each.start - np.arange(each.size)
        elif mode == "circular":
            at = at % size
        elif mode == "reflect":
            at = size - 1 - np.abs(size - 1 - np.abs(at))
        elif mode == "replicate":
            at = np.clip(at, 0, size - 1)
        inside = (at >= 0) & (at < size)
        shape = (*out.shape[:dim], each.size, *out.shape[dim + 1 :])
        result = np.full(shape, fill, x.dtype)
        head = (slice(None),) * dim
        result[(*head, inside)] = out[(*head, at[inside])]
        out = result
    return out


def _repeated(x: Tensor) -> list[int]:
    """Return the dimensions along which elements of a tensor are the same in memory.

    None where it has a gradient, of which each place has its own.
    """
    if x.needs_grad or not isinstance(x.layout, Layout):
        return []
    pairs = enumerate(zip(x.layout.shape, x.layout.strides))
    return [dim for dim, (size, stride) in pairs if size > 1 and not stride]


def _mapped(
    x: Tensor, changes: dict[int, Mapped], mode: str, fill: float = 0
) -> Tensor:
    """Return `x` with some dimensions mapped, in as many passes as the shader needs."""
    sizes = list(enumerate(x.layout.shape))
    maps = tuple(changes.get(dim, Mapped(size, 0)) for dim, size in sizes)
    if not changes:
        return lazy_copy(x)
    repeated = [dim for dim in _repeated(x) if dim not in changes]
    if repeated:
        for dim in repeated:
            x = narrow(x, dim, 0, 1)
        made = _mapped(x, changes, mode, fill)
        shape = [n if dim in repeated else made.layout.shape[dim] for dim, n in sizes]
        return copy(expand(made, tuple(shape)))
    if len(_merged(x.layout.shape, maps)) > REMAP_DIMS:
        first = dict(list(changes.items())[: len(changes) // 2])
        rest = {dim: each for dim, each in changes.items() if dim not in first}
        return _mapped(_mapped(x, first, mode, fill), rest, mode, fill)
    return _remap(x, maps, mode, fill)


@shown_as("FlipBackward0", "x")
@replayable
def flip(x: Tensor, dims: int | Sequence[int]) -> Tensor:
    """Return a copy with the order of elements reversed along dimensions.

    Parameters
    ----------
    x : Tensor
    dims : int or sequence of int
        Each named once.

    Raises
    ------
    ShapeError
        If a dimension is named twice.
    """
    wanted = normalize_dims("flip", dims, len(x.layout.shape))
    same = _repeated(x)
    changes = {
        dim: Mapped(x.layout.shape[dim], x.layout.shape[dim] - 1)
        for dim in wanted
        if x.layout.shape[dim] > 1 and dim not in same
    }
    if changes and transposes(x, tuple(changes)):
        return _flipped_transpose(x, tuple(changes))
    return _mapped(x, changes, "flip")


@primitive(dtypes=STORED, strided=True, typed="x")
def _flipped_transpose(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the elements of a transposed view, their order reversed along `dims`."""


@_flipped_transpose.spec
def _flipped_transpose_spec(x: TensorSpec, dims: tuple[int, ...]) -> TensorSpec:
    return x


@_flipped_transpose.kernel
def _flipped_transpose_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...]
) -> Dispatch:
    return transpose_dispatch(gpu, x, dims)


@_flipped_transpose.vjp
def _flipped_transpose_vjp(grad: Tensor, dims: tuple[int, ...]) -> Tensor:
    return flip(grad, dims)


@_flipped_transpose.reference
def _flipped_transpose_reference(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    return np.ascontiguousarray(np.flip(x, dims))


@shown_as("Rot90Backward0", "x")
@replayable
def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Return a copy with a plane rotated, its first dimension towards the second.

    Parameters
    ----------
    x : Tensor
        At least 2-D.
    k : int, default 1
        Turns; below 0 the other way round.
    dims : sequence of int, default (0, 1)
        The two dimensions of the plane.

    Raises
    ------
    ShapeError
        If `dims` are not two different dimensions.
    """
    dims, k = as_ints("rot90: dims", dims), as_int("rot90: k", k)
    plane = [normalize_dim("rot90", dim, len(x.layout.shape)) for dim in dims]
    if len(plane) != 2 or plane[0] == plane[1]:
        raise ShapeError(
            f"rot90: dims are {dims}; they must be two different dimensions"
        )
    turns = k % 4
    if turns == 0:
        return lazy_copy(x)
    if turns == 2:
        return flip(x, plane)
    return flip(transpose(x, plane[0], plane[1]), plane[0 if turns == 1 else 1])


@shown_as("RollBackward0", "x")
@replayable
def roll(
    x: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None
) -> Tensor:
    """Return a copy with elements moved along dimensions, around the ends.

    Parameters
    ----------
    x : Tensor
    shifts : int or sequence of int
        How far, towards higher places if positive; one for each of `dims`.
    dims : int, sequence of int or None
        None rolls the flat tensor.

    Raises
    ------
    ShapeError
        If there are not as many shifts as dimensions.
    """
    if dims is None:
        return reshape(roll(flatten(x), shifts, 0), x.layout.shape)
    given = as_int_or_ints("roll: shifts", shifts), as_int_or_ints("roll: dims", dims)
    pushes, wanted = ((each,) if isinstance(each, int) else each for each in given)
    if len(pushes) != len(wanted):
        raise ShapeError(
            f"roll: {len(pushes)} shifts for {len(wanted)} dimensions; there must be"
            " one for each"
        )
    total: dict[int, int] = {}
    for push, dim in zip(pushes, wanted):
        at = normalize_dim("roll", dim, len(x.layout.shape))
        total[at] = total.get(at, 0) + push
    changes = {
        dim: Mapped(x.layout.shape[dim], -push % x.layout.shape[dim])
        for dim, push in total.items()
        if x.layout.shape[dim] and push % x.layout.shape[dim]
    }
    return _mapped(x, changes, "circular")


def _padded(
    x: Tensor, pad: Sequence[int], mode: str = "constant", value: object = None
) -> str:
    """Return PyTorch's name of the node of `pad`."""
    if mode == "constant":
        return "ConstantPadNdBackward0"
    kind = {"reflect": "Reflection", "replicate": "Replication"}.get(mode)
    return "" if kind is None else f"{kind}Pad{len(pad) // 2}DBackward0"


@shown_as(_padded, "x")
@replayable
def pad(
    x: Tensor,
    pad: Sequence[int],
    mode: str = "constant",
    value: float | None = None,
) -> Tensor:
    """Return a copy with elements added at, or taken off, both ends of dimensions.

    Parameters
    ----------
    x : Tensor
    pad : sequence of int
        Elements added before and after, for the last dimension, then the one before
        it, and so on. Below 0 they are taken off, with `mode` "constant" only.
    mode : str
        "constant": `value`; "reflect": the elements within, mirrored at the last one;
        "replicate": the last one; "circular": those of the other end.
    value : float or None
        None means 0.

    Raises
    ------
    ShapeError
        If there are too many paddings, or more elements are added or taken off than
        there are.
    DTypeError
        If the value is beyond an integer dtype.
    """
    pad = as_ints("pad: pad", pad)
    pairs = list(zip(pad[0::2], pad[1::2]))
    if mode not in MODES[:4]:
        raise ShapeError(f"pad: mode is {mode!r}; it must be one of {MODES[:4]}")
    if len(pad) % 2 or len(pairs) > len(x.layout.shape):
        raise ShapeError(
            f"pad: {len(pad)} paddings for {x.ndim} dimensions; there must be two for"
            " each, or for the last ones"
        )
    changes = {}
    for back, (before, after) in enumerate(pairs, start=1):
        dim, size = len(x.layout.shape) - back, x.layout.shape[-back]
        _check_padding(mode, dim, size, before, after)
        if before or after:
            changes[dim] = Mapped(size + before + after, -before)
    sizes = dict(enumerate(x.layout.shape)) | {
        dim: m.size for dim, m in changes.items()
    }
    check_numel("pad", tuple(sizes.values()))
    fill = number("pad", x.dtype, 0 if value is None else value)
    if mode in ("reflect", "replicate"):
        return _edges(x, changes, mode, fill)
    return _mapped(x, changes, mode, fill)


@autocast_float32_on_host
def _edges(x: Tensor, changes: dict[int, Mapped], mode: str, fill: float) -> Tensor:
    """Return `_mapped`, on the lists of autocast where `x` gives the new elements."""
    return _mapped(x, changes, mode, fill)


def _check_padding(mode: str, dim: int, size: int, before: int, after: int) -> None:
    """Raise `ShapeError` if a dimension cannot be padded so."""
    most = {"reflect": size - 1, "circular": size}.get(mode, max(before, after, 0))
    least = -size if mode == "constant" else 0
    enough = size > 0 or mode == "constant" or not (before or after)
    if min(before, after) < least or max(before, after) > most or not enough:
        raise ShapeError(
            f"pad: ({before}, {after}) for dimension {dim} of size {size} in mode"
            f" {mode!r}; there are not enough elements"
        )
    if size + before + after < 0:
        raise ShapeError(
            f"pad: ({before}, {after}) takes more than the {size} elements of dimension"
            f" {dim}"
        )


@shown_as("RepeatBackward0", "x")
@replayable
def repeat(x: Tensor, *repeats: int | Sequence[int]) -> Tensor:
    """Return copies of the tensor side by side.

    Parameters
    ----------
    x : Tensor
    *repeats : int or sequence of int
        How often along each dimension; more numbers than dimensions add dimensions in
        front.

    Raises
    ------
    ShapeError
        If there are fewer numbers than dimensions, or one is below 0.
    """
    times = _numbers("repeat: repeats", repeats)
    if len(times) < len(x.layout.shape) or min(times, default=0) < 0:
        raise ShapeError(
            f"repeat: {times} for a tensor of shape {tuple(x.shape)}; there must be a"
            " number"
            " of at least 0 for each dimension"
        )
    sizes = (1,) * (len(times) - len(x.layout.shape)) + x.layout.shape
    if all(each == 1 for each in times):
        return unshared(reshape(x, sizes), x)
    # (a, b) -> (1, a, 1, b) -> (m, a, n, b) -> (m a, n b)
    apart = reshape(x, tuple(n for size in sizes for n in (1, size)))
    wide = expand(apart, tuple(n for pair in zip(times, sizes) for n in pair))
    return unshared(reshape(wide, tuple(n * size for n, size in zip(times, sizes))), x)


def tile(
    x: Tensor, *sizes: int | Sequence[int], dims: Sequence[int] | None = None
) -> Tensor:
    """Return copies of the tensor side by side, as in NumPy.

    Parameters
    ----------
    x : Tensor
    *sizes : int or sequence of int
        How often along each dimension, from the last one; missing numbers in front mean
        1, and more of them add dimensions in front.
    dims : sequence of int or None
        The same as one argument, by PyTorch's keyword.

    Raises
    ------
    ShapeError
        If a number is below 0.
    """
    times = _numbers("tile: dims", sizes if dims is None else (dims,))
    return repeat(x, (1,) * (len(x.layout.shape) - len(times)) + times)


def _numbers(where: str, values: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    """Return ints given as several or as one sequence."""
    return as_ints(where, as_shape(values))
