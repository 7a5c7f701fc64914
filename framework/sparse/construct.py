"""Making sparse tensors: of places and values, or of dense tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..base.device import Device
from ..base.dtype import (
    DType,
    DTypeLike,
    default_dtype,
    float16,
    float32,
    float64,
    int32,
    int64,
)
from ..base.errors import DomainError, ShapeError
from ..base.memory_format import layout as layout_token
from ..base.memory_format import sparse_coo, sparse_csc, sparse_csr
from ..base.validation import as_int, sizes_of
from ..tensor.factories import zeros
from ..tensor.from_data import as_tensor
from ..tensor.tensor import Tensor
from .compressed import CompressedTensor, SparseCscTensor, SparseCsrTensor
from .coo import SparseTensor
from .invariants import check_bounds, check_places, checking
from .places import keys_of, places_of

DeviceLike = Device | str | int | None


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
    pin_memory: bool = False,
) -> SparseTensor:
    """Return a sparse tensor in coordinate format.

    Parameters
    ----------
    indices : array_like or Tensor, shape (sparse_dim, nnz), integers
        Where the values are; a place may come several times, and its values are summed.
    values : array_like or Tensor, shape (nnz, ...)
        Numbers, or slices of the dense dimensions that follow.
    size : sequence of int or None
        The shape; None takes the smallest that holds all places, which is read. A size
        alone makes a tensor without stored elements.
    dtype : DType, str or None
        None means that of the values.
    device : Device, str or None
        None means where the values are.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for the values.
    check_invariants : bool or None
        Whether places are read and compared with the sizes; None asks
        `sparse.check_sparse_tensor_invariants`, which is off at first.
    is_coalesced : bool or None
        Whether places are said to be in order, each once.
    pin_memory : bool, default False
        Has no effect.

    Returns
    -------
    SparseTensor

    Raises
    ------
    ShapeError
        If places, values and size do not fit to each other.

    Examples
    --------
    >>> x = fw.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    >>> x.to_dense().tolist()
    [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]
    """
    if values is None and (size is not None or _is_size(indices)):
        shape = sizes_of("sparse_coo_tensor", indices if size is None else size)
        return _empty(shape, dtype, device, requires_grad)
    if indices is None or values is None:
        raise TypeError(
            "sparse_coo_tensor: indices or values are missing; give both, or a size"
        )
    elements = as_tensor(values, dtype, device)
    places = as_tensor(indices, device=elements.device)
    if places.dtype.is_float or places.dtype.is_complex:
        if places.numel():
            raise TypeError(
                f"sparse_coo_tensor: indices are {places.dtype.name}; they must be"
                " integers"
            )
    places = places.detach().to(int64)
    if elements.ndim == 0 and places.ndim == 2:
        elements = elements.expand((places.shape[1],))
    shape = _shape_of(places, elements, size)
    if checking(check_invariants):
        check_places("sparse_coo_tensor", places, shape)
    # A result of the values, of which it is no second name.
    elements = elements.clone() if elements.needs_grad else elements.detach()
    known = bool(is_coalesced) or places.shape[1] == 0
    made = SparseTensor.of(places, elements, shape, known)
    if is_coalesced is None and places.shape[1] == 1:
        made.coalesced = True
    return made.requires_grad_() if requires_grad else made


def _is_size(given: Any) -> bool:
    return isinstance(given, list | tuple) and all(type(each) is int for each in given)


def _empty(
    shape: tuple[int, ...],
    dtype: DTypeLike | None,
    device: DeviceLike,
    requires_grad: bool,
) -> SparseTensor:
    kind = default_dtype() if dtype is None else dtype
    values = zeros((0,), dtype=kind, device=device)
    places = zeros((len(shape), 0), dtype=int64, device=device)
    made = SparseTensor.of(places, values, shape, True)
    return made.requires_grad_() if requires_grad else made


def _shape_of(
    places: Tensor, values: Tensor, size: Sequence[int] | None
) -> tuple[int, ...]:
    """Return the shape of a sparse tensor; check that its parts fit."""
    if places.ndim != 2:
        raise ShapeError(
            f"sparse_coo_tensor: indices are {tuple(places.shape)}; they must be"
            " (sparse_dim, nnz)"
        )
    if not values.ndim or places.shape[1] != values.shape[0]:
        raise ShapeError(
            f"sparse_coo_tensor: there are {places.shape[1]} places and values of shape"
            f" {tuple(values.shape)}; there must be as many values"
        )
    if size is None:
        sizes = [0] * places.shape[0]
        if places.numel():
            sizes = [int(each) + 1 for each in places.host_copy().max(1)]
        return (*sizes, *values.shape[1:])
    shape = sizes_of("sparse_coo_tensor", tuple(size))
    dense = tuple(values.shape[1:])
    if len(shape) != places.shape[0] + len(dense) or (
        shape[places.shape[0] :] != dense
    ):
        raise ShapeError(
            f"sparse_coo_tensor: size is {tuple(shape)} for {places.shape[0]} sparse"
            f" dimensions and values of shape {tuple(values.shape)}; it must have the"
            " dense sizes behind the sparse ones"
        )
    return tuple(shape)


def _compressed(
    where: str,
    made: type[CompressedTensor],
    bounds: Any,
    others: Any,
    values: Any,
    size: Sequence[int] | None,
    dtype: DTypeLike | None,
    device: DeviceLike,
    requires_grad: bool,
    check_invariants: bool | None,
) -> Any:
    elements = as_tensor(values, dtype, device)
    ends = as_tensor(bounds, device=elements.device).detach()
    numbers = as_tensor(others, device=elements.device).detach()
    for name, part in (("bounds", ends), ("indices", numbers)):
        if part.ndim != 1 or part.dtype not in (int32, int64):
            raise ShapeError(
                f"{where}: the {name} are {tuple(part.shape)}, {part.dtype.name}; they"
                " must be a vector of int32 or int64, as batches are not taken"
            )
    if elements.ndim != 1 or elements.shape != numbers.shape or not ends.numel():
        raise ShapeError(
            f"{where}: values are {tuple(elements.shape)} and indices"
            f" {tuple(numbers.shape)}; there must be as many of both"
        )
    if size is None:
        wide = int(numbers.host_copy().max()) + 1 if numbers.numel() else 0
        lines = ends.shape[0] - 1
        size = (lines, wide) if made.by_rows else (wide, lines)
    shape = tuple(sizes_of(where, tuple(size)))
    if len(shape) != 2:
        raise ShapeError(f"{where}: size is {shape}; it must be that of a matrix")
    if checking(check_invariants):
        check_bounds(where, ends, numbers, shape if made.by_rows else shape[::-1])
    # A result of the values, of which it is no second name.
    elements = elements.clone() if elements.needs_grad else elements.detach()
    found = made.of(ends, numbers, elements, shape)
    return found.requires_grad_() if requires_grad else found


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    pin_memory: bool = False,
) -> SparseCsrTensor:
    """Return a sparse matrix in compressed rows.

    Parameters
    ----------
    crow_indices : array_like or Tensor, shape (rows + 1,), int32 or int64
        Where each row begins and ends among the values.
    col_indices : array_like or Tensor, shape (nnz,), int32 or int64
        The column of each value.
    values : array_like or Tensor, shape (nnz,)
    size : sequence of int or None
        (rows, columns); None takes the smallest, which is read.
    dtype, device, requires_grad, check_invariants, pin_memory
        As for `sparse_coo_tensor`.

    Raises
    ------
    ShapeError
        If the parts do not fit to each other.

    Examples
    --------
    >>> fw.sparse_csr_tensor([0, 1, 2], [1, 0], [2.0, 3.0]).to_dense().tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    made: SparseCsrTensor = _compressed(
        "sparse_csr_tensor",
        SparseCsrTensor,
        crow_indices,
        col_indices,
        values,
        size,
        dtype,
        device,
        requires_grad,
        check_invariants,
    )
    return made


