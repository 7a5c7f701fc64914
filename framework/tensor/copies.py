"""Views as copies: functions that return new elements where a method returns a view.

Gradients reach the tensor as through the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..autograd.tape import show_as, shown_as
from ..base.docstring import shares_parameters
from ..base.validation import as_ints
from ..dispatch.keywords import takes_keywords
from .factories import a_tensor
from .tensor import Tensor


@takes_keywords
@shown_as("AliasBackward0_copy", "input")
def alias_copy(input: Tensor) -> Tensor:
    """Return a copy of a tensor; see `Tensor.clone`.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    """
    return a_tensor("alias_copy", input).clone()


@takes_keywords
@shares_parameters(Tensor.as_strided)
@shown_as("AsStridedBackward0_copy", "input")
def as_strided_copy(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """Return a copy of what `Tensor.as_strided` shows."""
    x = a_tensor("as_strided_copy", input)
    return x.as_strided(size, stride, storage_offset).clone()


def detach_copy(input: Tensor) -> Tensor:
    """Return a copy off the tape, where PyTorch's is on it and has no derivative.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    """
    return a_tensor("detach_copy", input).detach().clone()


@takes_keywords
@shares_parameters(ops.diagonal, input="x")
@shown_as("DiagonalBackward0_copy", "input")
def diagonal_copy(
    input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """Return a copy of what `Tensor.diagonal` shows."""
    return a_tensor("diagonal_copy", input).diagonal(offset, dim1, dim2).clone()


@takes_keywords
@shown_as("ExpandBackward0_copy", "input")
def expand_copy(
    input: Tensor, size: Sequence[int], *, implicit: bool = False
) -> Tensor:
    """Return a copy of what `Tensor.expand` shows.

    Parameters
    ----------
    input : Tensor
        Any dtype.
    size : sequence of int
        The shape; -1 keeps a size.
    implicit : bool
        Without effect.
    """
    sizes = as_ints("expand_copy: size", size)
    return a_tensor("expand_copy", input).expand(*sizes).clone()


@takes_keywords
@shown_as("PermuteBackward0_copy", "input")
def permute_copy(input: Tensor, dims: Sequence[int]) -> Tensor:
    """Return a copy of what `Tensor.permute` shows.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dims : sequence of int
        Every dimension, in the new order.
    """
    order = as_ints("permute_copy: dims", dims)
    return a_tensor("permute_copy", input).permute(*order).clone()


@takes_keywords
@shares_parameters(ops.select, input="x")
@shown_as("SelectBackward0_copy", "input")
def select_copy(input: Tensor, dim: int, index: int) -> Tensor:
    """Return a copy of what `Tensor.select` shows."""
    return a_tensor("select_copy", input).select(dim, index).clone()


@takes_keywords
@shown_as("SliceBackward0_copy", "input")
def slice_copy(
    input: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """Return a copy of `input[start:end:step]` along a dimension.

    Parameters
    ----------
    input : Tensor
    dim : int, default 0
    start, end : int or None
        None means the first place, and behind the last.
    step : int, default 1

    Raises
    ------
    IndexError
        If there is no such dimension.
    """
    x = a_tensor("slice_copy", input)
    if not -x.ndim <= dim < x.ndim:
        raise IndexError(
            f"slice_copy: dim is {dim} for shape {tuple(x.shape)}; it must be from"
            f" {-x.ndim} to {x.ndim - 1}"
        )
    before = (slice(None),) * (dim % x.ndim)
    return x[(*before, slice(start, end, step))].clone()


@shares_parameters(ops.split, input="x")
@shown_as("SplitBackward0_copy", "input")
def split_copy(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return copies of what `Tensor.split` shows."""
    parts = a_tensor("split_copy", input).split(split_size, dim)
    return tuple(part.clone() for part in parts)


@shares_parameters(ops.split_with_sizes)
@shown_as("SplitWithSizesBackward0_copy", "input")
def split_with_sizes_copy(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Return copies of what `Tensor.split_with_sizes` shows."""
    x = a_tensor("split_with_sizes_copy", input)
    return tuple(part.clone() for part in x.split_with_sizes(split_sizes, dim))


@takes_keywords
@shares_parameters(ops.squeeze, input="x")
def squeeze_copy(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Return a copy of what `Tensor.squeeze` shows."""
    x = a_tensor("squeeze_copy", input)
    found = (x.squeeze() if dim is None else x.squeeze(dim)).clone()
    kind = 0 if dim is None else 1 if isinstance(dim, int) else 2
    show_as(found, f"SqueezeBackward{kind}_copy", x)
    return found


@takes_keywords
@shares_parameters(ops.t, input="x")
@shown_as("TBackward0_copy", "input")
def t_copy(input: Tensor) -> Tensor:
    """Return a copy of what `Tensor.t` shows."""
    return a_tensor("t_copy", input).t().clone()


@takes_keywords
@shares_parameters(ops.transpose, input="x")
@shown_as("TransposeBackward0_copy", "input")
def transpose_copy(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return a copy of what `Tensor.transpose` shows."""
    return a_tensor("transpose_copy", input).transpose(dim0, dim1).clone()


@shares_parameters(ops.unbind, input="x")
@shown_as("UnbindBackward0_copy", "input")
def unbind_copy(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Return copies of what `Tensor.unbind` shows."""
    return tuple(part.clone() for part in a_tensor("unbind_copy", input).unbind(dim))


@takes_keywords
@shares_parameters(Tensor.unfold)
@shown_as("UnfoldBackward0_copy", "input")
def unfold_copy(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return a copy of what `Tensor.unfold` shows.

    Parameters
    ----------
    input : Tensor
        Of at least one dimension, any dtype.
    """
    return a_tensor("unfold_copy", input).unfold(dimension, size, step).clone()


@takes_keywords
@shares_parameters(ops.unsqueeze, input="x")
@shown_as("UnsqueezeBackward0_copy", "input")
def unsqueeze_copy(input: Tensor, dim: int) -> Tensor:
    """Return a copy of what `Tensor.unsqueeze` shows."""
    return a_tensor("unsqueeze_copy", input).unsqueeze(dim).clone()


@takes_keywords
@shown_as("ViewBackward0_copy", "input")
def view_copy(input: Tensor, size: Any = None, *, dtype: Any = None) -> Tensor:
    """Return a copy of what `Tensor.view` shows: of sizes, or of a dtype.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    size : int, sequence of int or DType
        The shape, or the dtype that the bits are taken for.
    dtype : DType or None
        The dtype, instead.

    Raises
    ------
    TypeError
        If not one of `size` and `dtype` is given.
    """
    x = a_tensor("view_copy", input)
    if (size is None) is (dtype is None):
        raise TypeError("view_copy: give size or dtype, one of the two")
    size = dtype if size is None else size
    if isinstance(size, tuple | list):
        return x.reshape(*size).clone()
    return x.view(size).clone()
