"""Making nested tensors, and dense tensors of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ops
from ..base.device import Device
from ..base.dtype import DTypeLike, int64
from ..base.errors import DomainError, ShapeError
from ..tensor.from_data import as_tensor, tensor
from ..tensor.tensor import Tensor
from .nested_tensor import NestedTensor
from .ragged import RaggedSize

DeviceLike = Device | str | int | None


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: DTypeLike | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """Return a nested tensor with copies of sequences, a leaf.

    Parameters
    ----------
    tensor_list : sequence of array_like or Tensor
        Of the same number of dimensions, and of sizes that differ in the first alone.
    dtype, device
        None means those of the first.
    layout : layout or None
        Without effect: the layout is `jagged`.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it.
    pin_memory : bool, default False
        Has no effect.

    Raises
    ------
    DomainError
        If there is no sequence, or sizes do not fit.

    Examples
    --------
    >>> x = fw.nested.nested_tensor([fw.ones(2), fw.zeros(3)], layout=fw.jagged)
    >>> x.to_padded_tensor(-1.0).tolist()
    [[1.0, 1.0, -1.0], [0.0, 0.0, 0.0]]
    """
    listed = [as_tensor(each, dtype, device).detach() for each in tensor_list]
    made: NestedTensor = _joined(listed)
    if requires_grad:
        made.requires_grad_()
    return made


def as_nested_tensor(
    ts: Any,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    layout: Any = None,
) -> NestedTensor:
    """Return a nested tensor of sequences, on their tape; see `nested_tensor`.

    Parameters
    ----------
    ts : sequence of Tensor, or Tensor
        A dense tensor is taken for sequences of the same length.
    dtype, device, layout
        As for `nested_tensor`.
    """
    if isinstance(ts, NestedTensor):
        return ts
    made: NestedTensor = _joined([as_tensor(each, dtype, device) for each in ts])
    return made


def _joined(listed: Sequence[Tensor]) -> Any:
    if not listed or any(not each.ndim for each in listed):
        raise DomainError(
            "nested_tensor: there is no sequence, or one has no dimension; give tensors"
            " of at least one"
        )
    rest = listed[0].shape[1:]
    if any(each.shape[1:] != rest for each in listed):
        shapes = ", ".join(str(tuple(each.shape)) for each in listed[:4])
        raise DomainError(
            f"nested_tensor: shapes are {shapes}; they must differ in the first"
            " dimension alone"
        )
    values: Tensor = ops.cat(list(listed))
    bounds = np.cumsum([0, *[each.shape[0] for each in listed]])
    return NestedTensor.of(values, RaggedSize(tensor(bounds, int64, values.device)))


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """Return a nested tensor over the elements of sequences, which it shares.

    Parameters
    ----------
    values : Tensor, shape (elements, ...)
        One sequence behind the other.
    offsets : Tensor, shape (sequences + 1,), integers, or None
        Where each begins and ends; None sums `lengths`.
    lengths : Tensor, shape (sequences,), integers, or None
        Lengths; not beside offsets, as sequences lie without gaps.
    jagged_dim : int or None
        1, the dimension that differs.
    min_seqlen : int or None
        Without effect.
    max_seqlen : int or None
        What `to_padded_tensor` pads to.

    Raises
    ------
    DomainError
        If there are neither offsets nor lengths, or both.
    """
    if (offsets is None) == (lengths is None):
        raise DomainError(
            "nested_tensor_from_jagged: offsets or lengths must be given, and not both,"
            " as sequences lie without gaps"
        )
    if jagged_dim not in (None, 1):
        raise NotImplementedError(
            f"nested_tensor_from_jagged: jagged_dim is {jagged_dim}; it must be 1"
        )
    if offsets is None:
        assert lengths is not None
        zero = lengths.new_zeros((1,))
        offsets = ops.cat([zero, ops.cumsum(lengths, 0).to(lengths.dtype)])
    if offsets.ndim != 1 or not values.ndim:
        raise ShapeError(
            f"nested_tensor_from_jagged: offsets are {tuple(offsets.shape)}; they must"
            " be a vector"
        )
    ragged = _ragged(offsets)
    ragged.width = values.shape[0] if max_seqlen is None else max_seqlen
    found: NestedTensor = NestedTensor.of(values, ragged)
    return found


def _ragged(offsets: Tensor) -> RaggedSize:
    """Return the ragged size of offsets: the same one for the same tensor."""
    known = offsets.__dict__.get("_ragged_size")
    if known is None:
        known = offsets.__dict__["_ragged_size"] = RaggedSize(offsets)
    found: RaggedSize = known
    return found


def to_padded_tensor(
    input: Tensor, padding: float, output_size: Any = None, out: Tensor | None = None
) -> Tensor:
    """Return a dense tensor of sequences; see `NestedTensor.to_padded_tensor`.

    Parameters
    ----------
    input : NestedTensor
        Sequences of different lengths.
    padding : float
        What fills the places behind each.
    output_size : sequence of int or None
        Shape of the result; None means the least.
    out : Tensor or None
        Written instead, and returned.
    """
    if not isinstance(input, NestedTensor) or out is not None:
        raise DomainError(
            "to_padded_tensor: the input must be a nested tensor, and out None"
        )
    return input.to_padded_tensor(padding, output_size)