def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    pin_memory: bool = False,
) -> SparseCscTensor:
    """Return a sparse matrix in compressed columns.

    Parameters
    ----------
    ccol_indices : array_like, shape (columns + 1,)
        Where each column begins among the values, and the end.
    row_indices : array_like
        Row of each value.
    values, size, dtype, device, requires_grad, check_invariants, pin_memory
        As in `sparse_csr_tensor`, and its errors.
    """
    made: SparseCscTensor = _compressed(
        "sparse_csc_tensor",
        SparseCscTensor,
        ccol_indices,
        row_indices,
        values,
        size,
        dtype,
        device,
        requires_grad,
        check_invariants,
    )
    return made


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: DTypeLike | None = None,
    layout: layout_token | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    pin_memory: bool = False,
) -> Any:
    """Return a sparse matrix in compressed rows or columns.

    Parameters
    ----------
    compressed_indices, plain_indices, values
        As in `sparse_csr_tensor`, or in `sparse_csc_tensor`, by `layout`.
    size, dtype, device, requires_grad, check_invariants, pin_memory
        As there.
    layout : sparse_csr or sparse_csc

    Raises
    ------
    NotImplementedError
        If the layout is another.
    """
    kinds = {sparse_csr: SparseCsrTensor, sparse_csc: SparseCscTensor}
    if layout not in kinds:
        raise NotImplementedError(
            f"sparse_compressed_tensor: layout is {layout!r}; it must be sparse_csr or"
            " sparse_csc"
        )
    return _compressed(
        "sparse_compressed_tensor",
        kinds[layout],
        compressed_indices,
        plain_indices,
        values,
        size,
        dtype,
        device,
        requires_grad,
        check_invariants,
    )


