"""Concatenation and stacking of tensors."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...autograd.tape import distinct, show_as
from ...base.dtype import STORED, promote
from ...base.errors import DTypeError, ShapeError
from ...base.shape import Layout, Shape, TensorSpec, collapse, normalize_dim
from ...dispatch.declare import primitive
from ...dispatch.view_cache import caches_views
from ...eager.base_tensor import TensorCore
from ...ir.kernel_call import BufferOffset, Dispatch, StridedSpec, divisor
from ...kernels.gemm.pack import VECTOR_SIZE
from ...kernels.linear import copy_dispatch, linear_dispatch, word_dispatch, words_of
from ...kernels.row_copy import WORD, Rows, copies_rows, row_dispatch
from ..elementwise.cast import cast, need_one_dtype
from ..elementwise.unary import copy
from ..view import expand, reshape, unsqueeze
from .slice import narrow

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

MAX_INPUTS = 8
"""Inputs of one dispatch of the shader."""

LEAST_ROWS = 1024
"""Words for each input from which copies of rows pay on lavapipe, each a dispatch.

They saved 13 ns a word of three tensors of 256x512 (Mesa 22.3.6, 2026-11-28); that a
dispatch takes as long as 1024 words is an estimate."""

Spec = TensorSpec | None


@primitive(dtypes=STORED)
def _concat(
    part0: Tensor,
    part1: Tensor,
    part2: Tensor | None,
    part3: Tensor | None,
    part4: Tensor | None,
    part5: Tensor | None,
    part6: Tensor | None,
    part7: Tensor | None,
    dim: int,
) -> Tensor:
    """Return the concatenation of tensors of one dtype; the last may be missing."""


def _parts(*parts: Spec) -> list[TensorSpec]:
    return [part for part in parts if part is not None]


@_concat.spec
def _concat_spec(
    part0: TensorSpec, part1: TensorSpec, part2: Spec, part3: Spec, part4: Spec,
    part5: Spec, part6: Spec, part7: Spec, dim: int,
) -> TensorSpec:  # fmt: skip
    parts = _parts(part0, part1, part2, part3, part4, part5, part6, part7)
    total = sum(part.shape[dim] for part in parts)
    if any(part.dtype is not part0.dtype for part in parts):
        names = ", ".join(part.dtype.name for part in parts)
        raise DTypeError(f"cat: the tensors are {names}; they must be of one dtype")
    return TensorSpec((*part0.shape[:dim], total, *part0.shape[dim + 1 :]), part0.dtype)


@_concat.kernel
def _concat_kernel(
    gpu: DeviceInfo, part0: StridedSpec, part1: StridedSpec, part2: Spec, part3: Spec,
    part4: Spec, part5: Spec, part6: Spec, part7: Spec, dim: int,
) -> Dispatch | list[Dispatch]:  # fmt: skip
    parts = _parts(part0, part1, part2, part3, part4, part5, part6, part7)
    copies = _row_copies(gpu, parts, dim)
    if copies:
        return copies
    inner = math.prod(part0.shape[dim + 1 :])
    ends = list(itertools.accumulate(part.shape[dim] * inner for part in parts))
    count = math.prod(part0.shape[:dim]) * ends[-1]
    words = words_of("cat", TensorSpec((count,), part0.dtype))
    width = VECTOR_SIZE // part0.dtype.itemsize
    if any(end % width for end in ends):
        width = 1
    ends = [end // width for end in ends]
    push: dict[str, int | str] = {"out_": "out", "count": count // width}
    push["width"] = ends[-1]
    push["width_magic"], push["width_shift"] = divisor(max(1, ends[-1]))
    for k in range(MAX_INPUTS):
        push[f"part{k}"] = f"part{k if k < len(parts) else 0}"
        push[f"end[{k}]"] = ends[k] if k < len(parts) else ends[-1]
    # Parts that are not there begin where the last one ends.
    joined = next(size for size in (2, 4, MAX_INPUTS) if len(parts) <= size)
    constants = {"PARTS_JOINED": joined, "SIZE": part0.dtype.itemsize}
    items, defines = (count // width, {"VECTORS": "1"}) if width > 1 else (words, {})
    return copy_dispatch(gpu, "copy/concat", items, push, constants, defines)


def _row_copies(
    gpu: DeviceInfo, parts: Sequence[TensorSpec], dim: int
) -> list[Dispatch]:
    """Return a copy of rows for each part where those are quickest, else nothing."""
    outer, itemsize = math.prod(parts[0].shape[:dim]), parts[0].dtype.itemsize
    widths = [math.prod(part.shape[dim:]) * itemsize for part in parts]
    if outer == 0 or any(width % WORD for width in widths):
        return []
    total, start, steps = sum(widths) // WORD, 0, []
    if outer * total < LEAST_ROWS * len(widths):
        return []
    for k, width in enumerate(widths):
        length = width // WORD
        rows = Rows(length, outer, 1, (length, 0), (total, 0))
        if length and not copies_rows(gpu, rows):
            return []
        if length:
            paired = start % 2 == 0
            out = BufferOffset("out", WORD * start)
            steps.append(row_dispatch(gpu, rows, f"part{k}", out, paired))
        start += length
    return steps


@_concat.vjp
def _concat_vjp(
    grad: Tensor, part0_spec: TensorSpec, part1_spec: TensorSpec, part2_spec: Spec,
    part3_spec: Spec, part4_spec: Spec, part5_spec: Spec, part6_spec: Spec,
    part7_spec: Spec, dim: int, needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    specs = (
        part0_spec, part1_spec, part2_spec, part3_spec,
        part4_spec, part5_spec, part6_spec, part7_spec,
    )  # fmt: skip
    return _split_grad(grad, specs, dim, needs)


def _split_grad(
    grad: Tensor, specs: Sequence[Spec], dim: int, needs: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Return the slices of a gradient for the inputs that need one."""
    answers: list[Tensor | None] = []
    start = 0
    for spec, needed in zip(specs, needs):
        size = spec.shape[dim] if spec is not None else 0
        answers.append(narrow(grad, dim, start, size) if needed else None)
        start += size
    return tuple(answers)


