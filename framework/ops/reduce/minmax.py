"""Minimum, maximum, argmin, argmax, all and any over dimensions.

Positions are int64 as in PyTorch, and int32 on a device without 64-bit integers.
Kernels count in 32 bits, and store either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from ...autograd.tape import show_as
from ...base.dtype import ANY, DType, bool_, uint8
from ...base.errors import ShapeError
from ...base.shape import TensorSpec, normalize_dim, normalize_dims, reduced_dims
from ...base.validation import as_int
from ...dispatch.declare import primitive
from ...dispatch.replayable import replayable
from ...eager.base_tensor import TensorCore
from ...ir.kernel_call import Argument, BufferOffset, Dispatch, StridedSpec
from ...kernels.reduce import kept_shape, reduce_dispatches, stateful, sum_like
from ...kernels.reduce_variants import reduce_candidates
from ...kernels.shader_types import place_defines
from ..elementwise.cast import cast
from ..elementwise.compare import eq, maximum, minimum, ne
from ..elementwise.unary import lazy_copy
from ..movement.concat import stack
from ..source import fill_like
from ..view import reshape
from .common import (
    as_dtype_of,
    as_places,
    at_places,
    empty_result,
    in_storage,
    need_elements,
    place_dtype,
    readable,
    stored_places,
)
from .sum import Dims, finish, reduce_empty, total
from .two_steps import in_two_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

MOST_POSITIONS = 1 << 31
"""Elements that kernels tell apart, whose indices are of 32 bits."""


class ValuesIndices(NamedTuple):
    """Extremes with indices: elements, and their index along a dimension."""

    values: Tensor
    indices: Tensor


@primitive(dtypes=ANY, strided=True, typed="x", reduction="max")
def _amax(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the largest elements over `dims`, which stay with size 1."""