def to_sparse(
    x: Tensor,
    sparse_dims: int | None = None,
    *,
    layout: layout_token | None = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Any:
    """Return the elements of a dense tensor that are not zero, with their places.

    How many there are is read by the host, which waits for it. A slice of the dense
    dimensions is stored if any of its elements is not zero.

    Parameters
    ----------
    x : Tensor
    sparse_dims : int or None
        How many leading dimensions are sparse; None means all.
    layout : layout or None
        None means `sparse_coo`; `sparse_csr` and `sparse_csc` take matrices.
    blocksize, dense_dim : None
        Not taken, as there are no block layouts.

    Raises
    ------
    ShapeError
        If there are not as many dimensions.
    """
    if blocksize is not None:
        raise NotImplementedError("to_sparse: blocksize is given; there are no blocks")
    count = x.ndim
    if sparse_dims is not None:
        count = as_int("to_sparse: sparse_dims", sparse_dims)
    if not 0 <= count <= x.ndim or (not count and x.ndim):
        raise ShapeError(
            f"to_sparse: sparse_dim is {count} for {x.ndim} dimensions; it must be from"
            f" 1 to {x.ndim}"
        )
    sizes, rest = x.layout.shape[:count], x.layout.shape[count:]
    flat = x.reshape((math.prod(sizes), *rest))
    wide = ops.ne(flat.detach(), 0).reshape((flat.shape[0], math.prod(rest)))
    chosen = wide.any(1)
    keys = ops.nonzero(chosen).reshape((-1,))
    values = ops.index_select(flat, 0, keys)
    places = places_of(keys.to(int64), sizes)
    found = SparseTensor.of(places, values, x.layout.shape, True)
    return found.to_sparse(layout=sparse_coo if layout is None else layout)


def sparse_mask(x: Tensor, mask: Any) -> SparseTensor:
    """Return the elements of a dense tensor in the places of a sparse one.

    Raises
    ------
    NotImplementedError
        If the mask is no sparse COO tensor.
    ShapeError
        If shapes differ.
    """
    if not isinstance(mask, SparseTensor):
        raise NotImplementedError(
            f"sparse_mask: the mask is a {type(mask).__name__}; it must be a sparse COO"
            " tensor"
        )
    if x.shape != mask.shape:
        raise ShapeError(
            f"sparse_mask: the tensor is {tuple(x.shape)}, the mask"
            f" {tuple(mask.shape)}; shapes must be the same"
        )
    return SparseTensor.of(
        mask.places, taken(x, mask), mask.layout.shape, mask.coalesced
    )


def taken(x: Tensor, mask: SparseTensor) -> Tensor:
    """Return the elements of a dense tensor in the places of a sparse one."""
    sizes = mask.sizes
    flat = x.reshape((math.prod(sizes), *x.layout.shape[len(sizes) :]))
    found: Tensor = ops.index_select(flat, 0, keys_of(mask.places, sizes))
    return found


def spdiags(
    diagonals: Tensor,
    offsets: Tensor,
    shape: Sequence[int],
    layout: layout_token | None = None,
) -> Any:
    """Return a sparse matrix with given diagonals.

    Parameters
    ----------
    diagonals : Tensor, shape (n, length) or (length,)
        One in each row; the element in column j goes to column j of the matrix.
    offsets : Tensor, shape (n,) or (), integers
        Which diagonals: 0 is the main one, positive ones lie above.
    shape : (rows, columns)
    layout : layout or None
        None means `sparse_coo`.

    Raises
    ------
    DomainError
        If there are not as many offsets as diagonals, or one comes twice.
    """
    rows = diagonals if diagonals.ndim == 2 else diagonals.unsqueeze(0)
    numbers = np.atleast_1d(offsets.host_copy())
    if len(numbers) != rows.shape[0] or len({*numbers.tolist()}) < len(numbers):
        raise DomainError(
            f"spdiags: there are {rows.shape[0]} diagonals and offsets"
            f" {numbers.tolist()}; there must be one for each, all different"
        )
    column = np.broadcast_to(np.arange(rows.shape[1]), tuple(rows.shape))
    row = column - numbers[:, None]
    height, width = shape
    kept = (row >= 0) & (row < height) & (column < width)
    pair = np.stack([row[kept], column[kept]]).astype(np.int64)
    chosen = np.flatnonzero(kept)
    flat = rows.reshape((rows.numel(),))
    values = ops.index_select(flat, 0, as_tensor(chosen, device=rows.device))
    found = SparseTensor.of(
        as_tensor(pair, device=rows.device), values, (height, width), False
    )
    return found if layout is None else found.to_sparse(layout=layout)


def legacy(name: str, dtype: DType) -> Callable[..., SparseTensor]:
    """Return the function that stands for a type of sparse tensors."""

    def make(*parts: Any, device: DeviceLike = None) -> SparseTensor:
        if len(parts) < 2 or not isinstance(parts[0], Tensor):
            sizes = parts[0] if len(parts) == 1 else parts
            return sparse_coo_tensor(size=tuple(sizes), dtype=dtype, device=device)
        return sparse_coo_tensor(*parts, dtype=dtype, device=device)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Return a sparse {dtype.name} tensor; see `sparse_coo_tensor`."
    return make


FloatTensor = legacy("FloatTensor", float32)
DoubleTensor = legacy("DoubleTensor", float64)
HalfTensor = legacy("HalfTensor", float16)
LongTensor = legacy("LongTensor", int64)
IntTensor = legacy("IntTensor", int32)