@_concat.reference
def _concat_reference(
    part0: np.ndarray, part1: np.ndarray, part2: np.ndarray | None,
    part3: np.ndarray | None, part4: np.ndarray | None, part5: np.ndarray | None,
    part6: np.ndarray | None, part7: np.ndarray | None, dim: int,
) -> np.ndarray:  # fmt: skip
    parts = (part0, part1, part2, part3, part4, part5, part6, part7)
    return np.concatenate([part for part in parts if part is not None], dim)


MAX_STRIDED_INPUTS = 4
"""Inputs of one dispatch of the shader for strided inputs."""


@primitive(dtypes=STORED, strided=True)
def _concat_strided(
    part0: Tensor,
    part1: Tensor,
    part2: Tensor | None,
    part3: Tensor | None,
    dim: int,
) -> Tensor:
    """Return the concatenation of tensors of equal strides; see `_merged_dims`."""


@_concat_strided.spec
def _concat_strided_spec(
    part0: TensorSpec, part1: TensorSpec, part2: Spec, part3: Spec, dim: int
) -> TensorSpec:
    return _concat_spec(part0, part1, part2, part3, None, None, None, None, dim)


@_concat_strided.kernel
def _concat_strided_kernel(
    gpu: DeviceInfo,
    part0: StridedSpec,
    part1: StridedSpec,
    part2: StridedSpec | None,
    part3: StridedSpec | None,
    dim: int,
) -> Dispatch:
    parts = [part for part in (part0, part1, part2, part3) if part is not None]
    out = _concat_strided_spec(part0, part1, part2, part3, dim)
    ends = list(itertools.accumulate(part.shape[dim] for part in parts))
    around = _merged_dims(part0.layout, dim)
    assert around is not None, "concat_strided: more dimensions than the shader takes"
    width = VECTOR_SIZE // out.dtype.itemsize
    if _is_vectorizable(parts, around, width):
        around = [(size, stride // width) for size, stride in around]
        around[-1] = around[-1][0] // width, 1
    else:
        width = 1
    push: dict[str, int | str] = {"out_": "out", "count": out.numel // width}
    for k in range(MAX_STRIDED_INPUTS):
        push[f"part{k}"] = f"part{k if k < len(parts) else 0}"
        push[f"end[{k}]"] = ends[k] if k < len(parts) else ends[-1]
    for k, (size, stride) in enumerate(around):
        push |= {f"size[{k}]": size, f"stride[{k}]": stride}
    push["size[2]"] = ends[-1]
    constants, kernel = {"PARTS_JOINED": len(parts)}, "copy/concat_strided"
    scalar = word_dispatch(kernel, "cat", out, push, constants)
    if width == 1:
        return scalar
    constants["SIZE"], vectors = out.dtype.itemsize, out.numel // width
    return linear_dispatch(kernel, vectors, push, constants, {"VECTORS": "1"})


def _is_vectorizable(
    parts: Sequence[StridedSpec], around: Sequence[tuple[int, int]], width: int
) -> bool:
    """Return whether inputs can be read in vectors of `width` elements."""
    *outer, (size, stride) = around
    steps = [step for count, step in outer if count > 1]
    steps += [part.layout.offset for part in parts]
    return stride == 1 and not any(number % width for number in (size, *steps))


@_concat_strided.vjp
def _concat_strided_vjp(
    grad: Tensor, part0_spec: TensorSpec, part1_spec: TensorSpec, part2_spec: Spec,
    part3_spec: Spec, dim: int, needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    specs = part0_spec, part1_spec, part2_spec, part3_spec
    return _split_grad(grad, specs, dim, needs)


@_concat_strided.reference
def _concat_strided_reference(
    part0: np.ndarray, part1: np.ndarray, part2: np.ndarray | None,
    part3: np.ndarray | None, dim: int,
) -> np.ndarray:  # fmt: skip
    parts = (part0, part1, part2, part3)
    return np.concatenate([part for part in parts if part is not None], dim)


def _merged_dims(layout: Layout, dim: int) -> list[tuple[int, int]] | None:
    """Return (size, stride) of two dimensions before `dim`, of it, and of two behind.

    Neighbouring dimensions are merged; None if there are more.
    """
    merged_dims: list[tuple[int, int]] = []
    for part in (slice(0, dim), slice(dim + 1, None)):
        merged = collapse(layout.shape[part], [layout.strides[part]])
        pairs = list(zip(merged.shape, merged.strides[0]))
        if len(pairs) > 2:
            return None
        merged_dims += [(1, 0)] * (2 - len(pairs)) + pairs
    merged_dims.insert(2, (layout.shape[dim], layout.strides[dim]))
    return merged_dims


def _same_strides(parts: Sequence[Tensor], dim: int) -> bool:
    """Return whether tensors are few, not contiguous, and of equal strides.

    One that begins within a 32-bit word would be copied, and have other strides then.
    """
    first = parts[0].layout
    return (
        1 < len(parts) <= MAX_STRIDED_INPUTS
        and not first.is_contiguous
        and all(each.layout.strides == first.strides for each in parts)
        and not any(each.layout.offset * each.dtype.itemsize % WORD for each in parts)
        and min(first.strides) >= 0
        and first.numel > 0
        and _merged_dims(first, dim) is not None
    )


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return the concatenation of tensors along a dimension.

    Parameters
    ----------
    tensors : sequence of Tensor
        At least one; equal sizes in all other dimensions. Dtypes promote.
    dim : int, default 0

    Raises
    ------
    ShapeError
        If there is none, or sizes differ.
    """
    parts = list(tensors)
    if not parts:
        raise ShapeError("cat: there are no tensors; at least one is needed")
    for part in [tensors] if isinstance(tensors, TensorCore) else parts:
        if part is tensors or not isinstance(part, TensorCore):
            kind = type(part).__name__
            raise TypeError(f"cat: {kind} is given; it must be a sequence of tensors")
    # As in PyTorch, tensors of shape (0,) are skipped, whatever the other shapes.
    parts = [part for part in parts if part.layout.shape != (0,)] or parts[:1]
    first = parts[0].layout.shape
    at = normalize_dim("cat", dim, len(first))
    before, after = first[:at], first[at + 1 :]
    for part in parts:
        shape = part.layout.shape
        alike = shape[:at] == before and shape[at + 1 :] == after
        if len(shape) != len(first) or not alike:
            raise ShapeError(
                f"cat: shapes {first} and {shape} differ outside of dimension {at};"
                " there they must be equal"
            )
    dtype = functools.reduce(promote, (each.dtype for each in tensors))
    parts = [part if part.dtype is dtype else cast(part, dtype) for part in parts]
    if len(parts) == 1:
        out = copy(parts[0])
        show_as(out, "CatBackward0", parts[0])
        return out
    while len(parts) > 1:
        parts = [_concat_group(group, at) for group in _groups(parts)]
    return parts[0]


def _groups(parts: list[Tensor]) -> list[list[Tensor]]:
    """Return tensors in groups of at most `MAX_INPUTS`.

    A small rest shares with the group before it, so that sequences of all lengths have
    the same kernel.
    """
    groups = [parts[k : k + MAX_INPUTS] for k in range(0, len(parts), MAX_INPUTS)]
    if len(groups) > 1 and 1 < len(groups[-1]) <= MAX_INPUTS // 2:
        last = groups.pop(-2) + groups[-1]
        groups[-1:] = [last[: len(last) // 2], last[len(last) // 2 :]]
    return groups


def _concat_group(parts: list[Tensor], dim: int) -> Tensor:
    """Return the concatenation of at most `MAX_INPUTS` tensors."""
    if len(parts) == 1:
        return parts[0]
    if _same_strides(parts, dim):
        missing = [None] * (MAX_STRIDED_INPUTS - len(parts))
        alike: Tensor = _concat_strided(*parts, *missing, dim)  # type: ignore[arg-type, call-arg]  # None fills
        return alike
    missing = [None] * (MAX_INPUTS - len(parts))
    joined: Tensor = _concat(*parts, *missing, dim)  # type: ignore[arg-type, call-arg]  # None fills
    return joined


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return tensors of one shape joined along a new dimension.

    Parameters
    ----------
    tensors : sequence of Tensor
        At least one; dtypes promote.
    dim : int, default 0
        Where the new dimension, as long as `tensors`, is in the result.

    Raises
    ------
    ShapeError
        If there is none, or shapes differ.
    """
    parts = list(tensors)
    if not parts:
        raise ShapeError("stack: there are no tensors; at least one is needed")
    at = normalize_dim("stack", dim, parts[0].ndim + 1)
    for part in parts:
        if part.shape != parts[0].shape:
            raise ShapeError(
                f"stack: shapes {tuple(parts[0].shape)} and {tuple(part.shape)}"
                " differ; they must be"
                " equal"
            )
    if len({*map(id, parts)}) < len(parts):
        parts = distinct(parts)
    out = cat([unsqueeze(part, at) for part in parts], at)
    if out.grad_node is not None:
        show_as(out, "StackBackward0", *parts)
    return out


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors joined along the second dimension; those of one dimension flat.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of one shape but for the dimension they are joined along; dtypes promote.
    """
    parts = [reshape(part, part.shape or (1,)) for part in tensors]
    return cat(parts, 0 if parts and parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors joined along the first dimension; those of one as rows.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of one shape but for the dimension they are joined along; dtypes promote.
    """
    return cat(
        [
            part
            if part.ndim > 1
            else unsqueeze(part, 0)
            if part.ndim
            else reshape(part, (1, 1))
            for part in tensors
        ]
    )


def meshgrid(
    *tensors: Tensor | Sequence[Tensor], indexing: Literal["ij", "xy"] = "ij"
) -> tuple[Tensor, ...]:
    """Return views of vectors that together name each point of a grid.

    Parameters
    ----------
    *tensors : Tensor or sequence of Tensor
        Of at most one dimension.
    indexing : str, default "ij"
        "ij" has the first vector along the first dimension, "xy" along the second.

    Raises
    ------
    ShapeError
        If a tensor is no vector, or `indexing` another word.
    """
    listed: list[Tensor] = []
    for each in tensors:
        # A tensor is asked for its class first, which is quicker.
        if not isinstance(each, TensorCore) and isinstance(each, Sequence):
            listed.extend(each)
        else:
            listed.append(each)
    shapes = [each.layout.shape for each in listed]
    if indexing not in ("ij", "xy") or max(map(len, shapes), default=0) > 1:
        raise ShapeError(
            f"meshgrid: indexing is {indexing!r}, shapes"
            f" {[tuple(t.shape) for t in listed]};"
            ' it must be "ij" or "xy", and they have at most one dimension'
        )
    if not listed:
        raise ShapeError("meshgrid: no tensors are given; there must be at least one")
    if len({each.array.value.dtype for each in listed}) > 1:
        named = {f"tensors[{at}]": x for at, x in enumerate(listed)}
        need_one_dtype("meshgrid", **named)
    order = list(range(len(listed)))
    if indexing == "xy" and len(listed) > 1:
        order[:2] = 1, 0
    sizes = tuple([shapes[at][0] if shapes[at] else 1 for at in order])
    return tuple([_along(x, place, sizes) for place, x in zip(order, listed)])


@caches_views
def _along(x: Tensor, dim: int, sizes: Shape) -> Tensor:
    """Return a view of a vector along one dimension, repeated along the others."""
    shape = [1] * len(sizes)
    shape[dim] = sizes[dim]
    return expand(reshape(x, tuple(shape)), sizes)