@primitive(dtypes=ANY, strided=True, typed="x", reduction="min")
def _amin(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the smallest elements over `dims`, which stay with size 1."""


@_amax.spec
@_amin.spec
def _extreme_spec(x: TensorSpec, dims: tuple[int, ...]) -> TensorSpec:
    return TensorSpec(kept_shape(x.shape, dims), x.dtype)


@_amax.kernel
def _amax_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...]
) -> list[Dispatch]:
    return reduce_dispatches(gpu, sum_like("MAX", x.dtype, x.dtype), x, dims)


@_amin.kernel
def _amin_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...]
) -> list[Dispatch]:
    return reduce_dispatches(gpu, sum_like("MIN", x.dtype, x.dtype), x, dims)


@_amax.candidates
def _amax_candidates(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...]
) -> dict[str, Callable[[], list[Dispatch]]]:
    return reduce_candidates(gpu, sum_like("MAX", x.dtype, x.dtype), x, dims)


@_amin.candidates
def _amin_candidates(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...]
) -> dict[str, Callable[[], list[Dispatch]]]:
    return reduce_candidates(gpu, sum_like("MIN", x.dtype, x.dtype), x, dims)


@_amax.vjp
@_amin.vjp
def _extreme_vjp(grad: Tensor, x: Tensor, out: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Share the gradient evenly among the elements that attain the extreme."""
    chosen = cast(eq(x, out), grad.dtype)
    return chosen * (grad / total(chosen, dims, True, grad.dtype))


@_amax.reference
def _amax_reference(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    return np.max(x, axis=dims, keepdims=True)


@_amin.reference
def _amin_reference(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    return np.min(x, axis=dims, keepdims=True)


def _over(
    name: str,
    op: Callable[..., Tensor],
    x: Tensor,
    dim: Dims,
    keepdim: bool,
    node: str = "",
) -> Tensor:
    """Return an extreme over dimensions; a copy of a scalar `x`."""
    dims = reduced_dims(name, dim, len(x.layout.shape))
    need_elements(name, x.spec, dims)
    if not dims:
        return lazy_copy(x, node)
    if x.numel() == 0:
        return reduce_empty(x, dims, keepdim, 0, x.dtype)
    source, left = in_storage(x), dims
    # The gradient is shared among all that are equal, not first among those of a row.
    steps = None if source.needs_grad else in_two_steps(source, dims)
    if steps is not None:
        source, rows, left = steps
        source = op(source, rows)
    made = as_dtype_of(op(*readable(source, left)), x.dtype)
    out = finish(made, x.layout.shape, dims, keepdim)
    if out.grad_node is not None:
        show_as(out, node, x)
    return out


@primitive(dtypes=ANY, outputs=("least", "greatest"), strided=True, typed="x")
def _minmax(x: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return the smallest and largest elements over `dims`, which stay with size 1."""


@_minmax.spec
def _minmax_spec(x: TensorSpec, dims: tuple[int, ...]) -> tuple[TensorSpec, TensorSpec]:
    spec = _extreme_spec(x, dims)
    return spec, spec


@_minmax.kernel
def _minmax_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...]
) -> list[Dispatch]:
    both: dict[str, Argument] = {"least": "least", "greatest": "greatest"}
    return reduce_dispatches(
        gpu, stateful("reduce/minmax", x.dtype, 2, both, {}), x, dims
    )


@_minmax.reference
def _minmax_reference(
    x: np.ndarray, dims: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    return _amin_reference(x, dims), _amax_reference(x, dims)


@primitive(dtypes=ANY, strided=True, typed="x")
def _ends(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the smallest and the largest of all elements."""


@_ends.spec
def _ends_spec(x: TensorSpec, dims: tuple[int, ...]) -> TensorSpec:
    return TensorSpec((2,), x.dtype)


@_ends.kernel
def _ends_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...]
) -> list[Dispatch]:
    both: dict[str, Argument] = {"least": "out"}
    both["greatest"] = BufferOffset("out", x.dtype.itemsize)
    return reduce_dispatches(
        gpu, stateful("reduce/minmax", x.dtype, 2, both, {}), x, dims
    )


@_ends.reference
def _ends_reference(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    return np.array([np.min(x), np.max(x)])


def extremes(
    name: str, x: Tensor, dim: Dims = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest elements over dimensions, as `amin` does.

    Both are found in one pass, unless gradients are recorded or an element-wise op is
    about to make what is reduced.
    """
    dims = reduced_dims(name, dim, len(x.layout.shape))
    need_elements(name, x.spec, dims)
    source = in_storage(x)
    apart = not dims or x.numel() == 0 or source.needs_grad
    if apart or in_two_steps(source, dims) is not None:
        return amin(x, dim, keepdim), amax(x, dim, keepdim)
    found = _minmax(*readable(source, dims))
    least, greatest = (
        finish(as_dtype_of(each, x.dtype), x.layout.shape, dims, keepdim)
        for each in found
    )
    return least, greatest


def ends_of(name: str, x: Tensor) -> Tensor:
    """Return the smallest and the largest element, side by side for one read."""
    dims = tuple(range(len(x.layout.shape)))
    need_elements(name, x.spec, dims)
    if not dims:
        x, dims = reshape(x, (1,)), (0,)
    source = in_storage(x)
    if in_two_steps(source, dims) is not None:
        return stack([amin(x), amax(x)])
    return as_dtype_of(_ends(*readable(source, dims)), x.dtype)


@replayable
def amax(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return the largest element over dimensions; NaN if there is one.

    Parameters
    ----------
    x : Tensor, not complex
    dim : int, sequence of int or None
        None means all.
    keepdim : bool, default False
        Keep the dimensions with size 1.

    Returns
    -------
    Tensor, dtype of `x`
        The gradient is shared evenly among equal largest elements.

    Raises
    ------
    ShapeError
        If there are no elements to choose from.
    """
    return _over("amax", _amax, x, dim, keepdim, "AmaxBackward0")


@replayable
def amin(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return the smallest element over dimensions; NaN if there is one.

    Parameters
    ----------
    x : Tensor, not complex
    dim : int, sequence of int or None
        None means all.
    keepdim : bool, default False
        Keep the dimensions with size 1.

    Returns
    -------
    Tensor, dtype of `x`
        The gradient is shared evenly among equal smallest elements.

    Raises
    ------
    ShapeError
        If there are no elements to choose from.
    """
    return _over("amin", _amin, x, dim, keepdim, "AminBackward0")


@replayable
def any(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return whether an element over dimensions is not 0, as bool; NaN is not 0.

    Parameters
    ----------
    x : Tensor
    dim : int, sequence of int or None
        None means all; over no dimensions, `()`, the result has the shape of `x`.
    keepdim : bool, default False
        Keep the dimensions with size 1.

    Returns
    -------
    Tensor, bool
        Of uint8 it is uint8, as in PyTorch. Of no elements it is False.
    """
    return _holds("any", _amax, x, dim, keepdim, False)


@replayable
def all(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return whether every element over dimensions is not 0, as bool; NaN is not 0.

    Parameters
    ----------
    x : Tensor
    dim : int, sequence of int or None
        None means all; over no dimensions, `()`, the result has the shape of `x`.
    keepdim : bool, default False
        Keep the dimensions with size 1.

    Returns
    -------
    Tensor, bool
        Of uint8 it is uint8, as in PyTorch. Of no elements it is True.
    """
    return _holds("all", _amin, x, dim, keepdim, True)


def _holds(
    name: str,
    op: Callable[..., Tensor],
    x: Tensor,
    dim: Dims,
    keepdim: bool,
    otherwise: bool,
) -> Tensor:
    """Return an extreme of truth values, or `otherwise` where there are none."""
    dims = normalize_dims(name, dim, len(x.layout.shape))
    if x.dtype.is_float and x.is_gpu and dims and x.numel():
        # One kernel, which writes no truth values.
        test, mapping = (eq, "zero") if otherwise else (ne, "nonzero")
        return test(total(x.detach(), dims, keepdim, x.dtype, mapping=mapping), 0)
    truth = x if x.dtype is bool_ else ne(x, 0)
    if x.numel() == 0:
        held = reduce_empty(x, dims, keepdim, otherwise, bool_)
    else:
        held = _over(name, op, truth, dims, keepdim) if dims else lazy_copy(truth)
    return cast(held, uint8) if x.dtype is uint8 else held


def _positions(
    gpu: DeviceInfo,
    x: StridedSpec,
    dims: tuple[int, ...],
    greatest: bool,
    places: DType,
    results: dict[str, Argument],
) -> list[Dispatch]:
    """Return the dispatches of the extremes and their indices."""
    both = {"values": "out", "indices": "out", **results}
    constants = {"GREATEST": int(greatest), "VALUES": int("values" in results)}
    macros = place_defines(places)
    chosen = stateful(
        "reduce/argminmax", x.dtype, 2, both, constants, macros, ordered=True
    )
    return reduce_dispatches(gpu, chosen, x, dims)


def _need_positions(name: str, x: TensorSpec) -> None:
    if x.numel > MOST_POSITIONS:
        raise ShapeError(
            f"{name}: shape {tuple(x.shape)} has {x.numel} elements; positions are"
            " of 32 bits and"
            f" tell at most {MOST_POSITIONS} apart"
        )


@primitive(dtypes=ANY, strided=True, typed="x")
def _argmax(x: Tensor, dims: tuple[int, ...], places: DType) -> Tensor:
    """Return row-major positions of the largest elements over `dims`."""


@primitive(dtypes=ANY, strided=True, typed="x")
def _argmin(x: Tensor, dims: tuple[int, ...], places: DType) -> Tensor:
    """Return row-major positions of the smallest elements over `dims`."""


@_argmax.spec
@_argmin.spec
def _position_spec(x: TensorSpec, dims: tuple[int, ...], places: DType) -> TensorSpec:
    _need_positions("argmax", x)
    return TensorSpec(kept_shape(x.shape, dims), places)


@_argmax.kernel
def _argmax_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...], places: DType
) -> list[Dispatch]:
    return _positions(gpu, x, dims, True, places, {"indices": "out"})


@_argmin.kernel
def _argmin_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...], places: DType
) -> list[Dispatch]:
    return _positions(gpu, x, dims, False, places, {"indices": "out"})


@_argmax.reference
def _argmax_reference(
    x: np.ndarray, dims: tuple[int, ...], places: DType
) -> np.ndarray:
    return np.argmax(_reduced_last(x, dims), axis=-1)


@_argmin.reference
def _argmin_reference(
    x: np.ndarray, dims: tuple[int, ...], places: DType
) -> np.ndarray:
    return np.argmin(_reduced_last(x, dims), axis=-1)


def _reduced_last(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """Return `x` with the dimensions `dims` moved to the end and joined."""
    kept = [dim for dim in range(x.ndim) if dim not in dims]
    moved = x.transpose(*kept, *dims)
    return moved.reshape(*moved.shape[: len(kept)], -1)


def _position(
    name: str, op: Callable[..., Tensor], x: Tensor, dim: int | None, keepdim: bool
) -> Tensor:
    at = dim if dim is None else as_int(f"{name}: dim", dim)
    dims = normalize_dims(name, at, len(x.layout.shape))
    need_elements(name, x.spec, dims)
    if x.numel() == 0:
        return reduce_empty(x, dims, keepdim, 0, place_dtype(x))
    indexed = op(*readable(in_storage(x), dims), place_dtype(x))
    return finish(indexed, x.layout.shape, dims, keepdim)


@replayable
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the position of the largest element along `dim`, or in the flat tensor.

    Parameters
    ----------
    x : Tensor
    dim : int or None
        None takes all elements, in row-major order.
    keepdim : bool, default False
        Keep the dimension with size 1; without `dim` all of them.

    Returns
    -------
    Tensor, int64
        The first of equal ones; the first NaN if there is one. int32 on a device
        without 64-bit integers.

    Raises
    ------
    ShapeError
        If there are no elements to choose from.
    """
    return _position("argmax", _argmax, x, dim, keepdim)


@replayable
def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the position of the smallest element along `dim`, or in the flat tensor.

    Parameters
    ----------
    x : Tensor
    dim : int or None
        None takes all elements, in row-major order.
    keepdim : bool, default False
        Keep the dimension with size 1; without `dim` all of them.

    Returns
    -------
    Tensor, int64
        The first of equal ones; the first NaN if there is one. int32 on a device
        without 64-bit integers.

    Raises
    ------
    ShapeError
        If there are no elements to choose from.
    """
    return _position("argmin", _argmin, x, dim, keepdim)


@primitive(dtypes=ANY, outputs=("values", "indices"), strided=True, typed="x")
def _max(x: Tensor, dims: tuple[int, ...], places: DType) -> tuple[Tensor, Tensor]:
    """Return the largest elements along the one dimension of `dims`, and places."""


@primitive(dtypes=ANY, outputs=("values", "indices"), strided=True, typed="x")
def _min(x: Tensor, dims: tuple[int, ...], places: DType) -> tuple[Tensor, Tensor]:
    """Return the smallest elements along the one dimension of `dims`, and places."""


@_max.spec
@_min.spec
def _chosen_spec(
    x: TensorSpec, dims: tuple[int, ...], places: DType
) -> tuple[TensorSpec, TensorSpec]:
    _need_positions("max", x)
    shape = kept_shape(x.shape, dims)
    return TensorSpec(shape, x.dtype), TensorSpec(shape, places)


_BOTH: dict[str, Argument] = {"values": "values", "indices": "indices"}


@_max.kernel
def _max_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...], places: DType
) -> list[Dispatch]:
    return _positions(gpu, x, dims, True, places, _BOTH)


@_min.kernel
def _min_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...], places: DType
) -> list[Dispatch]:
    return _positions(gpu, x, dims, False, places, _BOTH)


@_max.vjp
@_min.vjp
def _chosen_vjp(
    grad: Tensor, indices: Tensor, x_spec: TensorSpec, dims: tuple[int, ...]
) -> Tensor:
    return at_places(grad, indices, x_spec.shape, dims[0])


@_max.reference
def _max_reference(
    x: np.ndarray, dims: tuple[int, ...], places: DType
) -> tuple[np.ndarray, np.ndarray]:
    return x.max(dims, keepdims=True), x.argmax(dims[0], keepdims=True)


@_min.reference
def _min_reference(
    x: np.ndarray, dims: tuple[int, ...], places: DType
) -> tuple[np.ndarray, np.ndarray]:
    return x.min(dims, keepdims=True), x.argmin(dims[0], keepdims=True)


def _chosen(
    name: str,
    op: Callable[..., tuple[Tensor, Tensor]],
    x: Tensor,
    dim: int,
    keepdim: bool,
) -> ValuesIndices:
    at = normalize_dim(name, dim, len(x.layout.shape) or 1)
    dims = (at,) if len(x.layout.shape) else ()
    need_elements(name, x.spec, dims)
    shape = kept_shape(x.layout.shape, dims)
    if not dims:
        indexed = lazy_copy(x), fill_like(x, shape, 0, place_dtype(x))
    elif x.numel() == 0:
        indexed = (
            empty_result(x, shape, 0, x.dtype),
            fill_like(x, shape, 0, place_dtype(x)),
        )
    else:
        indexed = op(*readable(in_storage(x), dims), stored_places(x))
    values, indices = (finish(each, x.layout.shape, dims, keepdim) for each in indexed)
    values = as_dtype_of(values, x.dtype)
    show_as(values, "MaxBackward0" if name == "max" else "MinBackward0", x)
    return ValuesIndices(values, as_places(indices))


@overload
def max(x: Tensor) -> Tensor: ...
@overload
def max(x: Tensor, dim: Tensor) -> Tensor: ...
@overload
def max(x: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices: ...
@replayable
def max(
    x: Tensor, dim: Tensor | int | None = None, keepdim: bool = False
) -> Tensor | ValuesIndices:
    """Return the largest element; along a dimension, also where it is.

    Parameters
    ----------
    x : Tensor
    dim : int, Tensor or None
        None takes all elements. A tensor means `maximum`.
    keepdim : bool, default False
        Keep the dimension with size 1.

    Returns
    -------
    Tensor, or ValuesIndices
        With a dimension, (values, indices), the first of equal ones, which then gets
        the whole gradient; without, it is shared as in `amax`.

    Raises
    ------
    ShapeError
        If there are no elements to choose from.
    """
    if isinstance(dim, TensorCore):
        if keepdim:
            raise TypeError("max: keepdim does not go with a second tensor")
        return maximum(x, dim)
    if dim is None:
        return _over("max", _amax, x, None, False, "MaxBackward1")
    return _chosen("max", _max, x, dim, keepdim)


@overload
def min(x: Tensor) -> Tensor: ...
@overload
def min(x: Tensor, dim: Tensor) -> Tensor: ...
@overload
def min(x: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices: ...
@replayable
def min(
    x: Tensor, dim: Tensor | int | None = None, keepdim: bool = False
) -> Tensor | ValuesIndices:
    """Return the smallest element; along a dimension, also where it is.

    Parameters
    ----------
    x : Tensor
        A NaN is smaller than every number.
    dim : int, Tensor or None
        None takes all elements. A tensor means `minimum`.
    keepdim : bool, default False
        Keep the dimension with size 1.

    Returns
    -------
    Tensor, or ValuesIndices
        With a dimension, (values, indices), the first of equal ones, which then gets
        the whole gradient; without, it is shared as in `amin`.

    Raises
    ------
    ShapeError
        If there are no elements to choose from.
    """
    if isinstance(dim, TensorCore):
        if keepdim:
            raise TypeError("min: keepdim does not go with a second tensor")
        return minimum(x, dim)
    if dim is None:
        return _over("min", _amin, x, None, False, "MinBackward1")
    return _chosen("min", _min, x, dim, keepdim)
